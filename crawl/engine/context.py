"""What every room of the engine is handed. Here: values that are set once per crawl. Not here: anything that a room
owns (results, origins, visits).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from crawl.config import CrawlSettings
from crawl.egress.gate import EgressGate
from crawl.http.exchange import Exchanger, Limits
from crawl.politeness import Entry, Frontier, Grant
from crawl.summary import CrawlSummary
from crawl.visit import RobotsVisit, Visit
from transforms.clock import Clock

Work: TypeAlias = Visit | RobotsVisit
WorkEntry: TypeAlias = Entry[Work]
WorkGrant: TypeAlias = Grant[Work]
Again: TypeAlias = tuple[WorkEntry, ...]
"""What goes (back) into the frontier when a grant is finished."""


T = TypeVar("T")


class PortFailed(Exception):
    """A port (ledger, store) raised `cause`: no page's fault, and the end of the crawl."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(slots=True)
class Context:
    """One crawl's settings and tools. `budget_end` is in trio's clock; infinity: no budget."""

    settings: CrawlSettings
    clock: Clock
    rng: random.Random
    blocking: Callable[..., Awaitable[Any]]
    gate: EgressGate
    client: Exchanger
    frontier: Frontier[Work]
    summary: CrawlSummary
    budget_end: float = float("inf")

    async def port(self, call: Callable[..., T], *args: Any) -> T:
        """A port's blocking call, in a thread. Raises `PortFailed`."""
        try:
            result: T = await self.blocking(call, *args)
        except Exception as e:
            raise PortFailed(e) from e
        return result


def limits_of(settings: CrawlSettings, max_body_bytes: int) -> Limits:
    return Limits(
        connect_s=settings.connect_timeout_s,
        first_byte_s=settings.first_byte_timeout_s,
        total_s=settings.total_timeout_s,
        max_header_bytes=settings.max_header_bytes,
        max_body_bytes=max_body_bytes,
        max_ratio=settings.max_expansion_ratio,
    )


def headers_of(settings: CrawlSettings) -> tuple[tuple[str, str], ...]:
    """The headers of every request, after Host."""
    return (
        ("User-Agent", settings.user_agent),
        ("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
    )


def to_monotonic(at: datetime | None, today: datetime, now: float) -> float | None:
    """A time of the flow's clock in trio's, given both clocks' present."""
    return None if at is None else now + (at - today).total_seconds()


def to_wall(at: float, today: datetime, now: float) -> datetime | None:
    return None if at == float("-inf") else today + timedelta(seconds=at - now)
