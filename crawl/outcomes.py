"""What an answer means: status, type and content to outcome and reason code. Here: pure functions. Not here: requests,
evidence (`transforms`), link extraction.
"""

from __future__ import annotations

import re

from transforms.challenges import has_much_text
from transforms.placeholders import PLACEHOLDER
from transforms.reasons import Outcome, Reason

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
ERROR_BODY_CAP = 256 * 1024
"""Decoded bytes that are read of a body that is not a page: enough to see a challenge."""
DRAIN_CAP = 32 * 1024
"""Of a redirect's or an unsupported type's body, so that the connection can be used again."""

_OK = frozenset({200, 201, 203})
TRANSIENT = frozenset(
    {
        Reason.DNS_FAILED,
        Reason.CONNECT_FAILED,
        Reason.CONNECT_TIMEOUT,
        Reason.FIRST_BYTE_TIMEOUT,
        Reason.TOTAL_TIMEOUT,
        Reason.CONNECTION_RESET,
        Reason.INCOMPLETE_BODY,
        Reason.HTTP_5XX,
        Reason.HTTP_429,
        Reason.HTTP_503,
    }
)
"""Failures that another attempt in the same window may help."""
UNREACHED = frozenset({Reason.CONNECT_FAILED, Reason.CONNECT_TIMEOUT, Reason.TLS_FAILED, Reason.DNS_FAILED})
"""Failures that say nothing of the page but all of the host: so many in a row back off the origin."""

_BLOCKED = frozenset(
    {
        Reason.BAD_URL,
        Reason.BAD_SCHEME,
        Reason.URL_CREDENTIALS,
        Reason.BAD_PORT,
        Reason.BLOCKED_NETWORK,
        Reason.SUPPRESSED,
        Reason.ROBOTS_DENIED,
        Reason.ROBOTS_UNREACHABLE,
        Reason.HTTP_401,
        Reason.HTTP_403,
        Reason.CHALLENGE,
        Reason.CONSENT_WALL,
        Reason.LOGIN_REDIRECT,
    }
)
_DEFERRED = frozenset(
    {Reason.HTTP_429, Reason.HTTP_503, Reason.ORIGIN_BACKOFF, Reason.WINDOW_BUDGET, Reason.STOPPED, Reason.NOT_FETCHED}
)
_GONE = frozenset({Reason.HTTP_404, Reason.HTTP_410})
_FETCHED = frozenset({Reason.OK, Reason.BODY_TRUNCATED})


def outcome_of(reason: Reason) -> Outcome:
    """Every reason a fetch can end with belongs to exactly one outcome."""
    if reason in _FETCHED:
        return Outcome.FETCHED
    if reason is Reason.NOT_MODIFIED:
        return Outcome.NOT_MODIFIED
    if reason in _GONE:
        return Outcome.GONE
    if reason in _BLOCKED:
        return Outcome.BLOCKED
    if reason in _DEFERRED:
        return Outcome.DEFERRED
    return Outcome.FAILED


def reason_of_status(status: int) -> Reason:
    """The reason of a final status; OK when the body decides. 202 is not OK: firewalls answer challenges with it."""
    if status in _OK:
        return Reason.OK
    if status in (404, 410):
        return Reason.HTTP_404 if status == 404 else Reason.HTTP_410
    if status in (401, 403, 429, 503):
        return {401: Reason.HTTP_401, 403: Reason.HTTP_403, 429: Reason.HTTP_429, 503: Reason.HTTP_503}[status]
    if 400 <= status < 500:
        return Reason.HTTP_4XX
    if 500 <= status < 600:
        return Reason.HTTP_5XX
    return Reason.HTTP_UNEXPECTED


def essence(content_type: str) -> str:
    """`text/html` of `Text/HTML; charset=x`."""
    return content_type.split(";", 1)[0].strip().lower()


def may_be_page(content_type: str) -> bool:
    """By its type alone; a missing or nonsensical type is decided by the body (`looks_like_html`)."""
    kind = essence(content_type)
    return kind in HTML_TYPES or "/" not in kind


_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*<"
    rb"(?:!doctype\s+html|html|head|body|!--|script|title|meta|div|p|a|h1|table|br|iframe|style|b|font)[\s>/-]",
    re.IGNORECASE,
)


def looks_like_html(body: bytes) -> bool:
    """WHATWG MIME sniffing §7.1, the HTML part."""
    return _HTML_START.match(body[:1445].replace(b"\0", b"")) is not None


def body_cap(status: int, content_type: str, page_cap: int) -> int:
    """How many decoded bytes of a body are worth reading."""
    if status in _OK:
        return page_cap if may_be_page(content_type) else DRAIN_CAP
    if 300 <= status < 400:
        return DRAIN_CAP
    return ERROR_BODY_CAP


_LOGIN_SEGMENTS = frozenset(
    {
        *("login", "log-in", "log_in", "login.php", "login.aspx", "login.html", "wp-login.php", "servicelogin"),
        *(
            "signin",
            "sign-in",
            "sign_in",
            "signin.php",
            "sso",
            "authorize",
            "auth",
            "accounts",
            "anmelden",
            "connexion",
        ),
    }
)
_RETURN_PARAMETER = re.compile(
    r"[?&](?:next|return(?:_?to|_?url)?|redirect(?:_to|_?uri|_?url)?|continue|service|goto|dest(?:ination)?|ref"
    r"|back(?:url)?|from|callbackurl)=",
    re.IGNORECASE,
)


def is_login_redirect(asked: str, final: str) -> bool:
    """A redirect ended on a sign-in page: its path names one where the asked URL's does not, and either it says where
    to return to or the last segment is the sign-in itself. Only ever a reason for evidence `none`."""
    if asked == final:
        return False
    segments = _segments(final)
    if not segments & _LOGIN_SEGMENTS or _segments(asked) & _LOGIN_SEGMENTS:
        return False
    last = _path(final).rstrip("/").rsplit("/", 1)[-1]
    return _RETURN_PARAMETER.search(final) is not None or last in _LOGIN_SEGMENTS - {"accounts", "auth"}


def _path(url: str) -> str:
    return url.split("?", 1)[0].split("://", 1)[-1].partition("/")[2].lower()


def _segments(url: str) -> set[str]:
    return set(_path(url).split("/"))


_TITLE_WITHIN = 16 * 1024
_NOT_FOUND = re.compile(
    rb"\b404\b|not\s+found|page\s+(?:is\s+)?(?:missing|unavailable|does\s?n.?t\s+exist)"
    rb"|no\s+longer\s+(?:exists|available)|nicht\s+gefunden|introuvable|no\s+encontrad[ao]|non\s+trovat[ao]"
    rb"|n[\xc3\xa3a]+o\s+encontrad[ao]"
)
_PARKED_WITHIN = 32 * 1024
_PARKED = tuple({marker.lower() for marker in PLACEHOLDER["parked"]})


def warnings_of(body: bytes) -> list[str]:
    """`soft_404` and `parked`: what a person should look at. Never a cause of loss."""
    found = []
    head = body[:_TITLE_WITHIN].lower()
    start = head.find(b"<title")
    if start >= 0:
        end = head.find(b"</title", start, start + 400)
        if _NOT_FOUND.search(head, start + 6, end if end > 0 else start + 400):
            found.append("soft_404")
    if len(body) <= _PARKED_WITHIN and not has_much_text(body):
        text = body.lower()
        if any(marker in text for marker in _PARKED):
            found.append("parked")
    return found
