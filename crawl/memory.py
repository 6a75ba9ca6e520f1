"""The crawler's ports in memory. Here: what `backlinks fetch` and the tests hand in when no store is running. Not here:
anything durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from crawl.ports import FetchResult, OriginState, RobotsRecord

_HOST_OF = re.compile(r"^\w+://|:\d+$")


class MemorySink:
    """Keeps results in the order of their commit; the same key again replaces."""

    def __init__(self) -> None:
        self.by_key: dict[int, FetchResult] = {}
        self.batches: list[list[FetchResult]] = []

    def commit(self, results: Sequence[FetchResult]) -> None:
        self.batches.append(list(results))
        for result in results:
            self.by_key[result.task.key] = result

    @property
    def results(self) -> list[FetchResult]:
        return list(self.by_key.values())


class MemorySnapshots:
    """Object keys that are there."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = set(keys)

    def is_available(self, object_keys: Sequence[str]) -> set[str]:
        return self.keys.intersection(object_keys)


class MemoryOrigins:
    """Origins, robots and suppressions (of origins, hosts, or URL identities) as dictionaries; a foreign slot is one gap
    after the last."""

    def __init__(self, suppressed: Iterable[str] = ()) -> None:
        self.states: dict[str, OriginState] = {}
        self.robots: dict[str, RobotsRecord] = {}
        self.denied = set(suppressed)
        self.foreign: dict[str, datetime] = {}

    def load(self, origins: Sequence[str]) -> list[OriginState]:
        return [self.states[o] for o in origins if o in self.states]

    def save(self, states: Sequence[OriginState]) -> None:
        for state in states:
            taken = self.foreign.get(state.origin)
            if taken is not None and (state.next_eligible_at is None or state.next_eligible_at < taken):
                state.next_eligible_at = taken
            self.states[state.origin] = state

    def load_robots(self, origins: Sequence[str]) -> list[RobotsRecord]:
        return [self.robots[o] for o in origins if o in self.robots]

    def save_robots(self, records: Sequence[RobotsRecord]) -> None:
        self.robots.update((record.origin, record) for record in records)

    def suppressed(self, origins: Sequence[str]) -> set[str]:
        return {o for o in origins if o in self.denied or _HOST_OF.sub("", o) in self.denied}

    def suppressed_urls(self, origins: Sequence[str]) -> set[str]:
        wanted = set(origins)
        return {
            value for value in self.denied if "://" in value and "/".join(value.split("/", 3)[:3]) in wanted
        } - wanted

    def take_foreign_slot(self, origin: str, at: datetime, gap_s: float) -> datetime:
        known = self.states.get(origin, OriginState(origin))
        slot = max(
            t for t in (at, self.foreign.get(origin), known.next_eligible_at, known.backoff_until) if t is not None
        )
        known.next_eligible_at = self.foreign[origin] = slot + timedelta(seconds=gap_s)
        self.states[origin] = known
        return slot

    def foreign_slots(self, within_s: float) -> dict[str, datetime]:
        return dict(self.foreign)
