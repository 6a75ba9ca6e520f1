"""What the crawler needs from outside and what it gives back. Here: values and protocols. Not here: implementations
(the asset layer hands in the ledger's and the object store's).

All protocol methods are plain blocking calls; the crawler runs them in worker threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from transforms.reasons import Outcome, Reason


@dataclass(frozen=True, slots=True)
class Prior:
    """The last available snapshot of a page, for a conditional request."""

    content_hash: bytes
    object_key: str
    document_url: str
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    x_robots_tag: tuple[str, ...] = ()
    link_header: tuple[str, ...] = ()
    refresh_header: str | None = None
    """What a 304 leaves out still stands as it was stored (RFC 9111 §3.2)."""


@dataclass(frozen=True, slots=True)
class FetchTask:
    """One page to fetch. `url` is a URL identity; `key` comes back with the result (urls.id, or a line number)."""

    key: int
    url: str
    registrable_domain: str = ""
    job_id: int = 0
    priority: int = 0
    due_at: datetime | None = None
    tenant: bytes = b""
    tenant_weight: int = 1
    prior: Prior | None = None
    goal: Callable[[str], bool] | None = None
    """Where redirects are hoped to lead: a hop to a URL that it accepts is not asked, it ends the visit (`fetched`, no
    body, `final_url` is that URL). Of a page that answers instead only the beginning is read."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop and the last gate that was asked. See `transforms.schemas.fetches.HOP`."""

    url: str
    gate: str
    reason: Reason
    address: str | None = None
    status: int | None = None


@dataclass(slots=True)
class FetchResult:
    """The outcome of one task: the columns of `transforms.schemas.PAGE_FETCHES` (same names), plus the body."""

    task: FetchTask
    outcome: Outcome
    reason: Reason
    fetched_at: datetime
    detail: str | None = None
    http_status: int | None = None
    final_url: str | None = None
    hops: list[Hop] = field(default_factory=list)
    elapsed_ms: int = 0
    validation_method: str = "no_body"
    wire_bytes: int = 0
    body: bytes | None = None
    """Decoded body, when there is one to keep (never for a 304: then `content_hash` and `object_key` are the prior's)."""
    content_hash: bytes | None = None
    object_key: str | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    x_robots_tag: list[str] = field(default_factory=list)
    link_header: list[str] = field(default_factory=list)
    refresh_header: str | None = None
    retry_after_s: int | None = None
    robots_version: str | None = None
    warnings: list[str] = field(default_factory=list)
    attempt: int = 1

    @property
    def is_redirected(self) -> bool:
        return len(self.hops) > 1


@dataclass(slots=True)
class OriginState:
    """What is remembered of an origin between windows and machines (table `origins`). Times are the flow's clock."""

    origin: str
    next_eligible_at: datetime | None = None
    backoff_until: datetime | None = None
    consecutive_errors: int = 0
    asked_until: datetime | None = None
    """Until then somebody may have asked who died before he could save it: the gap, whatever it is, counts from there."""
    min_gap_s: float | None = None
    """Operator's override of `origin_gap_s`."""
    max_in_flight: int | None = None
    validators_sent: int = 0
    validators_lied: int = 0
    """200 with an equal body, or 304 for a body that was gone: past a threshold validators are not sent."""


@dataclass(slots=True)
class RobotsRecord:
    """A robots.txt as it was fetched (table `robots_cache`); `version` is stored with every verdict."""

    origin: str
    version: str
    status_class: str
    """ok (2xx) | unavailable (4xx: no restriction) | unreachable (5xx, network: disallow for now)"""
    body: bytes
    fetched_at: datetime
    expires_at: datetime
    last_good_at: datetime | None = None
    """When `body` was last fetched well: it may stand in for an unreachable file for 24 hours."""


class SnapshotIndex(Protocol):
    def is_available(self, object_keys: Sequence[str]) -> set[str]:
        """Those of the object keys whose snapshot is really there."""
        ...


class FetchSink(Protocol):
    def commit(self, results: Sequence[FetchResult]) -> None:
        """Make a batch of results durable: snapshots, the Parquet part, then the ledger in one transaction.

        Raises `StaleFence` when the shard is owned by somebody else now: the crawler then stops and commits no more.
        Idempotent: the same results again change nothing.
        """
        ...


class OriginBook(Protocol):
    def load(self, origins: Sequence[str]) -> list[OriginState]: ...

    def save(self, states: Sequence[OriginState]) -> None: ...

    def load_robots(self, origins: Sequence[str]) -> list[RobotsRecord]: ...

    def save_robots(self, records: Sequence[RobotsRecord]) -> None: ...

    def suppressed(self, origins: Sequence[str]) -> set[str]:
        """Those of the origins (or their hosts) that may not be contacted at all."""
        ...

    def suppressed_urls(self, origins: Sequence[str]) -> set[str]:
        """URL identities at these origins that may never be requested, though their origin may."""
        ...

    def take_foreign_slot(self, origin: str, at: datetime, gap_s: float) -> datetime:
        """For a redirect hop to a host of another shard: reserve the origin's next slot in the ledger and return its
        time (never before `at`); the next one is free `gap_s` later."""
        ...

    def foreign_slots(self, within_s: float) -> dict[str, datetime]:
        """Origins where anybody reserved such a slot in the last `within_s` seconds (others may be named too), and when
        each is free again."""
        ...
