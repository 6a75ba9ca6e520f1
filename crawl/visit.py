"""One page on its way through its hops. Here: what is remembered between two requests (hops, cookies, loop check) and
where a redirect leads, as pure functions. Not here: requests, verdicts on bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ada_url

from crawl.ports import FetchTask, Hop
from transforms.urls.identity import from_resolved

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_COOKIES = 50
_MAX_COOKIE_BYTES = 4096
_MAX_COOKIES_BYTES = 16 * 1024
"""Of one visit: servers refuse longer request heads, and 500 visits must not hold a server's choice of bytes each."""
MAX_LOCATION_CHARS = 8192
"""A redirect to a longer URL is not followed: identities end at 2,048 characters, and every hop is kept."""


@dataclass(frozen=True, slots=True)
class Cookie:
    name: str
    value: str
    host: str
    host_only: bool
    path: str
    secure: bool


@dataclass(slots=True, eq=False)
class Visit:
    """A task in progress: `url` is asked next."""

    task: FetchTask
    url: str
    attempt: int = 1
    hops: list[Hop] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    """(URL, Cookie header) of every request of this attempt; see `comes_back`."""
    cookies: list[Cookie] = field(default_factory=list)
    redirects: int = 0
    unconditional: bool = False
    """Its earlier snapshot is not there, or has just turned out to be gone: no validators are sent."""
    elapsed_s: float = 0.0
    robots_version: str | None = None
    slot_end: float = float("inf")
    """At an origin of another shard: when the reserved slot is over (trio's clock)."""
    slots_missed: int = 0

    def comes_back(self, url: str, cookie: str) -> bool:
        """Would asking for `url` repeat a request of this attempt? The same identity with the same cookies gets the same
        answer; another scheme is another identity, and a cookie that was set on the way is a new question."""
        key = identity_of(url)
        return any(sent == cookie and identity_of(asked) == key for asked, sent in self.seen)

    def restart(self) -> None:
        """A further attempt starts from the task's own URL and forgets how far the last one came."""
        self.attempt += 1
        self.rewind()

    def rewind(self) -> None:
        self.url = self.task.url
        self.hops.clear()
        self.seen.clear()
        self.cookies.clear()
        self.redirects = 0


@dataclass(slots=True, eq=False)
class RobotsVisit:
    """An origin's robots.txt on its way through redirects."""

    origin: str
    url: str
    redirects: int = 0
    attempt: int = 1
    slot_end: float = float("inf")
    slots_missed: int = 0


def identity_of(url: str) -> str:
    """The identity of a URL that was parsed before; one that has none (too long) stands for itself."""
    return from_resolved(url, url).identity or url


class BadLocation(Exception):
    """A redirect that leads nowhere; the message is the sentence for a person."""


def redirect_target(current: str, locations: Sequence[str]) -> str:
    """The absolute URL that a redirect leads to, without fragment. Raises BadLocation.

    `locations` are the Location values as latin-1 text: bytes beyond ASCII are percent-encoded as they stand, which is
    what browsers do, never decoded and encoded anew.
    """
    distinct = {value.strip() for value in locations}
    if not distinct:
        raise BadLocation("A redirect without a Location.")
    if len(distinct) > 1:
        raise BadLocation("A redirect with several different Locations.")
    raw = distinct.pop()
    if not raw:
        raise BadLocation("A redirect with an empty Location.")
    if len(raw) > MAX_LOCATION_CHARS:
        raise BadLocation(f"A redirect to a URL of {len(raw)} characters; at most {MAX_LOCATION_CHARS} are followed.")
    location = "".join(ch if ch < "\x80" else f"%{ord(ch):02X}" for ch in raw)
    try:
        return ada_url.URL(location, base=current).href.split("#", 1)[0]
    except (ValueError, UnicodeError):
        raise BadLocation(f"The redirect's Location does not parse: {location[:200]!r}.") from None


def take_cookies(cookies: list[Cookie], set_cookie: Sequence[str], host: str, scheme: str) -> None:
    """Cookies of one redirect chain (RFC 6265 §5.3 without persistence): kept for this visit only, because a redirect
    to the same URL that sets a cookie is not a loop for a browser."""
    for line in set_cookie:
        if len(line) > _MAX_COOKIE_BYTES:
            continue
        pair, *attributes = line.split(";")
        name, equals, value = pair.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or any(ord(ch) < 0x20 or ord(ch) > 0x7E for ch in name + value):
            continue
        known = {key.strip().lower(): val.strip() for key, _, val in (item.partition("=") for item in attributes)}
        domain = known.get("domain", "").lstrip(".").lower()
        if domain and domain != host and not (host.endswith("." + domain) and "." in domain):
            continue
        path = known.get("path", "")
        cookie = Cookie(
            name, value, domain or host, not domain, path if path.startswith("/") else "/", "secure" in known
        )
        cookies[:] = [c for c in cookies if (c.name, c.host, c.path) != (name, cookie.host, cookie.path)]
        gone = known.get("max-age", "").startswith("-") or known.get("max-age") == "0"
        if gone or len(cookies) >= _MAX_COOKIES or (cookie.secure and scheme != "https"):
            continue
        if sum(len(c.name) + len(c.value) for c in cookies) + len(name) + len(value) <= _MAX_COOKIES_BYTES:
            cookies.append(cookie)


def cookie_header(cookies: Sequence[Cookie], host: str, path: str, scheme: str) -> str:
    """The Cookie header for a hop; empty when there is none to send."""
    if not cookies:
        return ""
    path = path.split("?", 1)[0]
    sent = [
        f"{c.name}={c.value}"
        for c in cookies
        if (host == c.host or (not c.host_only and host.endswith("." + c.host)))
        and (path == c.path or path.startswith(c.path if c.path.endswith("/") else c.path + "/"))
        and (scheme == "https" or not c.secure)
    ]
    return "; ".join(sent)
