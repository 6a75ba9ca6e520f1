"""What is known of each origin's robots.txt. Here: status semantics, expiry, versions, the last good copy. Not here:
the request itself, evaluation (`rules`).

RFC 9309 §2.3: 2xx is read; 4xx means there are no rules ("unavailable"); 5xx and no answer at all mean "unreachable":
nothing may be fetched for now, unless a good copy not older than 24 hours stands in.

429 is a 4xx and yet no permission: whoever says "too many requests" of his rules would say it of the pages. It counts as
unreachable, the whole origin is left alone for as long as Retry-After says, and then the file is asked again: within this
crawl if that is soon, else by the next, since what was learned expires with the back-off at the latest.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawl.config import CrawlSettings
from crawl.ports import RobotsRecord
from crawl.robots.rules import MAX_ROBOTS_BYTES, Robots, Verdict, parse_robots
from transforms.reasons import Reason

OK, UNAVAILABLE, UNREACHABLE = "ok", "unavailable", "unreachable"
_STAND_IN = timedelta(hours=24)
_MIN_TTL_S = 300
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)


@dataclass(slots=True)
class RobotsState:
    """A record with its rules, ready to judge. `cause` is why it is unreachable, if it is."""

    record: RobotsRecord
    rules: Robots
    is_denied: bool
    cause: Reason | None = None
    detail: str = ""

    def judge(self, url: str) -> Verdict:
        if self.is_denied:
            return Verdict(False, None, f"robots.txt is unreachable ({self.detail or 'server error'})")
        return self.rules.judge(url)

    def crawl_delay_s(self, cap_s: float) -> float:
        return min(self.rules.crawl_delay_s or 0.0, cap_s)


class RobotsBook:
    """States by origin, in memory for one crawl; records come from and go to the `OriginBook`."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._settings = settings
        self._states: dict[str, RobotsState] = {}
        self._stale: dict[str, RobotsRecord] = {}

    def take_in(self, records: list[RobotsRecord], now: datetime) -> None:
        """Records of earlier crawls. Expired ones are kept for their body only."""
        for record in records:
            if record.expires_at > now:
                self._states[record.origin] = self._state(record, now)
            else:
                self._stale[record.origin] = record

    def state(self, origin: str, now: datetime) -> RobotsState | None:
        """What is believed now; None when it must be asked (again)."""
        state = self._states.get(origin)
        if state is None:
            return None
        if state.record.expires_at <= now:
            self._stale[origin] = state.record
            del self._states[origin]
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
        self._states.pop(origin, None)
        self._stale.pop(origin, None)

    def has_stand_in(self, origin: str, now: datetime) -> bool:
        """Is there a good copy that may be used while the file is unreachable?"""
        old = self._stale.get(origin)
        return old is not None and old.last_good_at is not None and now - old.last_good_at <= _STAND_IN

    def _remember(
        self, record: RobotsRecord, now: datetime, cause: Reason | None = None, detail: str = ""
    ) -> RobotsState:
        state = self._states[record.origin] = self._state(record, now, cause, detail)
        self._stale.pop(record.origin, None)
        return state

    def _state(self, record: RobotsRecord, now: datetime, cause: Reason | None = None, detail: str = "") -> RobotsState:
        denied = False
        if record.status_class == UNREACHABLE:
            denied = record.last_good_at is None or now - record.last_good_at > _STAND_IN
        rules = (
            Robots(None)
            if record.status_class == UNAVAILABLE
            else parse_robots(record.body, self._settings.user_agent_product)
        )
        return RobotsState(record, rules, denied, cause, detail)

    def _ttl(self, cache_control: str | None) -> timedelta:
        longest = self._settings.robots_ttl_s
        found = _MAX_AGE.search(cache_control or "")
        seconds = longest if found is None else min(longest, max(int(found.group(1)), _MIN_TTL_S))
        return timedelta(seconds=seconds)


def _version(status_class: str, body: bytes) -> str:
    return hashlib.sha256(status_class.encode() + b"\n" + body).hexdigest()[:16]
