"""Results, clocks and robots copies to the ports, in batches and at least every few seconds. Here: the loop, the room
that is left for results. Not here: what a result says (`results`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio

from crawl.engine.context import Context, PortFailed
from crawl.engine.origins import Origins
from crawl.ports import FetchResult, FetchSink, OriginState, RobotsRecord

_SUPPRESSION_REFRESH_S = 30.0


class CommitLoop:
    """`on_error` is called once when a port refuses: the shard may be somebody else's, or a store is down."""

    def __init__(self, context: Context, sink: FetchSink, origins: Origins, on_error: Callable[[], None]) -> None:
        self._context = context
        self._sink = sink
        self._origins = origins
        self._on_error = on_error
        self._results: list[FetchResult] = []
        self._held_bytes = 0
        self._committing = 0
        self._due = trio.Event()
        self._room = trio.Event()
        self._done = False
        self.error: Exception | None = None

    def add(self, result: FetchResult) -> None:
        settings = self._context.settings
        self._results.append(result)
        self._held_bytes += len(result.body or b"")
        if len(self._results) >= settings.commit_batch or self._held_bytes * 2 >= settings.commit_bytes:
            self._due.set()

    def hurry(self) -> None:
        """Commit now, not at the next interval."""
        self._due.set()

    def fail(self, error: Exception) -> None:
        """A port refused: nothing more is fetched or committed."""
        if self.error is None:
            self.error = error
            self._on_error()

    @property
    def is_full(self) -> bool:
        """So much waits to be committed that fetching pauses."""
        settings = self._context.settings
        waiting = len(self._results) + self._committing
        return waiting >= 4 * settings.commit_batch or self._held_bytes >= settings.commit_bytes

    async def wait_for_room(self) -> None:
        self._room = trio.Event()
        await self._room.wait()

    def finish(self) -> None:
        """No result will follow: commit the rest and end."""
        self._done = True
        self._due.set()

    async def run(self, done: trio.Event) -> None:
        """Commit in batches until the work is over, then the rest. A cancelled crawl still commits what is complete."""
        try:
            refreshed = trio.current_time()
            while not self._done and self.error is None:
                with trio.move_on_after(self._context.settings.commit_interval_s):
                    await self._due.wait()
                self._due = trio.Event()
                await self._commit()
                await self._origins.listen(self._context.settings.commit_interval_s / 2)
                if trio.current_time() - refreshed > _SUPPRESSION_REFRESH_S:
                    refreshed = trio.current_time()
                    await self._origins.refresh_suppressions()
        except PortFailed as e:
            self.fail(e.cause)
        finally:
            with trio.CancelScope(shield=True):
                while self._results and self.error is None:
                    await self._commit()
                if self.error is None:
                    await self._commit()
            done.set()

    async def _commit(self) -> None:
        size = self._context.settings.commit_batch
        batch = self._results[:size]
        del self._results[: len(batch)]
        if len(self._results) >= size:
            self._due.set()
        states, robots = self._origins.take_dirty()
        if not (batch or states or robots):
            return
        self._committing = len(batch)
        try:
            with trio.CancelScope(shield=True):
                await self._context.blocking(self._write, batch, states, robots)
        except Exception as e:
            # The shard may be somebody else's now, or a store is down: stop at once, commit no more.
            self.fail(e)
            return
        finally:
            self._committing = 0
            self._held_bytes -= sum(len(result.body or b"") for result in batch)
            self._room.set()
        if batch:
            self._context.summary.commits += 1
            self._context.summary.committed += len(batch)
        self._origins.sweep()

    def _write(self, batch: list[FetchResult], states: list[OriginState], robots: list[RobotsRecord]) -> None:
        try:
            if batch:
                self._sink.commit(batch)
        except Exception:
            # What was asked, was asked: the next owner must know the clocks. The book refuses them under a stale fence.
            with suppress(Exception):
                self._origins.save(states, robots)
            raise
        self._origins.save(states, robots)
