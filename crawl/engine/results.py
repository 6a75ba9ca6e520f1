"""From a visit to its one result. Here: what a final response said, validators that lie, counts. Not here: which reason
it is (`answers`, `page_visits`), committing (`commit_loop`).
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from crawl.engine.commit_loop import CommitLoop
from crawl.engine.context import Context
from crawl.engine.origins import Origins
from crawl.http.exchange import Response
from crawl.outcomes import UNREACHED, outcome_of, warnings_of
from crawl.politeness import parse_retry_after
from crawl.ports import FetchResult, Hop
from crawl.robots import RobotsState
from crawl.visit import Visit
from transforms.reasons import Outcome, Reason


class Results:
    """Every visit ends in exactly one call of `emit`, `deny` or `defer`."""

    def __init__(self, context: Context, origins: Origins, commits: CommitLoop) -> None:
        self._context = context
        self._origins = origins
        self._commits = commits

    def emit(
        self,
        visit: Visit,
        reason: Reason,
        *,
        detail: str | None = None,
        response: Response | None = None,
        conditional: bool = False,
        goal: str | None = None,
    ) -> None:
        """`conditional`: the response answers a request with validators; `goal`: it redirects to where it was to lead."""
        now = self._context.clock.now()
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
        if goal is not None and response is not None:
            result.final_url, result.http_status = goal, response.status
        elif response is not None:
            self._describe(result, visit, response, now, conditional)
        summary = self._context.summary
        summary.results += 1
        summary.by_outcome[result.outcome.value] += 1
        summary.by_reason[reason.value] += 1
        self._commits.add(result)

    def arrived(self, visit: Visit, goal: str, response: Response) -> None:
        """A redirect leads to the task's goal, which is not asked."""
        self.emit(visit, Reason.OK, detail="The redirect leads to its goal.", response=response, goal=goal)

    def defer(self, visit: Visit, reason: Reason, detail: str) -> None:
        """Not asked now: its origin or the window has no time for it."""
        if not visit.hops or visit.hops[-1].url != visit.url:
            visit.hops.append(Hop(visit.url, "clock", reason))
        self.emit(visit, reason, detail=detail)

    def suppress(self, visit: Visit) -> None:
        """Its owner asked never to be contacted: that outranks every other reason to ask."""
        visit.hops.append(Hop(visit.url, "scope", Reason.SUPPRESSED))
        self.emit(visit, Reason.SUPPRESSED, detail="The host's owner asked not to be contacted.")

    def deny(self, visit: Visit, robots: RobotsState) -> bool:
        """Judge the page by its origin's robots.txt; True: it may not be fetched, and that is its result."""
        verdict = robots.judge(visit.url)
        visit.robots_version = robots.record.version
        if verdict.allowed:
            return False
        if not robots.is_denied:
            visit.hops.append(Hop(visit.url, "robots", Reason.ROBOTS_DENIED))
            self.emit(visit, Reason.ROBOTS_DENIED, detail=f"robots.txt says {verdict.rule!r}.")
            return True
        # The host could not even be reached: say so, it is the more useful truth. Otherwise: disallowed for now.
        reason = robots.cause if robots.cause in UNREACHED else Reason.ROBOTS_UNREACHABLE
        assert reason is not None
        visit.hops.append(Hop(visit.url, "robots", reason))
        self.emit(
            visit, reason, detail=f"robots.txt could not be read, so nothing may be fetched for now: {robots.detail}."
        )
        return True

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
            self._context.summary.body_bytes += len(response.body)
            if prior is not None and prior.document_url == visit.url:
                self._judge_validators(visit, result, conditional)

    def _judge_validators(self, visit: Visit, result: FetchResult, conditional: bool) -> None:
        """A whole body came: equal to the earlier one although validators were sent, or changed under the same strong
        ETag, the origin's validators are worth nothing or worse."""
        prior = visit.task.prior
        state = self._origins.states.get(self._context.gate.inspect(visit.url).origin)
        assert prior is not None
        if state is None:
            return
        same_body = result.content_hash == prior.content_hash
        same_etag = bool(prior.etag) and prior.etag == result.etag and not str(prior.etag).startswith("W/")
        if (conditional and same_body) or (same_etag and not same_body):
            state.validators_lied += 1
