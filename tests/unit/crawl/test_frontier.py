"""The frontier: gaps, order, shares, starvation, holds; and a state machine that does anything in any order."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crawl.politeness import Entry, Frontier, Grant, State
from crawl.politeness.frontier import TRANSITIONS

A, B, C = "http://a:80", "http://b:80", "http://c:80"


def push(frontier: Frontier[str], origin: str, name: str, now: float = 0.0, **more: object) -> Entry[str]:
    entry: Entry[str] = Entry(origin, name, **more)  # type: ignore[arg-type]
    frontier.push(entry, now)
    return entry


def serve(frontier: Frontier[str], now: float) -> str | None:
    """Take, start and finish one request at once."""
    grant = frontier.take(now)
    if grant is None:
        return None
    frontier.start(grant, now)
    frontier.finish(grant, now)
    return grant.entry.payload


def test_two_workers_at_the_same_instant_one_gets_the_origin() -> None:
    frontier: Frontier[str] = Frontier(gap_s=5.0)
    push(frontier, A, "U-104")
    push(frontier, A, "U-105")
    push(frontier, B, "V-1")
    first, second, third = frontier.take(0.0), frontier.take(0.0), frontier.take(0.0)
    assert first is not None
    assert first.entry.payload == "U-104"
    assert second is not None
    assert second.entry.payload == "V-1"
    assert third is None


def test_the_clock_advances_in_the_grant_even_if_the_worker_is_slow() -> None:
    frontier: Frontier[str] = Frontier(gap_s=5.0, max_in_flight=2)
    push(frontier, A, "1")
    push(frontier, A, "2")
    first = frontier.take(0.0)
    assert first is not None
    assert frontier.take(4.9) is None
    assert frontier.next_time(4.9) == 5.0
    second = frontier.take(5.0)
    assert second is not None
    # The first one was held up by DNS and starts only now: the second has to keep its distance from it.
    assert frontier.start(first, 7.0) == 7.0
    assert frontier.start(second, 7.5) == 12.0


def test_the_gap_counts_from_when_the_bytes_went_out() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "1")
    push(frontier, A, "2")
    first = frontier.take(0.0)
    assert first is not None
    frontier.start(first, 0.0)
    frontier.sent(first, 0.4)  # the machine was busy
    frontier.finish(first, 0.5)
    assert frontier.take(1.3) is None
    assert serve(frontier, 1.4) == "2"


def test_a_grant_that_sent_nothing_gives_its_slot_back() -> None:
    frontier: Frontier[str] = Frontier(gap_s=5.0)
    for name in "123":
        push(frontier, A, name)
    for expected in "12":
        grant = frontier.take(0.0)
        assert grant is not None
        assert grant.entry.payload == expected
        frontier.finish(grant, 0.0)  # refused by robots: no request was made
    assert serve(frontier, 0.0) == "3"


def test_priority_then_age_within_an_origin() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "young", priority=1, age_s=1)
    push(frontier, A, "old", priority=1, age_s=2)
    push(frontier, A, "first", priority=5)
    push(frontier, A, "last", priority=0, age_s=9)
    assert [serve(frontier, float(now)) for now in range(4)] == ["first", "old", "young", "last"]


def test_age_counts_but_never_outweighs_an_urgent_check() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0, age_weight_per_min=0.1)
    push(frontier, A, "fresh", priority=1)
    push(frontier, A, "two hours late", priority=0, age_s=7200)
    push(frontier, A, "confirmation", priority=10)
    push(frontier, A, "a year late", priority=0, age_s=3.15e7)
    assert [serve(frontier, float(n)) for n in range(4)] == ["confirmation", "a year late", "two hours late", "fresh"]


def test_between_origins_priority_then_waiting() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "a", 0.0, priority=0)
    push(frontier, B, "b", 10.0, priority=3)
    push(frontier, C, "c", 20.0, priority=0)
    assert [serve(frontier, 30.0) for _ in range(3)] == ["b", "a", "c"]


def test_a_starving_origin_goes_first() -> None:
    frontier: Frontier[str] = Frontier(gap_s=0.0, starvation_s=1800)
    push(frontier, A, "starving", 0.0, priority=-100)
    for n in range(3):
        push(frontier, B, f"urgent-{n}", 0.0, priority=100)
    assert serve(frontier, 1799.0) == "urgent-0"
    assert serve(frontier, 1800.0) == "starving"
    assert serve(frontier, 1800.0) == "urgent-1"


def test_a_push_does_not_make_an_origin_wait_anew() -> None:
    frontier: Frontier[str] = Frontier(gap_s=0.0, starvation_s=100)
    push(frontier, A, "old", 0.0)
    push(frontier, B, "urgent", 50.0, priority=9)
    push(frontier, A, "better", 99.0, priority=1)
    assert serve(frontier, 101.0) == "better"


def test_back_off_holds_the_whole_origin() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "a1")
    push(frontier, A, "a2")
    push(frontier, B, "b")
    assert serve(frontier, 0.0) == "a1"
    frontier.back_off(A, 60.0, 0.0)
    assert serve(frontier, 0.0) == "b"
    assert serve(frontier, 59.9) is None
    assert frontier.next_time(59.9) == 60.0
    frontier.back_off(A, 30.0, 59.9)  # never shortened
    assert serve(frontier, 59.95) is None
    assert serve(frontier, 60.0) == "a2"


def test_a_hold_lets_only_robots_through() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "page")
    frontier.hold(A, 0.0)
    assert frontier.take(0.0) is None
    assert frontier.next_time(0.0) is None
    push(frontier, A, "robots.txt", ignores_hold=True)
    assert serve(frontier, 0.0) == "robots.txt"
    assert frontier.take(5.0) is None
    frontier.unhold(A, 5.0)
    assert serve(frontier, 5.0) == "page"


def test_crawl_delay_lengthens_the_gap_from_the_last_start() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "robots.txt")
    push(frontier, A, "page")
    assert serve(frontier, 0.0) == "robots.txt"
    frontier.configure(A, 0.1, gap_s=10.0)
    assert frontier.take(9.9) is None
    assert serve(frontier, 10.0) == "page"


def test_clocks_of_earlier_windows_are_kept() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    frontier.configure(A, 0.0, next_eligible=3.0, backoff_until=7.0)
    push(frontier, A, "a")
    assert frontier.take(6.9) is None
    assert serve(frontier, 7.0) == "a"


def test_delayed_entries_wait_without_holding_others_up() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "retry", not_before=30.0)
    push(frontier, A, "page")
    assert serve(frontier, 0.0) == "page"
    assert serve(frontier, 29.9) is None
    assert frontier.next_time(10.0) == 30.0
    assert serve(frontier, 30.0) == "retry"


def test_tenants_share_by_weight_and_unused_shares_flow() -> None:
    frontier: Frontier[str] = Frontier(gap_s=0.0)
    for n in range(300):
        push(frontier, f"http://big{n}:80", "big", tenant=b"big", weight=1, priority=100)
        push(frontier, f"http://paid{n}:80", "paid", tenant=b"paid", weight=3)
    served = Counter(serve(frontier, 0.0) for _ in range(200))
    assert served["paid"] == pytest.approx(150, abs=2)
    assert served["big"] == pytest.approx(50, abs=2)
    while serve(frontier, 0.0) != "big" or len(frontier) > 100:
        pass
    assert [serve(frontier, 0.0) for _ in range(50)] == ["big"] * 50


def test_a_tenant_that_comes_late_has_no_claim_on_the_past() -> None:
    frontier: Frontier[str] = Frontier(gap_s=0.0)
    for n in range(200):
        push(frontier, f"http://one{n}:80", "one", tenant=b"one")
    for _ in range(100):
        serve(frontier, 0.0)
    for n in range(100):
        push(frontier, f"http://two{n}:80", "two", tenant=b"two")
    served = Counter(serve(frontier, 0.0) for _ in range(50))
    assert abs(served["one"] - served["two"]) <= 2


def test_tenants_share_one_origin_too() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    for n in range(10):
        push(frontier, A, f"x{n}", tenant=b"x", priority=9)
        push(frontier, A, f"y{n}", tenant=b"y", priority=0)
    served = Counter(str(serve(frontier, float(n)))[0] for n in range(10))
    assert served == {"x": 5, "y": 5}


def test_drain_returns_everything_that_waits_at_an_origin() -> None:
    frontier: Frontier[str] = Frontier(gap_s=1.0)
    push(frontier, A, "1")
    push(frontier, A, "2", not_before=50.0)
    push(frontier, A, "robots", ignores_hold=True)
    push(frontier, B, "3")
    assert sorted(entry.payload for entry in frontier.drain(A, 0.0)) == ["1", "2"]
    assert len(frontier) == 2
    assert sorted(entry.payload for entry in frontier.drain_all(0.0)) == ["3", "robots"]
    assert len(frontier) == 0
    assert frontier.take(100.0) is None


def test_a_transition_outside_the_table_is_refused() -> None:
    frontier: Frontier[str] = Frontier()
    entry = push(frontier, A, "1")
    with pytest.raises(ValueError, match="waiting"):
        frontier.push(entry, 0.0)
    grant = frontier.take(0.0)
    assert grant is not None
    frontier.finish(grant, 0.0)
    with pytest.raises(ValueError, match="done"):
        frontier.finish(grant, 0.0)
    with pytest.raises(ValueError, match="done"):
        frontier.start(grant, 0.0)
    frontier.push(entry, 0.0)
    assert TRANSITIONS[State.WAITING] == {State.GRANTED, State.DONE}


ORIGINS = [f"http://o{n}:80" for n in range(4)]
STEP = st.floats(0.0, 3.0, allow_nan=False)


class Anything(RuleBasedStateMachine):
    """Any sequence of pushes, grants, starts, finishes, holds, back-offs and drains, against plain bookkeeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.frontier: Frontier[int] = Frontier(gap_s=1.0, starvation_s=20.0)
        self.gap = dict.fromkeys(ORIGINS, 1.0)
        self.cap = dict.fromkeys(ORIGINS, 1)
        self.waiting: dict[int, Entry[int]] = {}
        self.idle: list[Entry[int]] = []
        self.flying: list[Grant[int]] = []
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.backoff = dict.fromkeys(ORIGINS, 0.0)
        self.held: set[str] = set()
        self.count = 0

    @rule(
        origin=st.sampled_from(ORIGINS),
        priority=st.integers(-3, 3),
        tenant=st.sampled_from([b"", b"x", b"y"]),
        weight=st.integers(1, 4),
        delay=st.sampled_from([0.0, 0.0, 0.0, 2.5]),
        robots=st.booleans(),
    )
    def push(self, origin: str, priority: int, tenant: bytes, weight: int, delay: float, robots: bool) -> None:
        self.count += 1
        entry = Entry(origin, self.count, priority, 0.0, tenant, weight, self.now + delay, robots)
        self.frontier.push(entry, self.now)
        self.waiting[self.count] = entry

    @precondition(lambda self: self.idle)
    @rule()
    def push_again(self) -> None:
        entry = self.idle.pop()
        self.frontier.push(entry, self.now)
        self.waiting[entry.payload] = entry

    @rule(step=STEP)
    def wait(self, step: float) -> None:
        self.now += step

    @rule()
    def take(self) -> None:
        grant = self.frontier.take(self.now)
        if grant is None:
            # Nothing may start now: then next_time says when, and nothing is overlooked.
            for entry in self.waiting.values():
                origin = entry.origin
                flying = sum(1 for g in self.flying if g.entry.origin == origin)
                assert (
                    entry.not_before > self.now
                    or flying >= self.cap[origin]
                    or (origin in self.held and not entry.ignores_hold)
                    or self.backoff[origin] > self.now
                    or self.frontier.clock_of(origin)[0] > self.now
                )
            return
        entry = grant.entry
        assert self.waiting.pop(entry.payload) is entry
        assert entry.not_before <= self.now
        assert self.backoff[entry.origin] <= self.now
        assert entry.origin not in self.held or entry.ignores_hold
        self.flying.append(grant)
        assert sum(1 for g in self.flying if g.entry.origin == entry.origin) <= self.cap[entry.origin]

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 9))
    def start(self, which: int) -> None:
        grant = self.flying[which % len(self.flying)]
        at = self.frontier.start(grant, self.now)
        origin = grant.entry.origin
        assert at >= self.now
        if self.starts[origin]:
            assert at - self.starts[origin][-1] >= self.gap[origin] - 1e-9
        self.starts[origin].append(at)

    @precondition(lambda self: self.flying)
    @rule(which=st.integers(0, 9))
    def finish(self, which: int) -> None:
        grant = self.flying.pop(which % len(self.flying))
        self.frontier.finish(grant, self.now)
        self.idle.append(grant.entry)

    @rule(origin=st.sampled_from(ORIGINS), seconds=STEP)
    def back_off(self, origin: str, seconds: float) -> None:
        self.frontier.back_off(origin, self.now + seconds, self.now)
        self.backoff[origin] = max(self.backoff[origin], self.now + seconds)

    @rule(origin=st.sampled_from(ORIGINS), cap=st.integers(1, 3))
    def allow(self, origin: str, cap: int) -> None:
        self.frontier.configure(origin, self.now, max_in_flight=max(cap, self.cap[origin]))
        self.cap[origin] = max(cap, self.cap[origin])

    @rule(origin=st.sampled_from(ORIGINS))
    def hold(self, origin: str) -> None:
        if origin in self.held:
            self.held.discard(origin)
            self.frontier.unhold(origin, self.now)
        else:
            self.held.add(origin)
            self.frontier.hold(origin, self.now)

    @rule(origin=st.sampled_from(ORIGINS))
    def drain(self, origin: str) -> None:
        gone = {entry.payload for entry in self.frontier.drain(origin, self.now)}
        assert gone == {n for n, entry in self.waiting.items() if entry.origin == origin and not entry.ignores_hold}
        for number in gone:
            del self.waiting[number]

    @rule(origin=st.sampled_from(ORIGINS))
    def forget(self, origin: str) -> None:
        """Only what keeps nobody back: the starts that follow still keep the gap (`start`)."""
        needed = (
            any(entry.origin == origin for entry in self.waiting.values())
            or any(grant.entry.origin == origin for grant in self.flying)
            or origin in self.held
            or self.backoff[origin] > self.now
            or self.frontier.clock_of(origin)[0] > self.now
        )
        assert self.frontier.forget(origin, self.now) is not needed
        if not needed:
            self.cap[origin] = 1

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.frontier) == len(self.waiting)
        assert self.frontier.in_flight == len(self.flying)
        assert all(entry.state is State.WAITING for entry in self.waiting.values())
        assert all(grant.entry.state in (State.GRANTED, State.STARTED) for grant in self.flying)

    @invariant()
    def next_time_is_never_too_late(self) -> None:
        at = self.frontier.next_time(self.now)
        if self.waiting and not self.flying and not self.held:
            assert at is not None
        if at is not None and at > self.now:
            assert self.frontier.take(self.now) is None


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
