"""RFC 9309: a robots.txt as groups of rules, and the verdict on a URL. Here: pure functions over bytes. Not here:
fetching, caching, status codes.

What the standard asks and this does:
- §2.2.1 group choice: the product token, case-insensitively; all groups that name us are one; `*` only if none does.
- §2.2.2 the most octets win, ties allow; no match allows; /robots.txt itself is always allowed. Percent-encoding is
  compared alike on both sides: unreserved characters decoded, everything outside the URI alphabet encoded, hex in
  upper case; a reserved character inside the query equals its encoded form (the RFC's own `?baz=https://foo.bar`
  example).
- §2.2.3 `*` any octets, `$` the end, `#` a comment; `%2A` and `%24` are the literal characters.
- §2.2.4 other records (Sitemap, Crawl-delay, unknown) do not break a group.
- §2.5 at most 500 KiB are read; a line that the limit cuts in two is dropped.
Also tolerated, as the big crawlers do: a BOM, CR / LF / CRLF, a missing colon, and the usual misspellings of the keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import ada_url

MAX_ROBOTS_BYTES = 500 * 1024

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT = _UNRESERVED | frozenset(b":/?#[]@!$&()*+,;=")
"""Characters that stay as they are; RFC 3986 reserved, without the apostrophe, which WHATWG encodes in queries."""
_PLAIN_PATH = re.compile(rb"[A-Za-z0-9._~:/?#\[\]@!&()+,;=-]*")
_PLAIN_PATTERN = re.compile(_PLAIN_PATH.pattern.replace(b"[A", b"[*A", 1) + rb"\$?")
"""What stands for itself, which is nearly all there is. (`*` and a last `$` are meant in a pattern.)"""
_RESERVED = re.compile(rb"[:/?#\[\]@]")
"""Delimiters that mean the same in a query when they are encoded."""
_HEX = frozenset(b"0123456789abcdefABCDEF")

_USER_AGENT = {b"user-agent", b"useragent", b"user agent"}
_ALLOW = {b"allow"}
_DISALLOW = {b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"}
_CRAWL_DELAY = {b"crawl-delay", b"crawldelay", b"crawl delay"}
_KEYS = _USER_AGENT | _ALLOW | _DISALLOW | _CRAWL_DELAY
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_WORD = re.compile(rb"[^\s/]+")


class Rule(NamedTuple):
    """One Allow or Disallow line. `text` is the line as a person wrote it, without its comment."""

    allow: bool
    text: str
    octets: int
    forms: tuple[_Pattern, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """May the URL be fetched, by which line, and why in one phrase."""

    allowed: bool
    rule: str | None
    reason: str


@dataclass(slots=True)
class Group:
    rules: list[Rule] = field(default_factory=list)
    """Most octets first, Allow before Disallow among equals: the first match decides."""
    crawl_delay_s: float | None = None

    def seal(self) -> None:
        self.rules.sort(key=lambda rule: (-rule.octets, not rule.allow))


@dataclass(slots=True)
class Robots:
    """A parsed file, as one agent has to read it. `is_named`: the group names the agent; None: no group applies."""

    group: Group | None
    is_named: bool = False

    @property
    def crawl_delay_s(self) -> float | None:
        return self.group.crawl_delay_s if self.group else None

    def judge(self, url: str) -> Verdict:
        """Verdict on an absolute http(s) URL, or on a path with its query."""
        target = _request_target(url)
        if target is None:
            return Verdict(False, None, "the URL does not parse")
        if target.split(b"?", 1)[0] == b"/robots.txt":
            return Verdict(True, None, "robots.txt itself is always allowed")
        if self.group is None:
            return Verdict(True, None, "no group applies to this agent")
        whose = "the agent's own group" if self.is_named else "group *"
        plain = _normalise(target, is_pattern=False)
        strict: bytes | None = None
        for rule in self.group.rules:
            matched = rule.forms[0].matches(plain)
            if not matched and len(rule.forms) > 1:
                strict = strict or _encode_query(plain)
                matched = rule.forms[1].matches(strict)
            if matched:
                return Verdict(rule.allow, rule.text, f"longest matching rule of {whose}")
        return Verdict(True, None, f"no rule of {whose} matches")


def parse_robots(body: bytes, agent: str) -> Robots:
    """Read a robots.txt for a product token (`BacklinksMonitor`; a whole User-Agent value is cut at its
    slash)."""
    wanted = agent.encode("utf-8", "replace").split(b"/", 1)[0].strip().lower()
    named, anyone = Group(), Group()
    saw_named = saw_anyone = False
    current: list[Group] = []
    in_rules = True
    for key, value, line in _records(body):
        if key in _USER_AGENT:
            if in_rules:
                current, in_rules = [], False
            if value == b"*" or (value[:1] == b"*" and value[1:2].isspace()):
                saw_anyone = True
                _add_once(current, anyone)
            elif wanted and wanted in (_first(_WORD, value).lower(), _first(_TOKEN, value, at_start=True).lower()):
                saw_named = True
                _add_once(current, named)
        elif key in _CRAWL_DELAY:
            delay = _seconds(value)
            for group in current:
                if delay is not None:
                    group.crawl_delay_s = max(delay, group.crawl_delay_s or 0.0)
        else:
            in_rules = True
            if value and current:
                rule = _rule(key in _ALLOW, value, line)
                for group in current:
                    group.rules.append(rule)
    named.seal()
    anyone.seal()
    if saw_named:
        return Robots(named, is_named=True)
    return Robots(anyone if saw_anyone else None)


def _records(body: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Key (lower case), value and text of each line that matters, comments and blanks around them gone."""
    if len(body) > MAX_ROBOTS_BYTES:
        body = body[:MAX_ROBOTS_BYTES]
        cut = max(body.rfind(b"\n"), body.rfind(b"\r"))
        body = body[: cut + 1]
    body = body.removeprefix(b"\xef\xbb\xbf")
    records = []
    for line in body.replace(b"\r", b"\n").split(b"\n"):
        line = line.split(b"#", 1)[0].strip(b" \t\0\f\v")
        key, colon, value = line.partition(b":")
        if not colon:
            parts = line.split(None, 1)
            if len(parts) != 2:
                continue
            key, value = parts
        key = key.strip().lower()
        if key in _KEYS:
            records.append((key, value.strip(b" \t\0\f\v"), line))
    return records


def _add_once(groups: list[Group], group: Group) -> None:
    if not any(group is known for known in groups):
        groups.append(group)


def _first(pattern: re.Pattern[bytes], value: bytes, *, at_start: bool = False) -> bytes:
    found = pattern.match(value) if at_start else pattern.search(value)
    return found.group() if found else b""


def _seconds(value: bytes) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None


def _rule(allow: bool, value: bytes, line: bytes) -> Rule:
    plain = _normalise(value, is_pattern=True)
    forms: tuple[_Pattern, ...] = (_Pattern.of(plain),)
    if b"?" in plain:
        forms = (*forms, _Pattern.of(_encode_query(plain)))
    return Rule(allow, line.decode("utf-8", "replace"), len(plain), forms)


class _Pattern(NamedTuple):
    """A path pattern as the literal pieces between its stars."""

    head: bytes
    pieces: tuple[bytes, ...]
    anchored: bool

    @classmethod
    def of(cls, pattern: bytes) -> _Pattern:
        anchored = pattern.endswith(b"$")
        if anchored:
            pattern = pattern[:-1]
        if b"*" not in pattern:
            return cls(pattern, (), anchored)
        head, *pieces = pattern.split(b"*")
        return cls(head, tuple(pieces), anchored)

    def matches(self, path: bytes) -> bool:
        """Leftmost-greedy over the pieces: linear in the path for each piece, no backtracking."""
        if not path.startswith(self.head):
            return False
        at = len(self.head)
        if not self.pieces:
            return not self.anchored or at == len(path)
        for piece in self.pieces[:-1]:
            found = path.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        last = self.pieces[-1]
        if self.anchored:
            return len(path) - at >= len(last) and path.endswith(last)
        return path.find(last, at) >= 0


def _normalise(path: bytes, *, is_pattern: bool) -> bytes:
    """Percent-encoding that is the same for what is the same (see the module's head)."""
    if (_PLAIN_PATTERN if is_pattern else _PLAIN_PATH).fullmatch(path):
        return path
    out = bytearray()
    end = len(path)
    at = 0
    while at < end:
        octet = path[at]
        if octet == 0x25 and at + 2 < end and path[at + 1] in _HEX and path[at + 2] in _HEX:
            octet = int(path[at + 1 : at + 3], 16)
            at += 3
            if octet in _UNRESERVED:
                out.append(octet)
            else:
                out += b"%%%02X" % octet
            continue
        at += 1
        if octet == 0x2A:  # * is a wildcard in a pattern, and a literal in a URL
            out += b"*" if is_pattern else b"%2A"
        elif octet == 0x24:  # $ is an anchor at the end of a pattern only
            out += b"$" if is_pattern and at == end else b"%24"
        elif octet in _KEPT:
            out.append(octet)
        else:
            out += b"%%%02X" % octet
    return bytes(out)


def _encode_query(path: bytes) -> bytes:
    """The form in which reserved delimiters inside the query are encoded, for `?u=https://a` against
    `?u=https%3A%2F%2Fa`."""
    head, mark, query = path.partition(b"?")
    if not mark:
        return path
    return head + mark + _RESERVED.sub(_encoded, query)


def _encoded(found: re.Match[bytes]) -> bytes:
    return b"%%%02X" % found.group()[0]


def _request_target(url: str) -> bytes | None:
    """Path and query of a URL as WHATWG writes them, an empty query kept; a bare path is taken as it is."""
    if not url or url.startswith("/"):
        url = "http://host" + url
    try:
        href = ada_url.URL(url).href
    except (ValueError, UnicodeError):
        return None
    scheme_end = href.find("://")
    path_at = href.find("/", scheme_end + 3)
    if scheme_end < 0 or path_at < 0:
        return None
    return href[path_at:].split("#", 1)[0].encode("utf-8")
