"""One batch: the rooms wired together, run, and stopped cleanly. Here: the order of the whole and the defaults of its
parts. Not here: any room's work.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio

from crawl.config import CrawlSettings
from crawl.egress.gate import EgressGate
from crawl.egress.resolver import DnsCache, SystemResolver
from crawl.engine.backing_off import BackingOff
from crawl.engine.commit_loop import CommitLoop
from crawl.engine.context import Context
from crawl.engine.dispatch import Dispatcher
from crawl.engine.loading import Loader
from crawl.engine.origins import Origins
from crawl.engine.page_visits import PageVisits
from crawl.engine.redirects import Redirects
from crawl.engine.results import Results
from crawl.engine.robots_visits import RobotsVisits
from crawl.http.client import H11Client
from crawl.http.exchange import Exchanger
from crawl.politeness import Entry, Frontier
from crawl.ports import FetchSink, FetchTask, OriginBook, SnapshotIndex
from crawl.robots import RobotsState
from crawl.stop import Stop
from crawl.summary import CrawlSummary
from crawl.visit import RobotsVisit
from transforms.clock import Clock


class Crawl:
    """One batch. Use `crawl.crawl_batch`; parts are handed in here for tests."""

    def __init__(
        self,
        tasks: Iterable[FetchTask],
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
        gate = gate or default_gate(settings)
        self.context = Context(
            settings=settings,
            clock=clock,
            rng=rng or random.Random(),
            blocking=blocking,
            gate=gate,
            client=client
            or H11Client(
                gate,
                max_idle=settings.idle_connections,
                idle_s=settings.idle_s,
                large_bodies=settings.large_bodies,
            ),
            frontier=Frontier(
                gap_s=settings.origin_gap_s,
                max_in_flight=settings.origin_max_in_flight,
                starvation_s=settings.starvation_s,
            ),
            summary=CrawlSummary(),
        )
        self._stop = stop or Stop()
        self._work = trio.CancelScope()
        self.origins = Origins(self.context, origins, owns)
        self._commits = CommitLoop(self.context, sink, self.origins, on_error=self._work.cancel)
        results = Results(self.context, self.origins, self._commits)
        backing_off = BackingOff(self.context, self.origins, results, self._commits)
        robots_visits = RobotsVisits(self.context, self.origins, results, backing_off)
        redirects = Redirects(self.context, self.origins, results)
        page_visits = PageVisits(self.context, self.origins, results, backing_off, redirects, robots_visits, snapshots)
        loader = Loader(self.context, self.origins, results, snapshots, tasks)
        self._dispatcher = Dispatcher(
            self.context, self.origins, results, self._commits, loader, page_visits, robots_visits
        )

    async def run(self) -> CrawlSummary:
        """Until every task has a result, the budget is spent, or somebody asks to stop. Raises what the sink raised."""
        context, summary = self.context, self.context.summary
        began = trio.current_time()
        if context.settings.window_budget_s is not None:
            context.budget_end = began + context.settings.window_budget_s
        try:
            async with trio.open_nursery() as helpers:
                helpers.start_soon(self._watch_stop)
                committing = trio.Event()
                helpers.start_soon(self._commits.run, committing)
                with self._work:
                    if self._stop.why is None:
                        async with trio.open_nursery() as workers:
                            await self._dispatcher.run(workers)
                self._commits.finish()
                await committing.wait()
                helpers.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await context.client.aclose()
        if self._commits.error is not None:
            if self._stop.why is None:
                raise self._commits.error
            summary.error = self._commits.error  # somebody ended this: whoever called must not try again
        summary.seconds = trio.current_time() - began
        summary.origins = self.origins.met
        summary.stopped = self._stop.why
        return summary

    async def robots_of(self, url: str) -> RobotsState:
        """The robots.txt that governs `url`, asked for politely through every gate (no page is fetched). Raises
        `Refused` when the URL itself may not be contacted."""
        context = self.context
        origin = context.gate.inspect(url).origin
        await self.origins.meet([origin])
        asked = RobotsVisit(origin, f"{origin}/robots.txt")
        self._dispatcher.push(Entry(origin, asked, ignores_hold=True), trio.current_time())
        try:
            async with trio.open_nursery() as workers:
                await self._dispatcher.run(workers)
        finally:
            with trio.CancelScope(shield=True):
                await context.client.aclose()
        state = self.origins.robots.state(origin, context.clock.now())
        assert state is not None
        return state

    async def _watch_stop(self) -> None:
        await self._stop.wait()
        self._work.cancel()


def default_gate(settings: CrawlSettings) -> EgressGate:
    """The egress gate that the settings ask for."""
    return EgressGate(
        settings.allowed_ports,
        resolver=DnsCache(SystemResolver(settings.dns_timeout_s), settings.dns_ttl_s, settings.dns_nxdomain_ttl_s),
        test_hosts=settings.test_hosts,
        test_ca_file=settings.test_ca_file,
    )
