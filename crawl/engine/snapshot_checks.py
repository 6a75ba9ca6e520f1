"""Is the snapshot that a 304 speaks of still there? Here: questions of the same moment asked as one, since a thread for
each costs more than the rest of a 304. Not here: what follows from the answer (`page_visits`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

from crawl.engine.context import Context, PortFailed
from crawl.ports import SnapshotIndex

_GATHER_S = 0.02
"""Far below any gap between two requests at a host, long enough for dozens of answers of a fast crawl."""


@dataclass(slots=True)
class _Batch:
    keys: set[str] = field(default_factory=set)
    answered: trio.Event = field(default_factory=trio.Event)
    there: set[str] = field(default_factory=set)
    error: PortFailed | None = None


class SnapshotChecks:
    """Whoever asks first asks for all who ask within the next moment."""

    def __init__(self, context: Context, snapshots: SnapshotIndex) -> None:
        self._context = context
        self._snapshots = snapshots
        self._gathering: _Batch | None = None

    async def is_there(self, object_key: str) -> bool:
        """Raises `PortFailed`."""
        batch = self._gathering
        if batch is None:
            batch = self._gathering = _Batch({object_key})
            await self._ask(batch)
        else:
            batch.keys.add(object_key)
            await batch.answered.wait()
        if batch.error is not None:
            raise batch.error
        return object_key in batch.there

    async def _ask(self, batch: _Batch) -> None:
        try:
            try:
                await trio.sleep(_GATHER_S)
            finally:
                self._gathering = None
            batch.there = await self._context.port(self._snapshots.is_available, sorted(batch.keys))
        except PortFailed as e:
            batch.error = e
        finally:
            batch.answered.set()  # cancelled: then the whole crawl is, and those who wait with it
