"""The crawl of one batch: gates, slots, exchanges, retries, commits, stop. Here: who waits for whom. Not here: what is
allowed (`egress`, `robots`), when (`politeness`), what an answer means (`outcomes`), durability (the ports).

One grant of the frontier is one request, at most. A visit that needs another one (its origin's robots.txt first, the
next redirect hop, a retry) goes back into the frontier, at the origin that is asked next: no task ever sleeps on a
slot, and every hop passes every gate.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import trio

from crawl.config import CrawlSettings
from crawl.egress.gate import Admission, EgressGate, Refused
from crawl.egress.resolver import DnsCache, SystemResolver
from crawl.http.client import H11Client
from crawl.http.exchange import ExchangeFailed, Exchanger, Limits, Request, Response
from crawl.outcomes import (
    HTML_TYPES,
    TRANSIENT,
    UNREACHED,
    body_cap,
    essence,
    is_login_redirect,
    looks_like_html,
    may_be_page,
    outcome_of,
    reason_of_status,
    warnings_of,
)
from crawl.politeness import Entry, Frontier, Grant, backoff_s, parse_retry_after
from crawl.ports import FetchResult, FetchSink, FetchTask, Hop, OriginBook, OriginState, RobotsRecord, SnapshotIndex
from crawl.robots import MAX_ROBOTS_BYTES, RobotsBook, RobotsState
from crawl.stop import Stop
from crawl.summary import CrawlSummary
from crawl.visit import (
    REDIRECTS,
    BadLocation,
    RobotsVisit,
    Visit,
    cookie_header,
    redirect_target,
    take_cookies,
)
from transforms.challenges import Kind, find_challenge
from transforms.clock import Clock
from transforms.reasons import Outcome, Reason
from transforms.urls import identify

log = logging.getLogger(__name__)

_Grant = Grant[Visit | RobotsVisit]
_Entry = Entry[Visit | RobotsVisit]

_HOP_BONUS = 100.0
"""A visit under way goes before new ones of its origin: fewer half-done visits in memory."""
_CHUNK = 5000
_SUPPRESSION_REFRESH_S = 30.0


class _NotNow(Exception):
    """Right before the request a gate changed its mind: the visit goes round again."""


class Crawl:
    """One batch. Use `crawl.crawl_batch`; parts are handed in here for tests."""

    def __init__(
        self,
        tasks: Sequence[FetchTask],
        *,
        settings: CrawlSettings,
        sink: FetchSink,
        snapshots: SnapshotIndex,
        origins: OriginBook,
        clock: Clock,
        stop: Stop | None = None,
        owns: Callable[[str], bool] | None = None,
        gate: EgressGate | None = None,
        client: Exchanger | None = None,
        rng: random.Random | None = None,
        blocking: Callable[..., Awaitable[Any]] = trio.to_thread.run_sync,
    ) -> None:
        self._tasks = tasks
        self._settings = settings
        self._sink = sink
        self._snapshots = snapshots
        self._book = origins
        self._clock = clock
        self._stop = stop or Stop()
        self._owns = owns
        self._gate = gate or default_gate(settings)
        self._client = client or H11Client(self._gate, max_idle=settings.idle_connections, idle_s=settings.idle_s)
        self._rng = rng or random.Random()
        self._blocking = blocking
        self._frontier: Frontier[Visit | RobotsVisit] = Frontier(
            gap_s=settings.origin_gap_s,
            max_in_flight=settings.origin_max_in_flight,
            starvation_s=settings.starvation_s,
        )
        self._robots = RobotsBook(settings)
        self._states: dict[str, OriginState] = {}
        self._home: set[str] = set()
        self._sites: set[str | None] = {task.registrable_domain for task in tasks if task.registrable_domain}
        self._suppressed: dict[str, bool] = {}
        self._failures: Counter[str] = Counter()
        self._next: dict[_Grant, _Entry] = {}
        self._dirty: set[str] = set()
        self._dirty_robots: dict[str, RobotsRecord] = {}
        self._available: set[str] = set()
        self._results: list[FetchResult] = []
        self._held_bytes = 0
        self._committing = 0
        self._commit_due = trio.Event()
        self._room = trio.Event()
        self._wake = trio.Event()
        self._done = False
        self._error: BaseException | None = None
        self._budget_end = float("inf")
        self._work = trio.CancelScope()
        self._limits = Limits(
            connect_s=settings.connect_timeout_s,
            first_byte_s=settings.first_byte_timeout_s,
            total_s=settings.total_timeout_s,
            max_header_bytes=settings.max_header_bytes,
            max_body_bytes=settings.max_body_bytes,
            max_ratio=settings.max_expansion_ratio,
        )
        self._robots_limits = Limits(
            connect_s=settings.connect_timeout_s,
            first_byte_s=settings.first_byte_timeout_s,
            total_s=settings.total_timeout_s,
            max_header_bytes=settings.max_header_bytes,
            max_body_bytes=MAX_ROBOTS_BYTES + 1,
            max_ratio=settings.max_expansion_ratio,
        )
        self._headers = (
            ("User-Agent", settings.user_agent),
            ("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"),
            ("Accept-Encoding", "gzip, deflate, br, zstd"),
        )
        self.summary = CrawlSummary(tasks=len(tasks))

    # -- the whole --------------------------------------------------------------------------------------------------

    async def run(self) -> CrawlSummary:
        """Until every task has a result, the budget is spent, or somebody asks to stop. Raises what the sink raised."""
        began = trio.current_time()
        if self._settings.window_budget_s is not None:
            self._budget_end = began + self._settings.window_budget_s
        try:
            async with trio.open_nursery() as helpers:
                helpers.start_soon(self._watch_stop)
                committing = trio.Event()
                helpers.start_soon(self._commit_loop, committing)
                with self._work:
                    await self._load()
                    async with trio.open_nursery() as workers:
                        await self._dispatch(workers)
                self._done = True
                self._commit_due.set()
                await committing.wait()
                helpers.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._client.aclose()
        if self._error is not None:
            raise self._error
        self.summary.seconds = trio.current_time() - began
        self.summary.origins = len(self._states)
        self.summary.stopped = self._stop.why
        return self.summary

    async def robots_of(self, url: str) -> RobotsState:
        """The robots.txt that governs `url`, asked for politely through every gate (no page is fetched). Raises
        `Refused` when the URL itself may not be contacted."""
        origin = self._gate.inspect(url).origin
        await self._meet([origin])
        entry: _Entry = Entry(origin, RobotsVisit(origin, f"{origin}/robots.txt"), ignores_hold=True)
        self._frontier.push(entry, trio.current_time())
        try:
            async with trio.open_nursery() as workers:
                await self._dispatch(workers)
        finally:
            with trio.CancelScope(shield=True):
                await self._client.aclose()
        state = self._robots.state(origin, self._clock.now())
        assert state is not None
        return state

    async def _watch_stop(self) -> None:
        await self._stop.wait()
        self._work.cancel()

    # -- loading ----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        if self._stop.why is not None:
            return
        placed: list[tuple[FetchTask, str]] = []
        for task in self._tasks:
            try:
                placed.append((task, self._gate.inspect(task.url).origin))
            except Refused as e:
                visit = Visit(task, task.url)
                visit.hops.append(Hop(task.url, e.gate, e.reason))
                self._emit(visit, e.reason, detail=e.detail)
        self._home = {origin for _, origin in placed}
        names = sorted(self._home)
        for at in range(0, len(names), _CHUNK):
            await self._meet(names[at : at + _CHUNK])
        keys = sorted({task.prior.object_key for task, _ in placed if task.prior is not None})
        for at in range(0, len(keys), _CHUNK):
            self._available |= await self._blocking(self._snapshots.is_available, keys[at : at + _CHUNK])
        now, today = trio.current_time(), self._clock.now()
        too_long = now + self._settings.max_backoff_wait_s
        for task, origin in placed:
            visit = Visit(task, task.url)
            if self._frontier.clock_of(origin)[1] > too_long:
                self._defer(
                    visit, Reason.ORIGIN_BACKOFF, "The origin asked to be left alone for longer than this crawl waits."
                )
                continue
            age = max(0.0, (today - task.due_at).total_seconds()) if task.due_at is not None else 0.0
            self._frontier.push(
                Entry(origin, visit, float(task.priority), age, task.tenant, max(1.0, float(task.tenant_weight))), now
            )

    async def _meet(self, names: list[str]) -> None:
        """Read what is remembered of origins."""
        states, robots, denied = await self._blocking(self._read_book, names)
        now, today = trio.current_time(), self._clock.now()
        for name in names:
            self._suppressed[name] = name in denied
            self._states.setdefault(name, OriginState(name))
        for state in states:
            self._states[state.origin] = state
            self._failures[state.origin] = state.consecutive_errors
            self._frontier.configure(
                state.origin,
                now,
                gap_s=state.min_gap_s,
                max_in_flight=state.max_in_flight,
                next_eligible=_to_monotonic(state.next_eligible_at, today, now),
                backoff_until=_to_monotonic(state.backoff_until, today, now),
            )
        self._robots.take_in(robots, today)
        for record in robots:
            self._apply_delay(record.origin)

    def _read_book(self, names: list[str]) -> tuple[list[OriginState], list[RobotsRecord], set[str]]:
        return self._book.load(names), self._book.load_robots(names), self._book.suppressed(names)

    # -- handing out ------------------------------------------------------------------------------------------------

    async def _dispatch(self, workers: trio.Nursery) -> None:
        """Start a worker for every grant that can start now; sleep until the next can."""
        frontier, limit = self._frontier, self._settings.max_in_flight
        while True:
            now = trio.current_time()
            if now >= self._budget_end and len(frontier):
                for entry in frontier.drain_all(now):
                    self._give_up(
                        entry.payload, Reason.WINDOW_BUDGET, "The window's time was spent before its turn came."
                    )
            if self._is_full():
                self._room = trio.Event()
                await self._room.wait()
                continue
            grant = frontier.take(now) if frontier.in_flight < limit else None
            if grant is not None:
                workers.start_soon(self._worker, grant)
                continue
            if not len(frontier) and not frontier.in_flight:
                return
            self._wake = trio.Event()
            until = frontier.next_time(now) if frontier.in_flight < limit else None
            with trio.CancelScope(
                deadline=min(self._budget_end if len(frontier) else float("inf"), until or float("inf"))
            ):
                await self._wake.wait()

    async def _worker(self, first: _Grant) -> None:
        """Carry out grants while there are any."""
        grant: _Grant | None = first
        while grant is not None:
            payload = grant.entry.payload
            try:
                if isinstance(payload, Visit):
                    await self._visit(grant, payload)
                else:
                    await self._ask_robots(grant, payload)
            except Exception as e:
                # A page must not be able to take the crawl down with it.
                log.exception("internal error at %s", payload.url)
                self.summary.internal_errors += 1
                self._give_up(
                    payload, Reason.PROTOCOL_ERROR, f"Internal error ({type(e).__name__}): please report this URL."
                )
            finally:
                now = trio.current_time()
                self._frontier.finish(grant, now)
                self._dirty.add(grant.entry.origin)
            again = self._next.pop(grant, None)
            if again is not None:
                self._push(again, now)
            self._wake.set()
            grant = None if self._is_full() or now >= self._budget_end else self._frontier.take(now)

    def _push(self, entry: _Entry, now: float) -> None:
        payload = entry.payload
        robots = self._robots.state(entry.origin, self._clock.now())
        if isinstance(payload, Visit) and robots is not None and robots.is_denied:
            self._is_denied(payload, robots)
        elif now >= self._budget_end:
            self._give_up(
                entry.payload, Reason.WINDOW_BUDGET, "The window's time was spent between two requests of this page."
            )
        else:
            self._frontier.push(entry, now)

    def _is_full(self) -> bool:
        waiting = len(self._results) + self._committing
        return waiting >= 4 * self._settings.commit_batch or self._held_bytes >= self._settings.commit_bytes

    # -- a page -----------------------------------------------------------------------------------------------------

    async def _visit(self, grant: _Grant, visit: Visit) -> None:
        began = trio.current_time()
        try:
            admission = await self._gate.admit_target(self._gate.inspect(visit.url))
        except Refused as e:
            visit.hops.append(Hop(visit.url, e.gate, e.reason, e.address))
            self._failed(grant, visit, e.reason, e.detail)
            return
        origin = admission.target.origin
        if await self._is_suppressed(origin):
            visit.hops.append(Hop(visit.url, "scope", Reason.SUPPRESSED))
            self._emit(visit, Reason.SUPPRESSED, detail="The host's owner asked not to be contacted.")
            return
        robots = self._robots.state(origin, self._clock.now())
        if robots is None:
            # This grant's request goes to robots.txt; the page waits for the next slot in its old place.
            self._again(grant, visit)
            await self._ask_robots(grant, RobotsVisit(origin, f"{origin}/robots.txt"))
            return
        if self._is_denied(visit, robots):
            return
        request, conditional = self._request(visit, admission, lambda: self._frontier.sent(grant, trio.current_time()))
        waited = 0.0

        async def before_send() -> None:
            nonlocal waited, robots
            asked_at = trio.current_time()
            at = self._frontier.start(grant, asked_at)
            if at > asked_at:
                await trio.sleep_until(at)
            waited += trio.current_time() - asked_at
            current = self._robots.state(origin, self._clock.now())
            if current is not robots:
                if current is None or self._suppressed.get(origin):
                    raise _NotNow
                robots = current
                if not current.judge(visit.url).allowed:
                    raise _NotNow
            self.summary.requests += 1
            if conditional:
                self.summary.conditional_sent += 1
                self._states[origin].validators_sent += 1

        visit.robots_version = robots.record.version
        try:
            response = await self._client.exchange(admission, request, before_send)
        except _NotNow:
            self._again(grant, visit)
            return
        except ExchangeFailed as e:
            visit.elapsed_s += trio.current_time() - began - waited
            visit.hops.append(Hop(visit.url, e.gate, e.reason, e.address))
            self._failed(grant, visit, e.reason, e.detail)
            return
        visit.elapsed_s += trio.current_time() - began - waited
        await self._answered(grant, visit, admission, response, conditional)

    def _is_denied(self, visit: Visit, robots: RobotsState) -> bool:
        verdict = robots.judge(visit.url)
        visit.robots_version = robots.record.version
        if verdict.allowed:
            return False
        if not robots.is_denied:
            visit.hops.append(Hop(visit.url, "robots", Reason.ROBOTS_DENIED))
            self._emit(visit, Reason.ROBOTS_DENIED, detail=f"robots.txt says {verdict.rule!r}.")
            return True
        # The host could not even be reached: say so, it is the more useful truth. Otherwise: disallowed for now.
        reason = robots.cause if robots.cause in UNREACHED else Reason.ROBOTS_UNREACHABLE
        assert reason is not None
        visit.hops.append(Hop(visit.url, "robots", reason))
        self._emit(
            visit, reason, detail=f"robots.txt could not be read, so nothing may be fetched for now: {robots.detail}."
        )
        return True

    def _request(self, visit: Visit, admission: Admission, on_sent: Callable[[], None]) -> tuple[Request, bool]:
        headers: tuple[tuple[str, str], ...] = self._headers
        target = admission.target
        cookie = cookie_header(visit.cookies, target.host, target.path, target.scheme)
        visit.seen.append((target.url, cookie))
        if cookie:
            headers = (*headers, ("Cookie", cookie))
        prior = visit.task.prior
        conditional = (
            prior is not None
            and not visit.unconditional
            and prior.object_key in self._available
            and prior.document_url == target.url
            and bool(prior.etag or prior.last_modified)
            and self._trusts_validators(target.origin)
        )
        if conditional:
            assert prior is not None
            if prior.etag:
                headers = (*headers, ("If-None-Match", prior.etag))
            if prior.last_modified:
                headers = (*headers, ("If-Modified-Since", prior.last_modified))
        return Request(headers, self._limits, self._page_cap, on_sent), conditional

    def _page_cap(self, status: int, content_type: str) -> int:
        return body_cap(status, content_type, self._settings.max_body_bytes)

    def _trusts_validators(self, origin: str) -> bool:
        state = self._states.get(origin)
        if state is None or state.validators_sent < self._settings.validators_distrust_after:
            return True
        return state.validators_lied * 2 <= state.validators_sent

    async def _answered(
        self,
        grant: _Grant,
        visit: Visit,
        admission: Admission,
        response: Response,
        conditional: bool,
    ) -> None:
        self.summary.wire_bytes += response.wire_bytes
        origin, status = admission.target.origin, response.status
        if status in REDIRECTS:
            visit.hops.append(Hop(visit.url, "response", Reason.OK, response.address, status))
            self._well(origin)
            await self._redirected(grant, visit, admission, response)
            return
        if status == 304 and conditional:
            await self._not_modified(grant, visit, admission, response)
            return
        reason = reason_of_status(status)
        detail = None if reason is Reason.OK else f"The server answered {status}."
        if response.problem is not None and (reason is Reason.OK or response.problem is Reason.CONNECTION_RESET):
            reason, detail = response.problem, response.detail
        if reason is Reason.OK:
            reason, detail = self._read_page(visit, response)
        if status in (200, 401, 403, 404, 410, 429, 503):
            marker = find_challenge(response.body, response.headers, visit.url, visit.task.url)
            if marker is not None and (
                status != 200 or reason in (Reason.OK, Reason.BODY_TRUNCATED, Reason.EMPTY_BODY)
            ):
                reason = Reason.CONSENT_WALL if marker.kind is Kind.CONSENT else Reason.CHALLENGE
                detail = f"A page that stands between robots and the content ({marker.name}), with status {status}."
        visit.hops.append(Hop(visit.url, "response", reason, response.address, status))
        if reason in TRANSIENT:
            self._failed(grant, visit, reason, detail or "", response)
            return
        self._well(origin)
        self._emit(visit, reason, detail=detail, response=response, conditional=conditional)

    def _read_page(self, visit: Visit, response: Response) -> tuple[Reason, str | None]:
        """A 2xx with a whole body: is it a page?"""
        content_type = response.get("content-type") or ""
        kind = essence(content_type)
        if not may_be_page(content_type) or (
            kind not in HTML_TYPES and response.body and not looks_like_html(response.body)
        ):
            return (
                Reason.UNSUPPORTED_TYPE,
                f"Content-Type {content_type[:100]!r} is not a page whose links can be read.",
            )
        if response.truncated:
            return (
                Reason.BODY_TRUNCATED,
                f"The page is longer than {self._settings.max_body_bytes} bytes and was cut there.",
            )
        if not response.body.strip(b" \t\r\n\0"):
            return Reason.EMPTY_BODY, "The page is empty."
        if response.body.startswith((b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")):
            return Reason.BAD_ENCODING, "The body is compressed but no Content-Encoding says so."
        if visit.redirects and is_login_redirect(visit.task.url, visit.url):
            return Reason.LOGIN_REDIRECT, f"The page redirects to a sign-in page, {visit.url[:200]}."
        return Reason.OK, None

    async def _redirected(self, grant: _Grant, visit: Visit, admission: Admission, response: Response) -> None:
        target = admission.target
        try:
            url = redirect_target(target.url, response.get_all("location"))
        except BadLocation as e:
            self._emit(visit, Reason.BAD_REDIRECT, detail=str(e), response=response)
            return
        take_cookies(visit.cookies, response.get_all("set-cookie"), target.host, target.scheme)
        if visit.redirects >= self._settings.max_redirects:
            self._emit(
                visit,
                Reason.TOO_MANY_REDIRECTS,
                detail=f"More than {self._settings.max_redirects} redirects.",
                response=response,
            )
            return
        visit.redirects += 1
        try:
            following = self._gate.inspect(url)
        except Refused as e:
            visit.hops.append(Hop(url, e.gate, e.reason))
            visit.url = url
            self._emit(visit, e.reason, detail=f"The redirect to {url[:200]} is refused: {e.detail}")
            return
        visit.url = following.url
        if (
            following.url,
            cookie_header(visit.cookies, following.host, following.path, following.scheme),
        ) in visit.seen:
            self._emit(
                visit,
                Reason.REDIRECT_LOOP,
                detail=f"The redirects come back to {following.url[:200]}.",
                response=response,
            )
            return
        entry = grant.entry
        again: _Entry = Entry(
            following.origin, visit, float(visit.task.priority) + _HOP_BONUS, entry.age_s, entry.tenant, entry.weight
        )
        await self._place(again)
        self._next[grant] = again

    async def _place(self, entry: _Entry) -> None:
        """Before a request at an origin that may be new to this crawl: read what is remembered of it and, when it is
        another shard's, reserve its slot in the ledger."""
        origin = entry.origin
        if origin not in self._states:
            await self._meet([origin])
        if self._is_ours(origin):
            return
        now, today = trio.current_time(), self._clock.now()
        slot = await self._blocking(self._book.take_foreign_slot, origin, today, self._frontier.gap_of(origin))
        entry.not_before = max(entry.not_before, now + (slot - today).total_seconds())

    def _is_ours(self, origin: str) -> bool:
        """Is the origin's clock kept here? A shard owns whole registrable domains, so that of any task settles it."""
        if origin in self._home:
            return True
        ours = self._owns(origin) if self._owns is not None else identify(f"{origin}/").site in self._sites
        if ours:
            self._home.add(origin)
        return ours

    async def _not_modified(self, grant: _Grant, visit: Visit, admission: Admission, response: Response) -> None:
        prior = visit.task.prior
        assert prior is not None
        there = await self._blocking(self._snapshots.is_available, [prior.object_key])
        origin = admission.target.origin
        self._well(origin)
        if prior.object_key in there:
            visit.hops.append(Hop(visit.url, "response", Reason.NOT_MODIFIED, response.address, 304))
            self.summary.not_modified += 1
            self._emit(visit, Reason.NOT_MODIFIED, response=response)
            return
        self._available.discard(prior.object_key)
        self._states[origin].validators_lied += 1
        if visit.unconditional:
            visit.hops.append(Hop(visit.url, "response", Reason.ARTIFACT_UNAVAILABLE, response.address, 304))
            self._emit(
                visit, Reason.ARTIFACT_UNAVAILABLE, detail="304, but the earlier snapshot is gone.", response=response
            )
            return
        # Once more, without validators.
        visit.unconditional = True
        visit.hops.append(Hop(visit.url, "response", Reason.ARTIFACT_UNAVAILABLE, response.address, 304))
        self._again(grant, visit)

    # -- failures ---------------------------------------------------------------------------------------------------

    def _well(self, origin: str) -> None:
        """The origin answers: forget its failures."""
        if self._failures.pop(origin, 0):
            self._states[origin].consecutive_errors = 0
            self._states[origin].backoff_until = None

    def _failed(
        self,
        grant: _Grant,
        visit: Visit,
        reason: Reason,
        detail: str,
        response: Response | None = None,
    ) -> None:
        """A failure: back off the origin if it asks for it or is down; try the page again if that may help."""
        settings, now = self._settings, trio.current_time()
        origin = grant.entry.origin
        not_before = now + backoff_s(visit.attempt, settings.retry_base_s, 3600.0, self._rng.random)
        if reason in (Reason.HTTP_429, Reason.HTTP_503):
            asked = parse_retry_after(response.get("retry-after") if response else None, self._clock.now())
            not_before = self._back_off(origin, asked)
        elif reason in UNREACHED:
            self._failures[origin] += 1
            if self._failures[origin] >= settings.origin_error_limit:
                not_before = max(not_before, self._back_off(origin, None))
        elif reason in TRANSIENT and response is not None:
            self._failures.pop(origin, None)
        again = (
            reason in TRANSIENT
            and visit.attempt < settings.max_attempts
            and not_before - now <= settings.max_backoff_wait_s
            and not_before < self._budget_end
        )
        if not again:
            self._emit(visit, reason, detail=detail, response=response)
            return
        self.summary.retries += 1
        visit.restart()
        first = self._gate.inspect(visit.task.url)
        self._next[grant] = Entry(
            first.origin,
            visit,
            float(visit.task.priority),
            grant.entry.age_s,
            grant.entry.tenant,
            grant.entry.weight,
            not_before=not_before,
        )

    def _back_off(self, origin: str, asked_s: int | None, *, may_drain: bool = True) -> float:
        """Leave the whole origin alone; its waiting pages are deferred when that takes too long. Returns until when."""
        settings, now = self._settings, trio.current_time()
        state = self._state_of(origin)
        state.consecutive_errors = self._failures[origin] = max(1, self._failures[origin] + (asked_s is None))
        computed = backoff_s(
            state.consecutive_errors, settings.origin_backoff_base_s, settings.origin_backoff_cap_s, self._rng.random
        )
        # Retry-After is kept to, with a little jitter so that not everybody returns in the same second.
        seconds = computed if asked_s is None else asked_s * (1.0 + 0.05 * self._rng.random())
        until = now + seconds
        self._frontier.back_off(origin, until, now)
        self._dirty.add(origin)
        if may_drain and (seconds > settings.max_backoff_wait_s or until >= self._budget_end):
            for entry in self._frontier.drain(origin, now):
                self._give_up(
                    entry.payload, Reason.ORIGIN_BACKOFF, "The origin asked to be left alone, or does not answer."
                )
        return until

    def _state_of(self, origin: str) -> OriginState:
        return self._states.setdefault(origin, OriginState(origin))

    def _again(self, grant: _Grant, visit: Visit) -> None:
        """The visit goes back to where it was."""
        old = grant.entry
        again: _Entry = Entry(old.origin, visit, old.priority, old.age_s, old.tenant, old.weight, serial=old.serial)
        self._next[grant] = again

    def _give_up(self, payload: Visit | RobotsVisit, reason: Reason, detail: str) -> None:
        if isinstance(payload, Visit):
            visit = payload
            if not visit.hops or visit.hops[-1].url != visit.url:
                visit.hops.append(Hop(visit.url, "clock", reason))
            self._emit(visit, reason, detail=detail)
            return
        self._robots_unreachable(payload.origin, None, detail)

    def _defer(self, visit: Visit, reason: Reason, detail: str) -> None:
        visit.hops.append(Hop(visit.url, "clock", reason))
        self._emit(visit, reason, detail=detail)

    # -- robots.txt -------------------------------------------------------------------------------------------------

    async def _ask_robots(self, grant: _Grant, ask: RobotsVisit) -> None:
        """One request of a robots.txt: the grant's origin is asked, whatever origin it is wanted for. Pages of the
        origin it is wanted for are held until the answer is known."""
        if not self._frontier.is_held(ask.origin):
            self._frontier.hold(ask.origin, trio.current_time())
        try:
            await self._ask_robots_once(grant, ask)
        except Exception:
            log.exception("internal error at %s", ask.url)
            self.summary.internal_errors += 1
            self._robots_unreachable(ask.origin, None, "internal error")

    async def _ask_robots_once(self, grant: _Grant, ask: RobotsVisit) -> None:
        try:
            admission = await self._gate.admit(ask.url)
        except Refused as e:
            await self._robots_failed(ask, e.reason, e.detail)
            return
        if ask.redirects and await self._is_suppressed(admission.target.origin):
            self._robots_unreachable(ask.origin, None, "its redirect leads to a suppressed host")
            return

        async def before_send() -> None:
            asked_at = trio.current_time()
            at = self._frontier.start(grant, asked_at)
            if at > asked_at:
                await trio.sleep_until(at)
            self.summary.requests += 1
            self.summary.robots_requests += 1

        request = Request(
            self._headers, self._robots_limits, on_sent=lambda: self._frontier.sent(grant, trio.current_time())
        )
        try:
            response = await self._client.exchange(admission, request, before_send)
        except ExchangeFailed as e:
            await self._robots_failed(ask, e.reason, e.detail)
            return
        self.summary.wire_bytes += response.wire_bytes
        now = self._clock.now()
        if response.status in REDIRECTS:
            await self._robots_redirected(ask, admission, response)
        elif response.problem is not None and not response.truncated:
            await self._robots_failed(ask, response.problem, response.detail)
        elif response.status in (429, 503):
            until = self._back_off(
                grant.entry.origin, parse_retry_after(response.get("retry-after"), now), may_drain=False
            )
            await self._robots_failed(ask, reason_of_status(response.status), f"HTTP {response.status}", until)
        elif response.status >= 500:
            await self._robots_failed(ask, Reason.HTTP_5XX, f"HTTP {response.status}")
        else:
            self._robots_known(
                self._robots.answered(ask.origin, response.status, response.body, response.get("cache-control"), now)
            )

    async def _robots_redirected(self, ask: RobotsVisit, admission: Admission, response: Response) -> None:
        if ask.redirects >= 5:
            self._robots_known(self._robots.unavailable(ask.origin, self._clock.now()))
            return
        try:
            following = self._gate.inspect(redirect_target(admission.target.url, response.get_all("location")))
        except (BadLocation, Refused) as e:
            self._robots_unreachable(ask.origin, None, f"its redirect is refused: {e}")
            return
        hop = RobotsVisit(ask.origin, following.url, ask.redirects + 1, ask.attempt)
        again: _Entry = Entry(following.origin, hop, ignores_hold=True)
        await self._place(again)
        self._push(again, trio.current_time())

    async def _robots_failed(self, ask: RobotsVisit, reason: Reason, detail: str, until: float = 0.0) -> None:
        """No answer: once more if that may help and is soon, else nothing may be fetched for now (or the last good copy
        stands in)."""
        settings, now = self._settings, trio.current_time()
        wait = max(until - now, backoff_s(ask.attempt, settings.retry_base_s, 3600.0, self._rng.random))
        if (
            reason in TRANSIENT
            and ask.attempt < settings.max_attempts
            and wait <= settings.max_backoff_wait_s
            and now + wait < self._budget_end
            and not self._robots.has_stand_in(ask.origin, self._clock.now())
        ):
            self.summary.retries += 1
            again: _Entry = Entry(
                ask.origin,
                RobotsVisit(ask.origin, f"{ask.origin}/robots.txt", 0, ask.attempt + 1),
                not_before=now + wait,
                ignores_hold=True,
            )
            await self._place(again)
            self._push(again, now)
            return
        self._robots_unreachable(ask.origin, reason, detail)

    def _robots_unreachable(self, origin: str, cause: Reason | None, detail: str) -> None:
        if cause in UNREACHED:
            self._state_of(origin).consecutive_errors += 1
            self._dirty.add(origin)
        self._robots_known(self._robots.unreachable(origin, self._clock.now(), cause, detail.rstrip(".")))

    def _robots_known(self, state: RobotsState) -> None:
        origin, now = state.record.origin, trio.current_time()
        self._dirty_robots[origin] = state.record
        self._apply_delay(origin)
        self._frontier.unhold(origin, now)
        if state.is_denied:
            # Nothing of this origin will be asked: say so now, not when its clock would allow a request.
            for entry in self._frontier.drain(origin, now):
                if isinstance(entry.payload, Visit):
                    self._is_denied(entry.payload, state)

    def _apply_delay(self, origin: str) -> None:
        """Crawl-delay may lengthen the gap, never shorten it, and is capped."""
        state = self._robots.state(origin, self._clock.now())
        if state is None:
            return
        own = self._states[origin].min_gap_s if origin in self._states else None
        gap = self._settings.origin_gap_s if own is None else own
        delay = state.crawl_delay_s(self._settings.max_crawl_delay_s)
        if max(gap, delay) != self._frontier.gap_of(origin):
            self._frontier.configure(origin, trio.current_time(), gap_s=max(gap, delay))

    async def _is_suppressed(self, origin: str) -> bool:
        known = self._suppressed.get(origin)
        if known is None:
            await self._meet([origin])
            known = self._suppressed[origin]
        return known

    # -- results ----------------------------------------------------------------------------------------------------

    def _emit(
        self,
        visit: Visit,
        reason: Reason,
        *,
        detail: str | None = None,
        response: Response | None = None,
        conditional: bool = False,
    ) -> None:
        now = self._clock.now()
        result = FetchResult(
            visit.task,
            outcome_of(reason),
            reason,
            now,
            detail=detail,
            hops=visit.hops,
            elapsed_ms=int(visit.elapsed_s * 1000),
            robots_version=visit.robots_version,
            attempt=visit.attempt,
        )
        if response is not None:
            self._describe(result, visit, response, now, conditional)
        self._results.append(result)
        self._held_bytes += len(result.body or b"")
        summary = self.summary
        summary.results += 1
        summary.by_outcome[result.outcome.value] += 1
        summary.by_reason[reason.value] += 1
        if len(self._results) >= self._settings.commit_batch or self._held_bytes * 2 >= self._settings.commit_bytes:
            self._commit_due.set()

    def _describe(
        self, result: FetchResult, visit: Visit, response: Response, now: datetime, conditional: bool
    ) -> None:
        """What the final response said."""
        result.http_status = response.status
        result.final_url = visit.url
        result.wire_bytes = response.wire_bytes
        result.content_type = response.get("content-type")
        result.etag = response.get("etag")
        result.last_modified = response.get("last-modified")
        result.x_robots_tag = response.get_all("x-robots-tag")
        result.link_header = response.get_all("link")
        result.refresh_header = response.get("refresh")
        result.retry_after_s = parse_retry_after(response.get("retry-after"), now)
        prior = visit.task.prior
        if result.outcome is Outcome.NOT_MODIFIED:
            assert prior is not None
            result.validation_method = "not_modified"
            result.content_hash, result.object_key = prior.content_hash, prior.object_key
            result.content_type = prior.content_type
            result.etag = result.etag or prior.etag
            result.last_modified = result.last_modified or prior.last_modified
            result.x_robots_tag = result.x_robots_tag or list(prior.x_robots_tag)
            result.link_header = result.link_header or list(prior.link_header)
            result.refresh_header = result.refresh_header or prior.refresh_header
        elif result.outcome is Outcome.FETCHED:
            result.validation_method = "full_body"
            result.body = response.body
            result.content_hash = hashlib.sha256(response.body).digest()
            result.warnings = warnings_of(response.body)
            if response.truncated:
                # A 304 to these would pass off half a page as a whole one.
                result.etag = result.last_modified = None
            self.summary.body_bytes += len(response.body)
            if prior is not None and prior.document_url == visit.url:
                self._judge_validators(visit, result, conditional)

    def _judge_validators(self, visit: Visit, result: FetchResult, conditional: bool) -> None:
        """A whole body came: equal to the earlier one although validators were sent, or changed under the same strong
        ETag, the origin's validators are worth nothing or worse."""
        prior, state = visit.task.prior, self._states.get(self._gate.inspect(visit.url).origin)
        assert prior is not None
        if state is None:
            return
        same_body = result.content_hash == prior.content_hash
        same_etag = bool(prior.etag) and prior.etag == result.etag and not str(prior.etag).startswith("W/")
        if (conditional and same_body) or (same_etag and not same_body):
            state.validators_lied += 1

    # -- committing -------------------------------------------------------------------------------------------------

    async def _commit_loop(self, done: trio.Event) -> None:
        """Commit in batches until the work is over, then the rest. A cancelled crawl still commits what is complete."""
        try:
            refreshed = trio.current_time()
            while not self._done and self._error is None:
                with trio.move_on_after(self._settings.commit_interval_s):
                    await self._commit_due.wait()
                self._commit_due = trio.Event()
                await self._commit()
                if trio.current_time() - refreshed > _SUPPRESSION_REFRESH_S:
                    refreshed = trio.current_time()
                    await self._refresh_suppressions()
        finally:
            with trio.CancelScope(shield=True):
                while self._results and self._error is None:
                    await self._commit()
                if self._error is None:
                    await self._commit()
            done.set()

    async def _commit(self) -> None:
        batch = self._results[: self._settings.commit_batch]
        del self._results[: len(batch)]
        if len(self._results) >= self._settings.commit_batch:
            self._commit_due.set()
        states = self._take_dirty()
        robots = list(self._dirty_robots.values())
        self._dirty_robots.clear()
        if not (batch or states or robots):
            return
        self._committing = len(batch)
        try:
            with trio.CancelScope(shield=True):
                await self._blocking(self._write, batch, states, robots)
        except Exception as e:
            # The shard may be somebody else's now, or a store is down: stop at once, commit no more.
            self._error = e
            self._work.cancel()
            return
        finally:
            self._committing = 0
            self._held_bytes -= sum(len(result.body or b"") for result in batch)
            self._room.set()
        if batch:
            self.summary.commits += 1

    def _write(self, batch: list[FetchResult], states: list[OriginState], robots: list[RobotsRecord]) -> None:
        if batch:
            self._sink.commit(batch)
        if states:
            self._book.save(states)
        if robots:
            self._book.save_robots(robots)

    def _take_dirty(self) -> list[OriginState]:
        now, today = trio.current_time(), self._clock.now()
        states = []
        for origin in self._dirty:
            state = self._state_of(origin)
            eligible, backoff = self._frontier.clock_of(origin)
            state.next_eligible_at = _to_wall(eligible, today, now)
            state.backoff_until = _to_wall(backoff, today, now) if backoff > now else None
            states.append(replace(state))
        self._dirty.clear()
        return states

    async def _refresh_suppressions(self) -> None:
        """Suppression outranks everything, also a crawl that is under way."""
        names = sorted(self._suppressed)
        for at in range(0, len(names), _CHUNK):
            chunk = names[at : at + _CHUNK]
            denied = await self._blocking(self._book.suppressed, chunk)
            self._suppressed.update((name, name in denied) for name in chunk)


def default_gate(settings: CrawlSettings) -> EgressGate:
    """The egress gate that the settings ask for."""
    return EgressGate(
        settings.allowed_ports,
        resolver=DnsCache(SystemResolver(settings.dns_timeout_s), settings.dns_ttl_s, settings.dns_nxdomain_ttl_s),
        test_hosts=settings.test_hosts,
        test_ca_file=settings.test_ca_file,
    )


def _to_monotonic(at: datetime | None, today: datetime, now: float) -> float | None:
    return None if at is None else now + (at - today).total_seconds()


def _to_wall(at: float, today: datetime, now: float) -> datetime | None:
    return None if at == float("-inf") else today + timedelta(seconds=at - now)
