"""What time it is, as a value that is handed in. Here: clocks. Not here: monotonic time of the crawler (trio's clock)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The present instant, UTC, timezone-aware."""
        ...


@dataclass(frozen=True)
class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True)
class FixedClock:
    """A logical clock that stands still: the demo and the tests move it from window to window."""

    at: datetime

    def now(self) -> datetime:
        return self.at
