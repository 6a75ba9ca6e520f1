"""Indexing directives: meta robots and X-Robots-Tag. Here: parsing and combining. Not here: robots.txt (`crawl`).

Source: Google Search Central, "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications": directives are
case-insensitive, separated by commas; a header value may start with an agent; conflicting ones resolve to the strictest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_NEGATES = {
    "index": "noindex",
    "follow": "nofollow",
    "archive": "noarchive",
    "snippet": "nosnippet",
    "imageindex": "noimageindex",
}
_MAX_DATES = 50
"""`unavailable_after` directives that are read; a page says one."""
_DATE_GOES_ON = re.compile(
    r"\s*(?:\d{1,2}[\s-](?:[a-z]{3,9}|\d{1,2})[\s-]\d{2,4}|\d{4}\b|\d{1,2}:\d{2}|[a-z]{3,9}\s+\d{1,2}\b)", re.IGNORECASE
)
_AGENT = re.compile(r"\s*([a-z0-9_*.\-]+)\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)
_ZONES = {
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "CET": 1,
    "CEST": 2,
    "BST": 1,
}
_DATE_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%d",
    "%d %b %Y %H:%M:%S",
    "%d-%b-%Y %H:%M:%S",
    "%d-%b-%y %H:%M:%S",
    "%d %b %Y",
    "%d %B %Y %H:%M:%S",
    "%B %d, %Y",
    "%b %d, %Y",
)


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    directives: tuple[str, ...]
    """What binds us, lower case, in order of appearance, without what a stricter one overrules."""
    indexable: bool
    meta_nofollow: bool
    header_nofollow: bool
    unavailable_after: datetime | None = None
    """The earliest date that was understood, UTC."""


def split_directives(value: str) -> list[str]:
    """Directives of one value, lower case; a date with commas stays whole (`unavailable_after: wed, 25 jun 2025 15:00:00 gmt`)."""
    found: list[str] = []
    for piece in value.split(","):
        if found and found[-1].startswith("unavailable_after") and _DATE_GOES_ON.match(piece):
            found[-1] += "," + piece.rstrip().lower()
            continue
        text = " ".join(piece.lower().split())
        name, colon, rest = text.partition(":")
        if colon and name.strip() in _WITH_VALUE:
            found.append(
                f"{name.strip()}:{rest.strip()}"
                if name.strip() != "unavailable_after"
                else f"unavailable_after: {rest.strip()}"
            )
        elif text:
            found.extend(text.split(" ") if ":" not in text else [text])
    return found


def header_directives(values: Iterable[str], agent: str) -> list[str]:
    """Directives of X-Robots-Tag values that bind `agent` (a product token): those for everyone and those for it.

    An agent named in a value binds the rest of that value, up to the next agent (servers join several headers with commas).
    """
    token = agent.lower()
    binding: list[str] = []
    for value in values:
        applies = True
        plain: list[str] = []
        for piece in value.split(","):
            match = _AGENT.fullmatch(piece)
            if match is not None and match.group(1).lower() not in _WITH_VALUE and not piece.strip()[0].isdigit():
                if applies:
                    binding += split_directives(",".join(plain))
                plain = [match.group(2)]
                applies = match.group(1).lower() in (token, "*")
            else:
                plain.append(piece)
        if applies:
            binding += split_directives(",".join(plain))
    return binding


def combine(meta: Iterable[str], header: Iterable[str], at: datetime | None = None) -> RobotsVerdict:
    """The strictest of all. `meta`, `header`: directives that bind us. `at`: now, for `unavailable_after`; None: not applied."""
    meta, header = list(meta), list(header)
    expanded: list[str] = []
    for directive in (*meta, *header):
        expanded += ["noindex", "nofollow"] if directive == "none" else [directive]
    present = set(expanded)
    dates = [
        date
        for directive in [one for one in dict.fromkeys(expanded) if one.startswith("unavailable_after")][:_MAX_DATES]
        if (date := _date(directive)) is not None
    ]
    earliest = min(dates, default=None)
    kept: list[str] = []
    for directive in dict.fromkeys(expanded):
        if directive in _NEGATES and _NEGATES[directive] in present:
            continue
        if directive == "all" and present & {"noindex", "nofollow"}:
            continue
        kept.append(directive)
    kept = _smallest(kept)
    expired = at is not None and earliest is not None and earliest <= at
    return RobotsVerdict(
        tuple(kept),
        indexable="noindex" not in present and not expired,
        meta_nofollow="nofollow" in meta or "none" in meta,
        header_nofollow="nofollow" in header or "none" in header,
        unavailable_after=earliest,
    )


_PREVIEW_ORDER = {"none": 0, "standard": 1, "large": 2}


def _smallest(directives: list[str]) -> list[str]:
    """Of several `max-*` limits of one kind the strictest (-1 means no limit)."""
    best: dict[str, str] = {}
    for directive in directives:
        name, _, value = directive.partition(":")
        if name.startswith("max-") and (name not in best or _rank(value) < _rank(best[name].partition(":")[2])):
            best[name] = directive
    return [one for one in directives if one.partition(":")[0] not in best or best[one.partition(":")[0]] == one]


def _rank(value: str) -> float:
    if value in _PREVIEW_ORDER:
        return _PREVIEW_ORDER[value]
    try:
        number = int(value)
    except ValueError:
        return float("inf")
    return float("inf") if number < 0 else number


def _date(directive: str) -> datetime | None:
    """The instant in an `unavailable_after`: RFC 822, RFC 850 or ISO 8601; UTC when it names no zone. None: not understood."""
    text = directive.partition(":")[2].strip()
    if not text:
        return None
    zone: timezone = UTC
    head, _, last = text.rpartition(" ")
    if last.upper() in _ZONES:
        text, zone = head, timezone(timedelta(hours=_ZONES[last.upper()]))
    elif last.upper() in ("GMT", "UTC", "Z"):
        text = head
    for form in _DATE_FORMATS:
        for candidate in (text, text.partition(",")[2].strip()):
            try:
                parsed = datetime.strptime(candidate.replace("z", "+0000") if "%z" in form else candidate, form)  # noqa: DTZ007
            except ValueError:
                continue
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
