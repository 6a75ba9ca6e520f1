"""Links that HTTP headers carry. Here: Link (RFC 8288) and Refresh. Not here: resolving them against the page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

_OWS = " \t"
_TOKEN_END = re.compile(r"[ \t=;,]")
_EXTENDED_VALUE = re.compile(r"(?:%[0-9A-Fa-f]{2}|[^%\"\\ \t])*")


class HeaderLink(NamedTuple):
    target: str
    """URI reference as written between `<` and `>`."""
    rel: tuple[str, ...]
    """Relation types, lower case; of the first `rel` parameter (RFC 8288 §3.3: later ones are ignored)."""
    parameters: dict[str, str]
    """Other parameters, first of each name, lower-case names; `title*` decoded (RFC 8187) under its own name."""
    anchor: str | None
    """URI reference of the context, when the link says that it is not about this page (§3.2)."""


def parse_links(values: Iterable[str]) -> list[HeaderLink]:
    """Every link-value of Link header values, as RFC 8288 Appendix B.2 and B.3 read them; broken ones end their field."""
    found: list[HeaderLink] = []
    for value in values:
        at, end = 0, len(value)
        while at < end:
            while at < end and value[at] in " \t,":
                at += 1
            if at >= end or value[at] != "<":
                break
            close = value.find(">", at)
            if close < 0:
                break
            target = value[at + 1 : close]
            parameters, at = _parameters(value, close + 1)
            names: dict[str, str] = {}
            for name, text in parameters:
                names.setdefault(name, text)
            for name in [one for one in names if one.endswith("*")]:
                decoded = _extended(names[name])
                if decoded is None:
                    del names[name]
                else:
                    names[name] = decoded
            rel = tuple(dict.fromkeys(names.pop("rel", "").lower().split()))
            found.append(HeaderLink(target.strip(), rel, names, names.pop("anchor", None)))
    return found


def _parameters(value: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """Parameters from `at` up to the `,` that ends the link-value; returns them and the position after that comma."""
    found: list[tuple[str, str]] = []
    end = len(value)
    while at < end:
        while at < end and value[at] in _OWS:
            at += 1
        if at >= end:
            break
        if value[at] == ",":
            return found, at + 1
        if value[at] != ";":
            at += 1  # rubbish between the parts: tolerated, as browsers do
            continue
        at += 1
        while at < end and value[at] in _OWS:
            at += 1
        stop = _TOKEN_END.search(value, at)
        name_end = end if stop is None else stop.start()
        name = value[at:name_end].lower()
        at = name_end
        while at < end and value[at] in _OWS:
            at += 1
        text = ""
        if at < end and value[at] == "=":
            at += 1
            while at < end and value[at] in _OWS:
                at += 1
            if at < end and value[at] == '"':
                text, at = _quoted(value, at + 1)
            else:
                stop_at = min(
                    (position for position in (value.find(";", at), value.find(",", at)) if position >= 0), default=end
                )
                text, at = value[at:stop_at].rstrip(_OWS), stop_at
        if name:
            found.append((name, text))
    return found, at


def _quoted(value: str, at: int) -> tuple[str, int]:
    """A quoted-string whose opening quote is behind `at`; an unterminated one runs to the end (B.4)."""
    parts: list[str] = []
    while at < len(value):
        char = value[at]
        if char == "\\" and at + 1 < len(value):
            parts.append(value[at + 1])
            at += 2
        elif char == '"':
            return "".join(parts), at + 1
        else:
            parts.append(char)
            at += 1
    return "".join(parts), at


def _extended(text: str) -> str | None:
    """RFC 8187 `charset'language'percent-encoded`; None when it is not one (then it is ignored)."""
    charset, _, rest = text.partition("'")
    _, quote, encoded = rest.partition("'")
    if not quote or charset.lower() not in ("utf-8", "iso-8859-1") or _EXTENDED_VALUE.fullmatch(encoded) is None:
        return None
    try:
        return unquote_to_bytes(encoded).decode(charset)
    except UnicodeDecodeError:
        return None


_REFRESH = re.compile(r"[\t\n\f\r ]*(?:(?P<time>[0-9]+)[0-9.]*|(?P<dot>\.[0-9.]*))(?P<rest>.*)", re.DOTALL)
_REFRESH_URL = re.compile(r"(?:u(?:r(?:l[\t\n\f\r ]*(?P<equals>=)[\t\n\f\r ]*)?)?)?", re.IGNORECASE)
_SPACE = "\t\n\f\r "


def refresh_target(value: str) -> tuple[int, str] | None:
    """Seconds and URL of a refresh, in a meta or an HTTP header; None when it names no URL.

    Source: HTML §4.2.5.3, "shared declarative refresh steps".
    """
    match = _REFRESH.fullmatch(value)
    if match is None:
        return None
    seconds = int(match.group("time")[:9]) if match.group("time") else 0
    rest = match.group("rest")
    if not rest or rest[0] not in ";," + _SPACE:
        return None
    rest = rest.lstrip(_SPACE)
    if rest[:1] in (";", ","):
        rest = rest[1:].lstrip(_SPACE)
    if not rest:
        return None
    url = rest
    if rest[0] in "uU":
        step = _REFRESH_URL.match(rest)
        if step is not None and step.group("equals"):
            url = rest[step.end() :]
        else:
            return seconds, rest.rstrip(_SPACE)
    if url[:1] in ("'", '"') and url:
        quote, url = url[0], url[1:]
        url = url.partition(quote)[0]
    return seconds, url.strip(_SPACE)
