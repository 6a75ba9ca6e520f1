"""What a final response says of a page: reason code and sentence. Here: pure functions. Not here: redirects, 304, what
is done about it.
"""

from __future__ import annotations

from crawl.http.exchange import Response
from crawl.outcomes import HTML_TYPES, essence, is_login_redirect, looks_like_html, may_be_page, reason_of_status
from transforms.challenges import Kind, find_challenge
from transforms.reasons import Reason

_MAY_CHALLENGE = frozenset({200, 401, 403, 404, 410, 429, 503})
_COMPRESSED = (b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")


def judge_response(response: Response, *, asked: str, final: str, page_cap: int) -> tuple[Reason, str | None]:
    """`asked` is the task's URL, `final` the one that answered, `page_cap` the bytes after which a page is cut."""
    status = response.status
    reason = reason_of_status(status)
    detail = None if reason is Reason.OK else f"The server answered {status}."
    if response.problem is not None and (reason is Reason.OK or response.problem is Reason.CONNECTION_RESET):
        reason, detail = response.problem, response.detail
    if reason is Reason.OK:
        reason, detail = _read_page(response, asked, final, page_cap)
    if status in _MAY_CHALLENGE:
        marker = find_challenge(response.body, response.headers, final, asked)
        if marker is not None and (status != 200 or reason in (Reason.OK, Reason.BODY_TRUNCATED, Reason.EMPTY_BODY)):
            reason = Reason.CONSENT_WALL if marker.kind is Kind.CONSENT else Reason.CHALLENGE
            detail = f"A page that stands between robots and the content ({marker.name}), with status {status}."
    return reason, detail


def _read_page(response: Response, asked: str, final: str, page_cap: int) -> tuple[Reason, str | None]:
    """A 2xx with a whole body: is it a page?"""
    content_type = response.get("content-type") or ""
    kind = essence(content_type)
    if not may_be_page(content_type) or (
        kind not in HTML_TYPES and response.body and not looks_like_html(response.body)
    ):
        return Reason.UNSUPPORTED_TYPE, f"Content-Type {content_type[:100]!r} is not a page whose links can be read."
    if response.truncated:
        return Reason.BODY_TRUNCATED, f"The page is longer than {page_cap} bytes and was cut there."
    if not response.body.strip(b" \t\r\n\0"):
        return Reason.EMPTY_BODY, "The page is empty."
    if response.body.startswith(_COMPRESSED):
        return Reason.BAD_ENCODING, "The body is compressed but no Content-Encoding says so."
    if is_login_redirect(asked, final):
        return Reason.LOGIN_REDIRECT, f"The page redirects to a sign-in page, {final[:200]}."
    return Reason.OK, None
