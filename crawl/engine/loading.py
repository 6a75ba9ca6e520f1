"""Tasks into the frontier, a chunk at a time. Here: the gates that need no network, what is remembered of the tasks'
origins and snapshots, origins that back off for too long. Not here: when more is read, and handing out (`dispatch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import islice

import trio

from crawl.egress.gate import Refused
from crawl.egress.urls import Target
from crawl.engine.context import Context
from crawl.engine.origins import Origins
from crawl.engine.results import Results
from crawl.politeness import Entry
from crawl.ports import FetchTask, Hop, SnapshotIndex
from crawl.visit import Visit
from transforms.reasons import Reason

CHUNK = 2000
"""Tasks read at once: few enough to keep nobody waiting, many enough for the ports' queries."""


class Loader:
    """Reads the tasks once, in their order; `is_done` when there are no more."""

    def __init__(
        self,
        context: Context,
        origins: Origins,
        results: Results,
        snapshots: SnapshotIndex,
        tasks: Iterable[FetchTask],
    ) -> None:
        self._context = context
        self._origins = origins
        self._results = results
        self._snapshots = snapshots
        self._tasks = iter(tasks)
        self._counts = not isinstance(tasks, Sized)
        if isinstance(tasks, Sized):
            context.summary.tasks = len(tasks)
        self.is_done = False

    async def load(self) -> None:
        """The next chunk."""
        context, origins, results = self._context, self._origins, self._results
        size = min(CHUNK, context.settings.read_ahead)
        tasks = list(islice(self._tasks, size))
        self.is_done = len(tasks) < size
        if self._counts:
            context.summary.tasks += len(tasks)
        placed: list[tuple[FetchTask, Target]] = []
        for task in tasks:
            try:
                target = context.gate.inspect(task.url)
            except Refused as e:
                visit = Visit(task, task.url)
                visit.hops.append(Hop(task.url, e.gate, e.reason))
                results.emit(visit, e.reason, detail=e.detail)
                continue
            placed.append((task, target))
            origins.at_home(target.origin, task.registrable_domain)
        names = {target.origin for _, target in placed}
        with origins.expecting(names):
            new = sorted(name for name in names if name not in origins.states)
            if new:
                await origins.meet(new)
            keys = sorted({task.prior.object_key for task, _ in placed if task.prior is not None})
            there: set[str] = await context.port(self._snapshots.is_available, keys) if keys else set()
        self._push(placed, there)

    def _push(self, placed: list[tuple[FetchTask, Target]], there: set[str]) -> None:
        """`there`: the earlier snapshots that are really there."""
        context, origins, results = self._context, self._origins, self._results
        now, today = trio.current_time(), context.clock.now()
        too_long = now + context.settings.max_backoff_wait_s
        for task, target in placed:
            origin = target.origin
            visit = Visit(task, task.url, unconditional=task.prior is None or task.prior.object_key not in there)
            if origins.is_known_suppressed(target):
                results.suppress(visit)
                continue
            if context.frontier.clock_of(origin)[1] > too_long:
                results.defer(
                    visit, Reason.ORIGIN_BACKOFF, "The origin asked to be left alone for longer than this crawl waits."
                )
                continue
            robots = origins.robots.state(origin, today)
            if robots is not None and robots.is_denied:
                results.deny(visit, robots)
                continue
            age = max(0.0, (today - task.due_at).total_seconds()) if task.due_at is not None else 0.0
            context.frontier.push(
                Entry(origin, visit, float(task.priority), age, task.tenant, max(1.0, float(task.tenant_weight))), now
            )
