"""The frontier: what waits to be fetched, ordered so that no origin is asked too soon and nobody starves.

Here: a pure data structure; every method is told the time (seconds of one monotonic clock) and none waits. Not here:
sockets, tasks, the ledger.

Shape (seeds/001 chapter 5): a heap of origins by next eligible time; origins that are due move to the ready queues of
the tenants that have entries there. A grant takes the tenant with the least weighted service so far (stride
scheduling), then that tenant's best origin (priority plus a capped bonus for waiting; whoever has waited
`starvation_s` goes first), then its best entry there (priority, then age). The origin's clock is advanced *in* the
grant, and pushed further when the request really starts; a grant that sent nothing gives its slot back.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")

_AGE_CAP = 5.0
_BACKLOG_HALF_S = 600.0
"""Seconds of politeness left at an origin for half of the bonus, which stays below one step of priority."""
_NEVER = float("-inf")


class State(StrEnum):
    """Where an entry is. It moves only along the edges of `TRANSITIONS`."""

    WAITING = "waiting"  # in the frontier: its origin, its own delay or a hold keeps it back, or it is ready
    GRANTED = "granted"  # handed out, its origin's clock advanced
    STARTED = "started"  # its request start was claimed
    DONE = "done"  # given back, or removed


TRANSITIONS: dict[State, frozenset[State]] = {
    State.WAITING: frozenset({State.GRANTED, State.DONE}),
    State.GRANTED: frozenset({State.STARTED, State.DONE}),
    State.STARTED: frozenset({State.STARTED, State.DONE}),
    State.DONE: frozenset({State.WAITING}),  # pushed again: a retry, the next hop
}


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """One request to make. `age_s`: for how long it had been due when it was pushed. `ignores_hold`: robots.txt
    itself."""

    origin: str
    payload: T
    priority: float = 0.0
    age_s: float = 0.0
    tenant: bytes = b""
    weight: float = 1.0
    not_before: float = _NEVER
    ignores_hold: bool = False
    state: State = State.DONE
    serial: int = -1

    def move(self, to: State) -> None:
        if to not in TRANSITIONS[self.state]:
            raise ValueError(f"an entry of {self.origin} may not go from {self.state} to {to}")
        self.state = to


@dataclass(slots=True, eq=False)
class Grant(Generic[T]):
    """Permission for exactly one request at an origin. `finish` it, whatever happens."""

    entry: Entry[T]
    at: float
    slot_before: float
    slot_after: float
    started: bool = False


@dataclass(slots=True, eq=False)
class _Origin(Generic[T]):
    name: str
    gap_s: float
    max_in_flight: int
    next_eligible: float = _NEVER
    earliest_start: float = _NEVER
    backoff_until: float = _NEVER
    in_flight: int = 0
    held: bool = False
    version: int = 0
    ready_since: float | None = None
    urgent: deque[Entry[T]] = field(default_factory=deque)
    queues: dict[bytes, list[tuple[float, float, int, Entry[T]]]] = field(default_factory=dict)
    queued: int = 0
    delayed: int = 0


@dataclass(slots=True, eq=False)
class _Ready(Generic[T]):
    """An origin that may be asked now, as one tenant sees it."""

    origin: _Origin[T]
    version: int
    priority: float
    since: float
    serial: int
    is_old: bool = False

    @property
    def is_valid(self) -> bool:
        return self.version == self.origin.version


@dataclass(slots=True, eq=False)
class _Tenant(Generic[T]):
    """Ready origins of one tenant: `young` by priority plus growing bonus (constant order), `old` at the full bonus;
    `ripening` and `arrivals` by since when. Void items are skipped when they come up."""

    key: bytes
    weight: float = 1.0
    service: float = 0.0
    young: list[tuple[float, int, _Ready[T]]] = field(default_factory=list)
    old: list[tuple[float, float, int, _Ready[T]]] = field(default_factory=list)
    ripening: list[tuple[float, int, _Ready[T]]] = field(default_factory=list)
    arrivals: list[tuple[float, int, _Ready[T]]] = field(default_factory=list)


class Frontier(Generic[T]):
    """See the module's head. Entries are pushed, taken as grants, started, finished; origins are configured, held,
    backed off, drained."""

    def __init__(
        self,
        *,
        gap_s: float = 1.0,
        max_in_flight: int = 1,
        age_weight_per_min: float = 0.1,
        starvation_s: float = 1800.0,
    ) -> None:
        self._gap_s = gap_s
        self._max_in_flight = max_in_flight
        self._age_weight = age_weight_per_min / 60.0
        self._ripe_s = _AGE_CAP / self._age_weight if self._age_weight > 0 else float("inf")
        self._starvation_s = starvation_s
        self._origins: dict[str, _Origin[T]] = {}
        self._tenants: dict[bytes, _Tenant[T]] = {}
        self._active: dict[bytes, _Tenant[T]] = {}
        self._urgent: deque[tuple[_Origin[T], int]] = deque()
        self._due: list[tuple[float, int, int, _Origin[T]]] = []
        self._delayed: list[tuple[float, int, Entry[T]]] = []
        self._serial = 0
        self._waiting = 0
        self._granted = 0
        self._floor = 0.0

    # -- what is known ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Entries that wait."""
        return self._waiting

    @property
    def in_flight(self) -> int:
        return self._granted

    def clock_of(self, origin: str) -> tuple[float, float]:
        """(next eligible time, back-off end) of an origin; minus infinity when nothing keeps it."""
        known = self._origins.get(origin)
        return (known.next_eligible, known.backoff_until) if known else (_NEVER, _NEVER)

    def queued(self, origin: str) -> int:
        """Entries that wait at an origin, delayed ones not counted."""
        known = self._origins.get(origin)
        return known.queued if known else 0

    def is_held(self, origin: str) -> bool:
        known = self._origins.get(origin)
        return known is not None and known.held

    # -- origins ----------------------------------------------------------------------------------------------------

    def configure(
        self,
        origin: str,
        now: float,
        *,
        gap_s: float | None = None,
        max_in_flight: int | None = None,
        next_eligible: float | None = None,
        backoff_until: float | None = None,
    ) -> None:
        """Set what is given. Clocks only ever move forward."""
        known = self._origin(origin)
        if gap_s is not None:
            if known.earliest_start > _NEVER:
                # A longer gap also counts from the last start.
                known.earliest_start = max(known.earliest_start, known.earliest_start - known.gap_s + gap_s)
                known.next_eligible = max(known.next_eligible, known.earliest_start)
            known.gap_s = gap_s
        if max_in_flight is not None:
            known.max_in_flight = max_in_flight
        if next_eligible is not None:
            known.next_eligible = max(known.next_eligible, next_eligible)
            known.earliest_start = max(known.earliest_start, next_eligible)
        if backoff_until is not None:
            known.backoff_until = max(known.backoff_until, backoff_until)
        self._reschedule(known, now)

    def gap_of(self, origin: str) -> float:
        return self._origin(origin).gap_s

    def back_off(self, origin: str, until: float, now: float) -> None:
        """Nothing starts at the origin before `until`."""
        self.configure(origin, now, backoff_until=until)

    def hold(self, origin: str, now: float) -> None:
        """Grant nothing at the origin but entries that ignore holds: its robots.txt is being asked for."""
        known = self._origin(origin)
        known.held = True
        self._reschedule(known, now)

    def unhold(self, origin: str, now: float) -> None:
        known = self._origin(origin)
        known.held = False
        self._reschedule(known, now)

    def forget(self, origin: str, now: float) -> bool:
        """Drop what is known of an origin that has nothing waiting or under way and whose clock would keep nobody back.
        False: it is still needed."""
        known = self._origins.get(origin)
        if known is None:
            return True
        if known.queued or known.delayed or known.in_flight or known.held:
            return False
        if known.next_eligible > now or known.backoff_until > now:
            return False
        known.version += 1
        del self._origins[origin]
        return True

    def drain(self, origin: str, now: float) -> list[Entry[T]]:
        """Remove and return everything that waits at an origin, except what ignores holds; delayed entries included."""
        known = self._origin(origin)
        gone = [item[3] for queue in known.queues.values() for item in queue]
        known.queues.clear()
        known.queued = len(known.urgent)
        late = []
        if known.delayed:
            late = [entry for _, _, entry in self._delayed if entry.origin == origin and not entry.ignores_hold]
        if late:
            self._delayed = [item for item in self._delayed if item[2].origin != origin or item[2].ignores_hold]
            heapq.heapify(self._delayed)
            known.delayed -= len(late)
            gone += late
        self._remove(gone)
        self._reschedule(known, now)
        return gone

    def drain_all(self, now: float) -> list[Entry[T]]:
        """Remove and return everything that waits."""
        gone: list[Entry[T]] = [entry for _, _, entry in self._delayed]
        self._delayed.clear()
        for known in self._origins.values():
            known.delayed = 0
            if known.queued:
                gone += known.urgent
                gone += [item[3] for queue in known.queues.values() for item in queue]
                known.urgent.clear()
                known.queues.clear()
                known.queued = 0
                self._reschedule(known, now)
        self._remove(gone)
        return gone

    def _remove(self, gone: Iterable[Entry[T]]) -> None:
        for entry in gone:
            entry.move(State.DONE)
            self._waiting -= 1

    # -- entries ----------------------------------------------------------------------------------------------------

    def push(self, entry: Entry[T], now: float) -> None:
        """An entry waits from now on (again: it keeps its place among equals)."""
        entry.move(State.WAITING)
        if entry.serial < 0:
            self._serial += 1
            entry.serial = self._serial
        self._waiting += 1
        if entry.not_before > now:
            self._origin(entry.origin).delayed += 1
            heapq.heappush(self._delayed, (entry.not_before, entry.serial, entry))
        else:
            self._enqueue(entry, now)

    def take(self, now: float) -> Grant[T] | None:
        """The next request that may start, its origin's clock advanced; None when nothing may start now."""
        while self._delayed and self._delayed[0][0] <= now:
            entry = heapq.heappop(self._delayed)[2]
            self._origins[entry.origin].delayed -= 1
            self._enqueue(entry, now)
        while self._due and self._due[0][0] <= now:
            _, _, version, known = heapq.heappop(self._due)
            if version == known.version:
                self._make_ready(known, now)
        while self._urgent:
            known, version = self._urgent.popleft()
            if version == known.version:
                return self._grant(known, known.urgent.popleft(), now)
        while self._active:
            tenant = min(self._active.values(), key=_service)
            ready = self._best(tenant, now)
            if ready is None:
                del self._active[tenant.key]
                continue
            known = ready.origin
            queue = known.queues[tenant.key]
            entry = heapq.heappop(queue)[3]
            if not queue:
                del known.queues[tenant.key]
            self._floor = max(self._floor, tenant.service)
            tenant.weight = entry.weight
            tenant.service += 1.0 / entry.weight
            return self._grant(known, entry, now)
        return None

    def next_time(self, now: float) -> float | None:
        """The earliest time at which `take` may give something; None when only an event (a finish, a push) can help."""
        if self._active or self._urgent:
            return now
        while self._due and self._due[0][2] != self._due[0][3].version:
            heapq.heappop(self._due)
        times = [heap[0][0] for heap in (self._due, self._delayed) if heap]
        return min(times) if times else None

    def start(self, grant: Grant[T], now: float) -> float:
        """Claim the start of the granted request: the time (never before `now`) at which it may be sent. Claimed again
        for a second request under the same grant."""
        grant.entry.move(State.STARTED)
        known = self._origins[grant.entry.origin]
        at = max(now, known.earliest_start)
        known.earliest_start = at + known.gap_s
        grant.started = True
        if known.next_eligible < known.earliest_start:
            known.next_eligible = known.earliest_start
            self._reschedule(known, now)
        return at

    def sent(self, grant: Grant[T], now: float) -> None:
        """The request's bytes went out only now, later than its start was claimed: the gap counts from here."""
        known = self._origins[grant.entry.origin]
        if known.earliest_start < now + known.gap_s:
            known.earliest_start = now + known.gap_s
            if known.next_eligible < known.earliest_start:
                known.next_eligible = known.earliest_start
                self._reschedule(known, now)

    def finish(self, grant: Grant[T], now: float) -> None:
        """The request is over. If nothing was started, the slot and the tenant's charge are given back."""
        grant.entry.move(State.DONE)
        known = self._origins[grant.entry.origin]
        known.in_flight -= 1
        self._granted -= 1
        if not grant.started:
            if known.next_eligible == grant.slot_after:
                known.next_eligible = grant.slot_before
            tenant = self._tenants.get(grant.entry.tenant)
            if tenant is not None and not grant.entry.ignores_hold:
                tenant.service -= 1.0 / grant.entry.weight
        self._reschedule(known, now)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _origin(self, name: str) -> _Origin[T]:
        known = self._origins.get(name)
        if known is None:
            known = self._origins[name] = _Origin(name, self._gap_s, self._max_in_flight)
        return known

    def _enqueue(self, entry: Entry[T], now: float) -> None:
        known = self._origin(entry.origin)
        known.queued += 1
        if entry.ignores_hold:
            known.urgent.append(entry)
        else:
            bonus = min(_AGE_CAP, self._age_weight * entry.age_s)
            queue = known.queues.setdefault(entry.tenant, [])
            was_waiting = bool(queue)
            heapq.heappush(queue, (-(entry.priority + bonus), -entry.age_s, entry.serial, entry))
            if was_waiting and queue[0][3] is not entry:
                return  # behind one that has already been scheduled
        self._reschedule(known, now)

    def _grant(self, known: _Origin[T], entry: Entry[T], now: float) -> Grant[T]:
        entry.move(State.GRANTED)
        known.ready_since = None
        known.queued -= 1
        known.in_flight += 1
        self._waiting -= 1
        self._granted += 1
        before = known.next_eligible
        known.next_eligible = max(now, known.earliest_start) + known.gap_s
        self._reschedule(known, now)
        return Grant(entry, now, before, known.next_eligible)

    def _reschedule(self, known: _Origin[T], now: float) -> None:
        """Whatever was scheduled for the origin is void; schedule it anew if it has something to grant."""
        known.version += 1
        if known.in_flight >= known.max_in_flight or not (known.urgent or (known.queues and not known.held)):
            return
        at = max(known.next_eligible, known.backoff_until)
        if at <= now:
            self._make_ready(known, now)
        else:
            self._serial += 1
            heapq.heappush(self._due, (at, self._serial, known.version, known))

    def _make_ready(self, known: _Origin[T], now: float) -> None:
        if known.urgent:
            self._urgent.append((known, known.version))
            return
        # Among equals, the origin whose backlog takes longest goes first, or the window would end waiting for it.
        left_s = known.queued * known.gap_s
        backlog = left_s / (left_s + _BACKLOG_HALF_S)
        since = known.ready_since = now if known.ready_since is None else known.ready_since
        for key, queue in known.queues.items():
            tenant = self._tenants.get(key)
            if tenant is None:
                tenant = self._tenants[key] = _Tenant(key)
            if key not in self._active:
                # A tenant that was idle has no claim on the past.
                tenant.service = max(tenant.service, self._floor)
                self._active[key] = tenant
            self._serial += 1
            ready = _Ready(known, known.version, -queue[0][0] + backlog, since, self._serial)
            heapq.heappush(tenant.young, (self._age_weight * since - ready.priority, ready.serial, ready))
            heapq.heappush(tenant.ripening, (since, ready.serial, ready))
            heapq.heappush(tenant.arrivals, (since, ready.serial, ready))
            if len(tenant.arrivals) > 4 * len(self._origins) + 64:
                self._compact(tenant)

    def _best(self, tenant: _Tenant[T], now: float) -> _Ready[T] | None:
        while tenant.arrivals and not tenant.arrivals[0][2].is_valid:
            heapq.heappop(tenant.arrivals)
        if not tenant.arrivals:
            tenant.young.clear()
            tenant.old.clear()
            tenant.ripening.clear()
            return None
        if now - tenant.arrivals[0][0] >= self._starvation_s:
            return tenant.arrivals[0][2]
        while tenant.ripening and (not tenant.ripening[0][2].is_valid or now - tenant.ripening[0][0] >= self._ripe_s):
            ready = heapq.heappop(tenant.ripening)[2]
            if ready.is_valid:
                ready.is_old = True
                heapq.heappush(tenant.old, (-ready.priority, ready.since, ready.serial, ready))
        while tenant.young and (not tenant.young[0][2].is_valid or tenant.young[0][2].is_old):
            heapq.heappop(tenant.young)
        while tenant.old and not tenant.old[0][3].is_valid:
            heapq.heappop(tenant.old)
        young = tenant.young[0][2] if tenant.young else None
        old = tenant.old[0][3] if tenant.old else None
        if young is None or old is None:
            return young or old
        return young if young.priority + self._age_weight * (now - young.since) > old.priority + _AGE_CAP else old

    def _compact(self, tenant: _Tenant[T]) -> None:
        """Void items cost memory until they come up: drop them when they are the most."""
        tenant.arrivals = [item for item in tenant.arrivals if item[2].is_valid]
        tenant.ripening = [item for item in tenant.ripening if item[2].is_valid]
        tenant.young = [item for item in tenant.young if item[2].is_valid and not item[2].is_old]
        tenant.old = [item for item in tenant.old if item[3].is_valid]
        heapq.heapify(tenant.arrivals)
        heapq.heapify(tenant.ripening)
        heapq.heapify(tenant.young)
        heapq.heapify(tenant.old)


def _service(tenant: _Tenant[T]) -> float:
    return tenant.service
