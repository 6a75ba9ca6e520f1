"""Asking a crawl to stop, from a signal, another task or another thread. Here: the flag that trio can wait for. Not
here: what stopping does (`crawl.engine`).
"""

from __future__ import annotations

import threading
from contextlib import suppress

import trio


class Stop:
    """Set once, by anybody, from any thread or signal handler; waited for in trio."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # may be requested from a signal handler
        self._why: str | None = None
        self._waiting: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []

    @property
    def why(self) -> str | None:
        """Who asked (`SIGTERM`, `deadline`, ...); None while nobody has."""
        return self._why

    def request(self, why: str = "requested") -> None:
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            waiting, self._waiting = self._waiting, []
        for token, event in waiting:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(event.set)

    async def wait(self) -> str:
        event = trio.Event()
        with self._lock:
            if self._why is None:
                self._waiting.append((trio.lowlevel.current_trio_token(), event))
            else:
                event.set()
        await event.wait()
        assert self._why is not None
        return self._why
