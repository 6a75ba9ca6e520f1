"""One request of a page, gate by gate. Here: the order of the gates, validators, the recheck right before the request,
304. Not here: what a response says (`answers`), redirects, retries.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from crawl.egress.gate import Admission, Refused
from crawl.engine.answers import judge_response
from crawl.engine.backing_off import BackingOff
from crawl.engine.context import Again, Context, WorkEntry, WorkGrant, headers_of, limits_of
from crawl.engine.origins import Origins
from crawl.engine.redirects import Redirects
from crawl.engine.results import Results
from crawl.engine.robots_visits import RobotsVisits
from crawl.engine.snapshot_checks import SnapshotChecks
from crawl.engine.starting import MAX_MISSED, NotNow, start
from crawl.http.exchange import ExchangeFailed, Request, Response
from crawl.outcomes import DRAIN_CAP, TRANSIENT, body_cap
from crawl.politeness import Entry
from crawl.ports import Hop, SnapshotIndex
from crawl.visit import REDIRECTS, RobotsVisit, Visit, cookie_header
from transforms.reasons import Reason


class PageVisits:
    """`visit` carries out one grant; what it returns goes back into the frontier."""

    def __init__(
        self,
        context: Context,
        origins: Origins,
        results: Results,
        backing_off: BackingOff,
        redirects: Redirects,
        robots_visits: RobotsVisits,
        snapshots: SnapshotIndex,
    ) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._backing_off = backing_off
        self._redirects = redirects
        self._robots_visits = robots_visits
        self._snapshots = SnapshotChecks(context, snapshots)
        self._headers = headers_of(context.settings)
        self._limits = limits_of(context.settings, context.settings.max_body_bytes)

    async def visit(self, grant: WorkGrant, visit: Visit) -> Again:
        context, origins = self._context, self._origins
        began = trio.current_time()
        try:
            admission = await context.gate.admit_target(context.gate.inspect(visit.url))
        except Refused as e:
            visit.hops.append(Hop(visit.url, e.gate, e.reason, e.address))
            return await self._backing_off.failed(grant, visit, e.reason, e.detail)
        origin = admission.target.origin
        if await origins.is_suppressed(admission.target):
            self._results.suppress(visit)
            return ()
        robots = origins.robots.state(origin, context.clock.now())
        if robots is None:
            # This grant's request goes to robots.txt; the page waits for the next slot in its old place.
            asked = RobotsVisit(origin, f"{origin}/robots.txt", slot_end=visit.slot_end)
            again = await self._robots_visits.ask(grant, asked)
            return (*await self._same_place(grant, visit), *again)
        if self._results.deny(visit, robots):
            return ()
        request, conditional = self._request(
            visit, admission, lambda: context.frontier.sent(grant, trio.current_time())
        )
        waited = 0.0

        async def before_send() -> None:
            nonlocal waited, robots
            asked_at = trio.current_time()
            await start(context, origins, grant, visit)
            waited += trio.current_time() - asked_at
            if origins.is_known_suppressed(admission.target):
                raise NotNow
            current = origins.robots.state(origin, context.clock.now())
            if current is not robots:
                if current is None:
                    raise NotNow
                robots, visit.robots_version = current, current.record.version
                if not current.judge(visit.url).allowed:
                    raise NotNow
            context.summary.requests += 1
            if conditional:
                context.summary.conditional_sent += 1
                origins.states[origin].validators_sent += 1

        try:
            response = await context.client.exchange(admission, request, before_send)
        except NotNow:
            if visit.slots_missed > MAX_MISSED:
                self._results.defer(
                    visit,
                    Reason.ORIGIN_BACKOFF,
                    "Its slots at a host of another shard passed before it could be asked.",
                )
                return ()
            return await self._same_place(grant, visit)
        except ExchangeFailed as e:
            visit.elapsed_s += trio.current_time() - began - waited
            visit.hops.append(Hop(visit.url, e.gate, e.reason, e.address))
            return await self._backing_off.failed(grant, visit, e.reason, e.detail)
        visit.elapsed_s += trio.current_time() - began - waited
        return await self._answered(grant, visit, admission, response, conditional)

    def _request(self, visit: Visit, admission: Admission, on_sent: Callable[[], None]) -> tuple[Request, bool]:
        headers, target = self._headers, admission.target
        cookie = cookie_header(visit.cookies, target.host, target.path, target.scheme)
        visit.seen.append((target.url, cookie))
        if cookie:
            headers = (*headers, ("Cookie", cookie))
        prior = visit.task.prior
        conditional = (
            prior is not None
            and not visit.unconditional
            and prior.document_url == target.url
            and bool(prior.etag or prior.last_modified)
            and self._origins.trusts_validators(target.origin)
        )
        if conditional:
            assert prior is not None
            if prior.etag:
                headers = (*headers, ("If-None-Match", prior.etag))
            if prior.last_modified:
                headers = (*headers, ("If-Modified-Since", prior.last_modified))
        cap = self._page_cap if visit.task.goal is None else _beginning
        return Request(headers, self._limits, cap, on_sent), conditional

    def _page_cap(self, status: int, content_type: str) -> int:
        return body_cap(status, content_type, self._limits.max_body_bytes)

    async def _answered(
        self, grant: WorkGrant, visit: Visit, admission: Admission, response: Response, conditional: bool
    ) -> Again:
        self._context.summary.wire_bytes += response.wire_bytes
        origin, status = admission.target.origin, response.status
        if status in REDIRECTS:
            visit.hops.append(Hop(visit.url, "response", Reason.OK, response.address, status))
            self._backing_off.well(origin)
            return await self._redirects.follow(grant, visit, admission, response)
        if status == 304 and conditional:
            return await self._not_modified(grant, visit, origin, response)
        reason, detail = judge_response(
            response, asked=visit.task.url, final=visit.url, page_cap=self._limits.max_body_bytes
        )
        visit.hops.append(Hop(visit.url, "response", reason, response.address, status))
        if reason in TRANSIENT:
            return await self._backing_off.failed(grant, visit, reason, detail or "", response)
        self._backing_off.well(origin)
        self._results.emit(visit, reason, detail=detail, response=response, conditional=conditional)
        return ()

    async def _not_modified(self, grant: WorkGrant, visit: Visit, origin: str, response: Response) -> Again:
        """304 counts only if the snapshot it speaks of is still there; else once more, without validators (a 304 to that is
        an answer to nothing: `http_unexpected`)."""
        prior = visit.task.prior
        assert prior is not None
        is_there = await self._snapshots.is_there(prior.object_key)
        self._backing_off.well(origin)
        if is_there:
            visit.hops.append(Hop(visit.url, "response", Reason.NOT_MODIFIED, response.address, 304))
            self._context.summary.not_modified += 1
            self._results.emit(visit, Reason.NOT_MODIFIED, response=response)
            return ()
        self._origins.states[origin].validators_lied += 1
        visit.hops.append(Hop(visit.url, "response", Reason.ARTIFACT_UNAVAILABLE, response.address, 304))
        visit.unconditional = True
        return await self._same_place(grant, visit)

    async def _same_place(self, grant: WorkGrant, visit: Visit) -> Again:
        """The visit goes back to where it was in its origin's queue (at another shard's origin: with a slot of its own)."""
        old = grant.entry
        entry: WorkEntry = Entry(old.origin, visit, old.priority, old.age_s, old.tenant, old.weight, serial=old.serial)
        await self._origins.place(entry)
        return (entry,)


def _beginning(status: int, content_type: str) -> int:
    """Of a page that is asked only for where it leads: enough for a refresh in its head."""
    return body_cap(status, content_type, DRAIN_CAP)
