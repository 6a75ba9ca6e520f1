"""What is known of each origin's robots.txt. Here: status semantics, expiry, versions, the last good copy, and how much
of all this is kept in memory. Not here: the request itself, evaluation (`rules`).

RFC 9309 §2.3: 2xx is read; 4xx means there are no rules ("unavailable"); 5xx and no answer at all mean "unreachable":
nothing may be fetched for now, unless a good copy not older than 24 hours stands in.

429 is a 4xx and yet no permission: whoever says "too many requests" of his rules would say it of the pages. It counts as
unreachable, the whole origin is left alone for as long as Retry-After says, and then the file is asked again: within this
crawl if that is soon, else by the next, since what was learned expires with the back-off at the latest.

Memory: a file is kept as its bytes (its rules take 16 times as much) and read again when it is needed and was not lately.
All files together have a limit: whoever serves 500 KiB under each of a thousand names does not fill it for the others, the
largest file goes first. What goes may not be believed to allow anything, so it counts as unreachable for now.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from crawl.config import CrawlSettings
from crawl.ports import RobotsRecord
from crawl.robots.rules import MAX_ROBOTS_BYTES, Robots, Verdict, parse_robots
from transforms.reasons import Reason

OK, UNAVAILABLE, UNREACHABLE = "ok", "unavailable", "unreachable"
_STAND_IN = timedelta(hours=24)
_MIN_TTL_S = 300
_DELAY = re.compile(rb"crawl[ -]?delay", re.IGNORECASE)
PARSED_BYTES = 4 * 1024 * 1024
"""Of files whose rules are kept ready (at most 70 MB of rules)."""
_PARSED_OVERHEAD = 256
"""A file without any rule costs something, too."""
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)


class RulesCache:
    """Rules of the files that were asked for lately."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._parsed: OrderedDict[tuple[str, bytes], Robots] = OrderedDict()
        self._bytes = 0

    def of(self, body: bytes, agent: str | None = None) -> Robots:
        """The rules in a file; equal files (a host builder's) are one. `agent`: another one's than ours."""
        key = (self._agent if agent is None else agent, body)
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = parse_robots(body, key[0])
            self._bytes += _size(key)
            while self._bytes > PARSED_BYTES and len(self._parsed) > 1:
                oldest, _ = self._parsed.popitem(last=False)
                self._bytes -= _size(oldest)
        else:
            self._parsed.move_to_end(key)
        return found


def _size(key: tuple[str, bytes]) -> int:
    return len(key[0]) + len(key[1]) + _PARSED_OVERHEAD


@dataclass(slots=True)
class RobotsState:
    """A record, ready to judge. `cause` is why it is unreachable, if it is."""

    record: RobotsRecord
    rules: RulesCache
    is_denied: bool
    cause: Reason | None = None
    detail: str = ""
    delay_s: float = 0.0
    """Crawl-delay for us, as the file says it."""

    def judge(self, url: str) -> Verdict:
        if self.is_denied:
            return Verdict(False, None, f"robots.txt is unreachable ({self.detail or 'server error'})")
        return self.rules.of(self.record.body).judge(url)

    def crawl_delay_s(self, cap_s: float) -> float:
        return min(self.delay_s, cap_s)


class RobotsBook:
    """States by origin, in memory for one crawl; records come from and go to the `OriginBook`."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._settings = settings
        self._rules = RulesCache(settings.user_agent_product)
        self._states: dict[str, RobotsState] = {}
        self._stale: dict[str, RobotsRecord] = {}
        self._bytes = 0
        """Of all bodies in `_states` and `_stale`."""

    def take_in(self, records: list[RobotsRecord], now: datetime) -> None:
        """Records of earlier crawls. Expired ones are kept for their body only."""
        for record in records:
            self.forget(record.origin)
            if record.expires_at > now:
                self._states[record.origin] = self._state(record, now)
            else:
                self._stale[record.origin] = record
            self._bytes += len(record.body)
            self._make_room(now)

    def state(self, origin: str, now: datetime) -> RobotsState | None:
        """What is believed now; None when it must be asked (again)."""
        state = self._states.get(origin)
        if state is None:
            return None
        if state.record.expires_at <= now:
            self.forget(origin)
            self._stale[origin] = state.record
            self._bytes += len(state.record.body)
            return None
        return state

    def answered(self, origin: str, status: int, body: bytes, cache_control: str | None, now: datetime) -> RobotsState:
        """A final status of robots.txt after redirects."""
        if 200 <= status < 300:
            body = body[: MAX_ROBOTS_BYTES + 1]
            record = RobotsRecord(origin, _version(OK, body), OK, body, now, now + self._ttl(cache_control), now)
            return self._remember(record, now)
        if 400 <= status < 500 and status != 429:
            record = RobotsRecord(
                origin, _version(UNAVAILABLE, b""), UNAVAILABLE, b"", now, now + self._ttl(cache_control), None
            )
            return self._remember(record, now)
        return self.unreachable(origin, now, None, f"HTTP {status}")

    def unavailable(self, origin: str, now: datetime) -> RobotsState:
        """More than five redirects: RFC 9309 §2.3.1.2 lets that count as no file."""
        record = RobotsRecord(origin, _version(UNAVAILABLE, b""), UNAVAILABLE, b"", now, now + self._ttl(None), None)
        return self._remember(record, now)

    def unreachable(
        self, origin: str, now: datetime, cause: Reason | None, detail: str, again_in_s: float = float("inf")
    ) -> RobotsState:
        """No usable answer. An earlier good body is kept and stands in for at most 24 hours after it was fetched.
        `again_in_s`: when the server will answer again, if it said so."""
        old = self._stale.get(origin)
        if old is None and origin in self._states:
            old = self._states[origin].record
        body, good_at = (
            (old.body, old.last_good_at) if old is not None and old.last_good_at is not None else (b"", None)
        )
        expires = now + timedelta(seconds=min(self._settings.robots_error_ttl_s, again_in_s))
        record = RobotsRecord(origin, _version(UNREACHABLE, body), UNREACHABLE, body, now, expires, good_at)
        return self._remember(record, now, cause, detail)

    def __len__(self) -> int:
        """Origins of which something is held."""
        return len(self._states) + len(self._stale)

    def forget(self, origin: str) -> None:
        state, stale = self._states.pop(origin, None), self._stale.pop(origin, None)
        self._bytes -= len(state.record.body) if state is not None else 0
        self._bytes -= len(stale.body) if stale is not None else 0

    def has_stand_in(self, origin: str, now: datetime) -> bool:
        """Is there a good copy that may be used while the file is unreachable?"""
        old = self._stale.get(origin)
        return old is not None and old.last_good_at is not None and now - old.last_good_at <= _STAND_IN

    def _remember(
        self, record: RobotsRecord, now: datetime, cause: Reason | None = None, detail: str = ""
    ) -> RobotsState:
        self.forget(record.origin)
        self._states[record.origin] = self._state(record, now, cause, detail)
        self._bytes += len(record.body)
        self._make_room(now)
        return self._states[record.origin]

    def _state(self, record: RobotsRecord, now: datetime, cause: Reason | None = None, detail: str = "") -> RobotsState:
        denied = False
        if record.status_class == UNREACHABLE:
            denied = record.last_good_at is None or now - record.last_good_at > _STAND_IN
        delay = 0.0
        if _DELAY.search(record.body):  # few files have one: the others are not read before they are needed
            delay = self._rules.of(record.body).crawl_delay_s or 0.0
        return RobotsState(record, self._rules, denied, cause, detail, delay)

    def _make_room(self, now: datetime) -> None:
        """Keep within the limit; the largest file goes first, an expired one without a trace."""
        while self._bytes > self._settings.robots_memory_bytes:
            bodies = {origin: len(record.body) for origin, record in self._stale.items()}
            bodies |= {origin: len(state.record.body) for origin, state in self._states.items()}
            origin = max(bodies, key=bodies.__getitem__)
            state = self._states.get(origin)
            self.forget(origin)
            if state is not None:
                expires = min(state.record.expires_at, now + timedelta(seconds=self._settings.robots_error_ttl_s))
                record = replace(
                    state.record,
                    version=_version(UNREACHABLE, b""),
                    status_class=UNREACHABLE,
                    body=b"",
                    expires_at=expires,
                    last_good_at=None,
                )
                self._states[origin] = RobotsState(
                    record, self._rules, is_denied=True, detail="the files of all origins are too large to be kept"
                )

    def _ttl(self, cache_control: str | None) -> timedelta:
        longest = self._settings.robots_ttl_s
        found = _MAX_AGE.search(cache_control or "")
        seconds = longest if found is None else min(longest, max(int(found.group(1)), _MIN_TTL_S))
        return timedelta(seconds=seconds)


def _version(status_class: str, body: bytes) -> str:
    return hashlib.sha256(status_class.encode() + b"\n" + body).hexdigest()[:16]
