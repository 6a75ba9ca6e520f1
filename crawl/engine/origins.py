"""What is known of each origin during one crawl. Here: states, failures in a row, suppressions, whose clock it is, its
robots.txt, and reading all that from the `OriginBook`. Not here: the clocks' arithmetic (`crawl.politeness`), asking
for robots.txt (`robots_visits`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import trio

from crawl.egress.urls import Target
from crawl.engine.context import Context, WorkEntry, to_monotonic, to_wall
from crawl.ports import OriginBook, OriginState, RobotsRecord
from crawl.robots import RobotsBook
from crawl.visit import identity_of
from transforms.urls import identify, origin_of

SLOTS_AHEAD = 20
"""Nobody reserves an origin for longer than so many of the longest gaps: a clock further ahead is not waited for."""

SLOT_S = 2.0
"""How long after its time a slot at another shard's origin may still be used: a connection has to be made first."""
_MARGIN_S = 10.0
"""Slots that were being committed while the ledger was last asked are asked for again."""

CHUNK = 5000
"""Origins (or object keys) that a port is asked about at once."""
ROBOTS_CHUNK = 250
"""Robots.txt files that are read at once: each may have 500 KiB."""


class Origins:
    """`book` is asked once for each origin, before its first request; what changed goes back with `take_dirty`."""

    def __init__(self, context: Context, book: OriginBook, owns: Callable[[str], bool] | None) -> None:
        self._context = context
        self._book = book
        self._owns = owns
        self.robots = RobotsBook(context.settings)
        self.states: dict[str, OriginState] = {}
        self.failures: Counter[str] = Counter()
        self._suppressed: dict[str, bool] = {}
        self._suppressed_urls: dict[str, set[str]] = {}
        self._home: set[str] = set()
        self._sites: set[str] = set()
        self._dirty: set[str] = set()
        self._dirty_robots: dict[str, RobotsRecord] = {}
        self._finished: dict[str, None] = {}
        self._expected: Counter[str] = Counter()
        self.met = 0
        self._listening = trio.Lock()
        self._heard_at = float("-inf")

    # -- reading the book -------------------------------------------------------------------------------------------

    def at_home(self, origin: str, site: str) -> None:
        """A task of this crawl is here, so the origin's clock is kept here."""
        self._home.add(origin)
        if site:
            self._sites.add(site)

    async def meet(self, names: list[str]) -> None:
        """Read what is remembered of origins."""
        context = self._context
        states, denied, urls = await context.port(self._read, names)
        now, today = trio.current_time(), context.clock.now()
        self.met += len(names)
        self._suppress(names, denied, urls)
        for name in names:
            self.states.setdefault(name, OriginState(name))
        for state in states:
            self.states[state.origin] = state
            self.failures[state.origin] = state.consecutive_errors
            context.frontier.configure(
                state.origin,
                now,
                gap_s=state.min_gap_s,
                max_in_flight=state.max_in_flight,
                next_eligible=self._believable(to_monotonic(state.next_eligible_at, today, now), now),
                backoff_until=to_monotonic(state.backoff_until, today, now),
            )
        for at in range(0, len(names), ROBOTS_CHUNK):
            robots = await context.port(self._book.load_robots, names[at : at + ROBOTS_CHUNK])
            self.robots.take_in(robots, today)
            for record in robots:
                self.apply_delay(record.origin)
        for state in states:
            asked = to_monotonic(state.asked_until, today, now)
            if asked is not None:
                free = self._believable(asked + context.frontier.gap_of(state.origin), now)
                context.frontier.configure(state.origin, now, next_eligible=free)

    def _read(self, names: list[str]) -> tuple[list[OriginState], set[str], set[str]]:
        return self._book.load(names), *self._read_suppressions(names)

    async def place(self, entry: WorkEntry) -> None:
        """Before a request at an origin that may be new to this crawl: read what is remembered of it and, when it is
        another shard's, reserve its slot in the ledger."""
        context, origin = self._context, entry.origin
        with self.expecting([origin]):
            if origin not in self.states:
                await self.meet([origin])
            if self.is_ours(origin):
                entry.payload.slot_end = float("inf")
                return
            now, today = trio.current_time(), context.clock.now()
            gap = context.frontier.gap_of(origin)
            # The owner has heard of the slot before it comes: what it starts until then is over by a gap.
            earliest = max(now + context.settings.foreign_notice_s + gap, entry.not_before)
            slot = await context.port(
                self._book.take_foreign_slot, origin, today + timedelta(seconds=earliest - now), gap + SLOT_S
            )
            start = self._believable(to_monotonic(slot, today, now), now)
            entry.not_before = earliest if start is None else max(earliest, start)
            entry.payload.slot_end = entry.not_before + SLOT_S

    def _believable(self, start: float | None, now: float) -> float | None:
        """A remembered next start, unless it is so far ahead that the machine's clock was set back since."""
        limit = SLOTS_AHEAD * max(self._context.settings.origin_gap_s, self._context.settings.max_crawl_delay_s)
        return None if start is None or start - now > limit else start

    def is_ours(self, origin: str) -> bool:
        """Is the origin's clock kept here? A shard owns whole registrable domains, so that of any task settles it."""
        if origin in self._home:
            return True
        ours = self._owns(origin) if self._owns is not None else identify(f"{origin}/").site in self._sites
        if ours:
            self._home.add(origin)
        return ours

    # -- slots that other shards took ---------------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Are there other shards, which may reserve slots at this one's origins?"""
        return self._owns is not None

    async def listen(self, most_s: float) -> None:
        """Unless it was done less than `most_s` ago: hear which slots others reserved at our origins, and keep to them."""
        if not self.is_shared or trio.current_time() - self._heard_at <= most_s:
            return
        async with self._listening:
            now = trio.current_time()
            if now - self._heard_at <= most_s:
                return
            taken = await self._context.port(self._book.foreign_slots, min(now - self._heard_at, 86_400.0) + _MARGIN_S)
            today, later = self._context.clock.now(), trio.current_time()
            for origin, free_at in taken.items():
                if origin in self.states and self.is_ours(origin):
                    free = self._believable(to_monotonic(free_at, today, later), later)
                    self._context.frontier.configure(origin, later, next_eligible=free)
            self._heard_at = now

    # -- suppressions -----------------------------------------------------------------------------------------------

    async def is_suppressed(self, target: Target) -> bool:
        """May the URL, or anything at its origin, never be requested?"""
        if target.origin not in self._suppressed:
            await self.meet([target.origin])
        return self.is_known_suppressed(target)

    def is_known_suppressed(self, target: Target) -> bool:
        """The same where the origin was met."""
        origin = target.origin
        if self._suppressed.get(origin, False):
            return True
        urls = self._suppressed_urls.get(origin)
        return urls is not None and identity_of(target.url) in urls

    async def refresh_suppressions(self) -> None:
        """Suppression outranks everything, also a crawl that is under way."""
        names = sorted(self._suppressed)
        for at in range(0, len(names), CHUNK):
            chunk = names[at : at + CHUNK]
            denied, urls = await self._context.port(self._read_suppressions, chunk)
            self._suppress([name for name in chunk if name in self._suppressed], denied, urls)

    def _read_suppressions(self, names: list[str]) -> tuple[set[str], set[str]]:
        return self._book.suppressed(names), self._book.suppressed_urls(names)

    def _suppress(self, names: list[str], denied: set[str], urls: set[str]) -> None:
        for name in names:
            self._suppressed[name] = name in denied
            self._suppressed_urls.pop(name, None)
        for url in urls:
            self._suppressed_urls.setdefault(origin_of(url), set()).add(url)

    # -- states -----------------------------------------------------------------------------------------------------

    def state_of(self, origin: str) -> OriginState:
        return self.states.setdefault(origin, OriginState(origin))

    def trusts_validators(self, origin: str) -> bool:
        state = self.states.get(origin)
        if state is None or state.validators_sent < self._context.settings.validators_distrust_after:
            return True
        return state.validators_lied * 2 <= state.validators_sent

    def apply_delay(self, origin: str) -> None:
        """Crawl-delay may lengthen the gap, never shorten it, and is capped."""
        context = self._context
        state = self.robots.state(origin, context.clock.now())
        if state is None:
            return
        own = self.states[origin].min_gap_s if origin in self.states else None
        gap = context.settings.origin_gap_s if own is None else own
        delay = state.crawl_delay_s(context.settings.max_crawl_delay_s)
        if max(gap, delay) != context.frontier.gap_of(origin):
            context.frontier.configure(origin, trio.current_time(), gap_s=max(gap, delay))

    # -- forgetting -------------------------------------------------------------------------------------------------

    @contextmanager
    def expecting(self, names: Collection[str]) -> Iterator[None]:
        """An entry is on its way to each of these origins: none is forgotten while the block awaits something. The entry
        is pushed before another task runs."""
        self._expected.update(names)
        try:
            yield
        finally:
            self._expected.subtract(names)
            for name in names:
                if not self._expected[name]:
                    del self._expected[name]

    def finished(self, origin: str) -> None:
        """A grant there is over: when nothing else waits there, the origin can be forgotten."""
        self._finished[origin] = None

    def sweep(self) -> None:
        """Forget origins where nothing waits, whose clock keeps nobody back and of which everything is saved: a batch of
        100,000 hosts needs memory for those that are being asked. Met again (a redirect), the book tells of them."""
        now, frontier = trio.current_time(), self._context.frontier
        gone = [
            origin
            for origin in self._finished
            if origin not in self._dirty
            and origin not in self._dirty_robots
            and origin not in self._expected
            and frontier.forget(origin, now)
        ]
        for origin in gone:
            del self._finished[origin]
            self.states.pop(origin, None)
            self.failures.pop(origin, None)
            self._suppressed.pop(origin, None)
            self._suppressed_urls.pop(origin, None)
            self._home.discard(origin)
            self.robots.forget(origin)

    # -- writing to the book ----------------------------------------------------------------------------------------

    def touch(self, origin: str) -> None:
        """Its clock or state changed: it is saved with the next commit."""
        self._dirty.add(origin)

    def remember_robots(self, record: RobotsRecord) -> None:
        self._dirty_robots[record.origin] = record

    def take_dirty(self) -> tuple[list[OriginState], list[RobotsRecord]]:
        """What has to be saved; from now on it counts as saved."""
        context = self._context
        now, today = trio.current_time(), context.clock.now()
        states = []
        for origin in self._dirty:
            if not self.is_ours(origin) and context.frontier.clock_of(origin)[1] <= now:
                continue  # its owner knows better, unless it asked us to leave it alone
            state = self.state_of(origin)
            eligible, backoff = self._context.frontier.clock_of(origin)
            state.next_eligible_at = to_wall(eligible, today, now)
            state.backoff_until = to_wall(backoff, today, now) if backoff > now else None
            states.append(replace(state))
        self._dirty.clear()
        robots = list(self._dirty_robots.values())
        self._dirty_robots.clear()
        return states, robots

    def save(self, states: list[OriginState], robots: list[RobotsRecord]) -> None:
        """Blocking: call it in a thread."""
        if states:
            self._book.save(states)
        if robots:
            self._book.save_robots(robots)
