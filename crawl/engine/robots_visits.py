"""One request of a robots.txt, and what follows from its answer. Here: its redirects, its retries, holding and
releasing the pages that wait for it. Not here: what a file says (`crawl.robots`).
"""

from __future__ import annotations

import logging

import trio

from crawl.egress.gate import Admission, Refused
from crawl.engine.backing_off import BackingOff
from crawl.engine.context import Again, Context, PortFailed, WorkEntry, WorkGrant, headers_of, limits_of
from crawl.engine.origins import Origins
from crawl.engine.results import Results
from crawl.engine.starting import MAX_MISSED, NotNow, start
from crawl.http.exchange import ExchangeFailed, Request, Response
from crawl.outcomes import TRANSIENT, UNREACHED, reason_of_status
from crawl.politeness import Entry, backoff_s, parse_retry_after
from crawl.robots import MAX_ROBOTS_BYTES, RobotsState
from crawl.visit import REDIRECTS, BadLocation, RobotsVisit, Visit, redirect_target
from transforms.reasons import Reason

log = logging.getLogger(__name__)

_MAX_REDIRECTS = 5
"""RFC 9309 §2.3.1.2."""


class RobotsVisits:
    """The grant's origin is asked, whatever origin the file is wanted for (a redirect leads elsewhere). Pages of the
    origin that it is wanted for are held until the answer is known."""

    def __init__(self, context: Context, origins: Origins, results: Results, backing_off: BackingOff) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._backing_off = backing_off
        self._headers = headers_of(context.settings)
        self._limits = limits_of(context.settings, MAX_ROBOTS_BYTES + 1)

    async def ask(self, grant: WorkGrant, ask: RobotsVisit) -> Again:
        frontier = self._context.frontier
        if not frontier.is_held(ask.origin):
            frontier.hold(ask.origin, trio.current_time())
        try:
            return await self._ask(grant, ask)
        except PortFailed:
            raise
        except Exception:
            log.exception("internal error at %s", ask.url)
            self._context.summary.internal_errors += 1
            self.unreachable(ask.origin, None, "internal error")
            return ()

    async def _ask(self, grant: WorkGrant, ask: RobotsVisit) -> Again:
        context, summary = self._context, self._context.summary
        try:
            admission = await context.gate.admit(ask.url)
        except Refused as e:
            return await self._failed(ask, e.reason, e.detail)
        if await self._origins.is_suppressed(admission.target):
            # A redirect leads there, or the owner has named robots.txt itself: then nothing may be asked.
            self.unreachable(ask.origin, None, f"{ask.url} may not be requested: its owner asked not to be contacted")
            return ()

        async def before_send() -> None:
            await start(context, self._origins, grant, ask)
            summary.requests += 1
            summary.robots_requests += 1

        request = Request(
            self._headers, self._limits, on_sent=lambda: context.frontier.sent(grant, trio.current_time())
        )
        try:
            response = await context.client.exchange(admission, request, before_send)
        except NotNow:
            return await self._missed(ask, admission.target.origin)
        except ExchangeFailed as e:
            return await self._failed(ask, e.reason, e.detail)
        summary.wire_bytes += response.wire_bytes
        return await self._answered(grant, ask, admission, response)

    async def _answered(self, grant: WorkGrant, ask: RobotsVisit, admission: Admission, response: Response) -> Again:
        now, status = self._context.clock.now(), response.status
        if status in REDIRECTS:
            return await self._redirected(ask, admission, response)
        if response.problem is not None and not response.truncated:
            return await self._failed(ask, response.problem, response.detail)
        if status in (429, 503):
            asked_s = parse_retry_after(response.get("retry-after"), now)
            until = self._backing_off.back_off(grant.entry.origin, asked_s, may_drain=False)
            return await self._failed(ask, reason_of_status(status), f"HTTP {status}", until)
        if status >= 500:
            return await self._failed(ask, Reason.HTTP_5XX, f"HTTP {status}")
        robots = self._origins.robots
        self._known(robots.answered(ask.origin, status, response.body, response.get("cache-control"), now))
        return ()

    async def _redirected(self, ask: RobotsVisit, admission: Admission, response: Response) -> Again:
        if ask.redirects >= _MAX_REDIRECTS:
            self._known(self._origins.robots.unavailable(ask.origin, self._context.clock.now()))
            return ()
        try:
            following = self._context.gate.inspect(redirect_target(admission.target.url, response.get_all("location")))
        except (BadLocation, Refused) as e:
            self.unreachable(ask.origin, None, f"its redirect is refused: {e}")
            return ()
        hop = RobotsVisit(ask.origin, following.url, ask.redirects + 1, ask.attempt)
        entry: WorkEntry = Entry(following.origin, hop, ignores_hold=True)
        await self._origins.place(entry)
        return (entry,)

    async def _missed(self, ask: RobotsVisit, origin: str) -> Again:
        """Its slot passed before the request: the same once more, in the next one."""
        if ask.slots_missed > MAX_MISSED:
            self.unreachable(ask.origin, None, "its slots at a host of another shard passed before it could be asked")
            return ()
        entry: WorkEntry = Entry(origin, ask, ignores_hold=True)
        await self._origins.place(entry)
        return (entry,)

    async def _failed(self, ask: RobotsVisit, reason: Reason, detail: str, until: float = 0.0) -> Again:
        """No answer: once more if that may help and is soon, else nothing may be fetched for now (or the last good copy
        stands in)."""
        context, settings, now = self._context, self._context.settings, trio.current_time()
        wait = max(until - now, backoff_s(ask.attempt, settings.retry_base_s, 3600.0, context.rng.random))
        if (
            reason in TRANSIENT
            and ask.attempt < settings.max_attempts
            and wait <= settings.max_backoff_wait_s
            and now + wait < context.budget_end
            and not self._origins.robots.has_stand_in(ask.origin, context.clock.now())
        ):
            context.summary.retries += 1
            again = RobotsVisit(ask.origin, f"{ask.origin}/robots.txt", 0, ask.attempt + 1)
            entry: WorkEntry = Entry(ask.origin, again, not_before=now + wait, ignores_hold=True)
            await self._origins.place(entry)
            return (entry,)
        self.unreachable(ask.origin, reason, detail, again_in_s=until - now if until > now else float("inf"))
        return ()

    def unreachable(self, origin: str, cause: Reason | None, detail: str, *, again_in_s: float = float("inf")) -> None:
        """The file cannot be had: nothing may be fetched for now, unless the last good copy stands in."""
        if cause in UNREACHED:
            self._origins.state_of(origin).consecutive_errors += 1
            self._origins.touch(origin)
        now = self._context.clock.now()
        self._known(self._origins.robots.unreachable(origin, now, cause, detail.rstrip("."), again_in_s))

    def _known(self, state: RobotsState) -> None:
        origin, now, frontier = state.record.origin, trio.current_time(), self._context.frontier
        self._origins.remember_robots(state.record)
        self._origins.apply_delay(origin)
        frontier.unhold(origin, now)
        if state.is_denied:
            # Nothing of this origin will be asked: say so now, not when its clock would allow a request.
            for entry in frontier.drain(origin, now):
                if isinstance(entry.payload, Visit):
                    self._results.deny(entry.payload, state)
