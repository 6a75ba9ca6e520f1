"""What follows from a failure. Here: one more attempt, backing off the whole origin, giving up. Not here: the
arithmetic (`crawl.politeness.backoff`), which failures there are (`crawl.outcomes`).
"""

from __future__ import annotations

import trio

from crawl.engine.commit_loop import CommitLoop
from crawl.engine.context import Again, Context, WorkEntry, WorkGrant
from crawl.engine.origins import Origins
from crawl.engine.results import Results
from crawl.http.exchange import Response
from crawl.outcomes import TRANSIENT, UNREACHED
from crawl.politeness import Entry, backoff_s, parse_retry_after
from crawl.visit import Visit
from transforms.reasons import Reason


class BackingOff:
    """Retries of pages, back-offs of origins."""

    def __init__(self, context: Context, origins: Origins, results: Results, commits: CommitLoop) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._commits = commits

    def well(self, origin: str) -> None:
        """The origin answers: forget its failures."""
        if self._origins.failures.pop(origin, 0):
            state = self._origins.states[origin]
            state.consecutive_errors = 0
            state.backoff_until = None

    async def failed(
        self, grant: WorkGrant, visit: Visit, reason: Reason, detail: str, response: Response | None = None
    ) -> Again:
        """A failure: back off the origin if it asks for it or is down; try the page again if that may help."""
        context, settings, now = self._context, self._context.settings, trio.current_time()
        failures, origin = self._origins.failures, grant.entry.origin
        not_before = now + backoff_s(visit.attempt, settings.retry_base_s, 3600.0, context.rng.random)
        if reason in (Reason.HTTP_429, Reason.HTTP_503):
            asked = parse_retry_after(response.get("retry-after") if response else None, context.clock.now())
            not_before = self.back_off(origin, asked)
        elif reason in UNREACHED:
            failures[origin] += 1
            if failures[origin] >= settings.origin_error_limit:
                not_before = max(not_before, self.back_off(origin, None))
        elif reason in TRANSIENT and response is not None:
            failures.pop(origin, None)
        again = (
            reason in TRANSIENT
            and visit.attempt < settings.max_attempts
            and not_before - now <= settings.max_backoff_wait_s
            and not_before < context.budget_end
        )
        if not again:
            self._results.emit(visit, reason, detail=detail, response=response)
            return ()
        context.summary.retries += 1
        visit.restart()
        first, old = context.gate.inspect(visit.task.url), grant.entry
        entry: WorkEntry = Entry(
            first.origin, visit, float(visit.task.priority), old.age_s, old.tenant, old.weight, not_before=not_before
        )
        await self._origins.place(entry)
        return (entry,)

    def back_off(self, origin: str, asked_s: int | None, *, may_drain: bool = True) -> float:
        """Leave the whole origin alone; its waiting pages are deferred when that takes too long. Returns until when."""
        context, settings, now = self._context, self._context.settings, trio.current_time()
        failures, state = self._origins.failures, self._origins.state_of(origin)
        state.consecutive_errors = failures[origin] = max(1, failures[origin] + (asked_s is None))
        computed = backoff_s(
            state.consecutive_errors, settings.origin_backoff_base_s, settings.origin_backoff_cap_s, context.rng.random
        )
        # Retry-After is kept to, with a little jitter so that not everybody returns in the same second.
        seconds = computed if asked_s is None else asked_s * (1.0 + 0.05 * context.rng.random())
        until = now + seconds
        context.frontier.back_off(origin, until, now)
        self._origins.touch(origin)
        # Saved at once: a process that dies now must not leave a successor who asks again.
        self._commits.hurry()
        if may_drain and (seconds > settings.max_backoff_wait_s or until >= context.budget_end):
            for entry in context.frontier.drain(origin, now):
                if isinstance(entry.payload, Visit):
                    self._results.defer(
                        entry.payload,
                        Reason.ORIGIN_BACKOFF,
                        "The origin asked to be left alone, or does not answer.",
                    )
        return until
