"""What a crawl did, in numbers. Here: the counters. Not here: printing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class CrawlSummary:
    """Counts of one `crawl_batch`. `unfinished` tasks have no result: the next run of the partition asks them again."""

    tasks: int = 0
    results: int = 0
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_reason: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    robots_requests: int = 0
    retries: int = 0
    wire_bytes: int = 0
    body_bytes: int = 0
    conditional_sent: int = 0
    not_modified: int = 0
    origins: int = 0
    internal_errors: int = 0
    commits: int = 0
    committed: int = 0
    """Results that the sink has made durable."""
    seconds: float = 0.0
    stopped: str | None = None
    """Why it ended early (`SIGTERM`, `deadline`, ...); None when it ran to its end."""
    error: Exception | None = None
    """What a port raised although the crawl was being stopped: some results may not be committed."""

    @property
    def unfinished(self) -> int:
        return self.tasks - self.results

    @property
    def deferred(self) -> int:
        """Coverage debt: results that say "not asked now"."""
        return self.by_outcome.get("deferred", 0)
