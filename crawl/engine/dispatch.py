"""Grants to workers. Here: starting a worker for each grant, what a finished grant leaves to do, the end of the window's
budget. Not here: which grant is next (`crawl.politeness.frontier`), what a worker does (`page_visits`,
`robots_visits`).
"""

from __future__ import annotations

import logging

import trio

from crawl.engine.commit_loop import CommitLoop
from crawl.engine.context import Again, Context, PortFailed, Work, WorkEntry, WorkGrant
from crawl.engine.loading import Loader
from crawl.engine.origins import Origins
from crawl.engine.page_visits import PageVisits
from crawl.engine.results import Results
from crawl.engine.robots_visits import RobotsVisits
from crawl.visit import Visit
from transforms.reasons import Reason

log = logging.getLogger(__name__)

_NEVER = float("inf")


class Dispatcher:
    """At most `max_in_flight` grants are carried out at once; none while results wait for room."""

    def __init__(
        self,
        context: Context,
        origins: Origins,
        results: Results,
        commits: CommitLoop,
        loader: Loader,
        page_visits: PageVisits,
        robots_visits: RobotsVisits,
    ) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._commits = commits
        self._loader = loader
        self._page_visits = page_visits
        self._robots_visits = robots_visits
        self._wake = trio.Event()

    async def run(self, workers: trio.Nursery) -> None:
        """Start a worker for every grant that can start now; read on when too few pages wait, or a worker would be idle
        (the next pages may be of another host); sleep until the next grant can start. Ends when nothing is left."""
        context, frontier, loader = self._context, self._context.frontier, self._loader
        limit, read_ahead = context.settings.max_in_flight, context.settings.read_ahead
        while True:
            now = trio.current_time()
            if now >= context.budget_end and len(frontier):
                for entry in frontier.drain_all(now):
                    self._give_up(
                        entry.payload, Reason.WINDOW_BUDGET, "The window's time was spent before its turn came."
                    )
            if self._commits.is_full:
                await self._commits.wait_for_room()
                continue
            grant = frontier.take(now) if frontier.in_flight < limit else None
            if grant is not None:
                workers.start_soon(self._work, grant)
                continue
            if not loader.is_done and (frontier.in_flight < limit or len(frontier) < read_ahead):
                try:
                    await loader.load()
                except PortFailed as e:
                    self._commits.fail(e.cause)
                    return
                continue
            if not len(frontier) and not frontier.in_flight:
                return
            self._wake = trio.Event()
            until = frontier.next_time(now) if frontier.in_flight < limit else None
            with trio.CancelScope(deadline=min(context.budget_end if len(frontier) else _NEVER, until or _NEVER)):
                await self._wake.wait()

    async def _work(self, first: WorkGrant) -> None:
        """Carry out grants while there are any."""
        frontier = self._context.frontier
        grant: WorkGrant | None = first
        while grant is not None:
            payload = grant.entry.payload
            again: Again = ()
            try:
                if isinstance(payload, Visit):
                    again = await self._page_visits.visit(grant, payload)
                else:
                    again = await self._robots_visits.ask(grant, payload)
            except PortFailed as e:
                self._commits.fail(e.cause)  # the page has no outcome: the next run asks it
            except Exception as e:
                # A page must not be able to take the crawl down with it.
                log.exception("internal error at %s", payload.url)
                self._context.summary.internal_errors += 1
                self._give_up(
                    payload, Reason.PROTOCOL_ERROR, f"Internal error ({type(e).__name__}): please report this URL."
                )
            finally:
                now = trio.current_time()
                frontier.finish(grant, now)
                self._origins.touch(grant.entry.origin)
                self._origins.finished(grant.entry.origin)
            for entry in again:
                self.push(entry, now)
            self._wake.set()
            grant = None if self._commits.is_full or now >= self._context.budget_end else frontier.take(now)

    def push(self, entry: WorkEntry, now: float) -> None:
        """Into the frontier, unless it is already known that it will not be asked."""
        payload = entry.payload
        if isinstance(payload, Visit):
            robots = self._origins.robots.state(entry.origin, self._context.clock.now())
            if robots is not None and robots.is_denied:
                self._results.deny(payload, robots)
                return
        if now >= self._context.budget_end:
            self._give_up(
                payload, Reason.WINDOW_BUDGET, "The window's time was spent between two requests of this page."
            )
            return
        self._context.frontier.push(entry, now)

    def _give_up(self, payload: Work, reason: Reason, detail: str) -> None:
        if isinstance(payload, Visit):
            self._results.defer(payload, reason, detail)
        else:
            self._robots_visits.unreachable(payload.origin, None, detail)
