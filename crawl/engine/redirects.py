"""Where a redirect leads, and whether it is followed. Here: the limit of hops, loops, the next hop's place in the
frontier. Not here: reading Location and cookies (`crawl.visit`).
"""

from __future__ import annotations

from crawl.egress.gate import Admission, Refused
from crawl.engine.context import Again, Context, WorkEntry, WorkGrant
from crawl.engine.origins import Origins
from crawl.engine.results import Results
from crawl.http.exchange import Response
from crawl.politeness import Entry
from crawl.ports import Hop
from crawl.visit import BadLocation, Visit, cookie_header, redirect_target, take_cookies
from transforms.reasons import Reason

_HOP_BONUS = 100.0
"""A visit under way goes before new ones of its origin: fewer half-done visits in memory."""


class Redirects:
    """Follows by hand, hop by hop: every hop goes through the frontier and every gate."""

    def __init__(self, context: Context, origins: Origins, results: Results) -> None:
        self._context = context
        self._origins = origins
        self._results = results

    async def follow(self, grant: WorkGrant, visit: Visit, admission: Admission, response: Response) -> Again:
        emit, target, most = self._results.emit, admission.target, self._context.settings.max_redirects
        try:
            url = redirect_target(target.url, response.get_all("location"))
        except BadLocation as e:
            emit(visit, Reason.BAD_REDIRECT, detail=str(e), response=response)
            return ()
        take_cookies(visit.cookies, response.get_all("set-cookie"), target.host, target.scheme)
        if visit.redirects >= most:
            emit(visit, Reason.TOO_MANY_REDIRECTS, detail=f"More than {most} redirects.", response=response)
            return ()
        visit.redirects += 1
        if visit.task.goal is not None and visit.task.goal(url):
            self._results.arrived(visit, url, response)
            return ()
        try:
            following = self._context.gate.inspect(url)
        except Refused as e:
            visit.hops.append(Hop(url, e.gate, e.reason))
            visit.url = url
            emit(visit, e.reason, detail=f"The redirect to {url[:200]} is refused: {e.detail}")
            return ()
        visit.url = following.url
        cookie = cookie_header(visit.cookies, following.host, following.path, following.scheme)
        if visit.comes_back(following.url, cookie):
            emit(
                visit,
                Reason.REDIRECT_LOOP,
                detail=f"The redirects come back to {following.url[:200]}.",
                response=response,
            )
            return ()
        old = grant.entry
        entry: WorkEntry = Entry(
            following.origin, visit, float(visit.task.priority) + _HOP_BONUS, old.age_s, old.tenant, old.weight
        )
        await self._origins.place(entry)
        return (entry,)
