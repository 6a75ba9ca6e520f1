"""Tasks into the frontier. Here: the gates that need no network, what is remembered of the tasks' origins and snapshots,
origins that back off for too long. Not here: handing out (`dispatch`).
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from crawl.egress.gate import Refused
from crawl.engine.context import Context
from crawl.engine.origins import CHUNK, Origins
from crawl.engine.page_visits import PageVisits
from crawl.engine.results import Results
from crawl.politeness import Entry
from crawl.ports import FetchTask, Hop, SnapshotIndex
from crawl.visit import Visit
from transforms.reasons import Reason


class Loader:
    """Reads the tasks once."""

    def __init__(
        self,
        context: Context,
        origins: Origins,
        results: Results,
        page_visits: PageVisits,
        snapshots: SnapshotIndex,
        tasks: Sequence[FetchTask],
    ) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._page_visits = page_visits
        self._snapshots = snapshots
        self._tasks = tasks

    async def load(self) -> None:
        context, results = self._context, self._results
        placed: list[tuple[FetchTask, str]] = []
        for task in self._tasks:
            try:
                origin = context.gate.inspect(task.url).origin
            except Refused as e:
                visit = Visit(task, task.url)
                visit.hops.append(Hop(task.url, e.gate, e.reason))
                results.emit(visit, e.reason, detail=e.detail)
                continue
            placed.append((task, origin))
            self._origins.at_home(origin, task.registrable_domain)
        names = sorted({origin for _, origin in placed})
        for at in range(0, len(names), CHUNK):
            await self._origins.meet(names[at : at + CHUNK])
        keys = sorted({task.prior.object_key for task, _ in placed if task.prior is not None})
        for at in range(0, len(keys), CHUNK):
            self._page_visits.available |= await context.blocking(self._snapshots.is_available, keys[at : at + CHUNK])
        now, today = trio.current_time(), context.clock.now()
        too_long = now + context.settings.max_backoff_wait_s
        for task, origin in placed:
            visit = Visit(task, task.url)
            if context.frontier.clock_of(origin)[1] > too_long:
                results.defer(
                    visit, Reason.ORIGIN_BACKOFF, "The origin asked to be left alone for longer than this crawl waits."
                )
                continue
            age = max(0.0, (today - task.due_at).total_seconds()) if task.due_at is not None else 0.0
            context.frontier.push(
                Entry(origin, visit, float(task.priority), age, task.tenant, max(1.0, float(task.tenant_weight))), now
            )
