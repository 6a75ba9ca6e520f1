"""Outcomes of page fetches. Here: committing them under the shard's fence, and snapshot book-keeping. Not here:
fetching, bodies (`warehouse.snapshots`), evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.schemas import PAGE_FETCHES
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.errors import StaleFence
from warehouse.ledger.keys import FETCH_PROFILE
from warehouse.ledger.leases import Lease, check_fence
from warehouse.ledger.sql import query, script

RETENTION = timedelta(days=30)
"""How long a body is kept after it was last referred to."""

BATCH = 2_000


class Stored(Protocol):
    """A snapshot that is in the object store and was read back (`warehouse.snapshots.StoredSnapshot`)."""

    @property
    def content_hash(self) -> bytes: ...

    @property
    def object_key(self) -> str: ...

    @property
    def uncompressed_bytes(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...


_STORED = pa.schema(
    [
        ("content_hash", pa.binary(32)),
        ("object_key", pa.string()),
        ("uncompressed_bytes", pa.uint64()),
        ("stored_bytes", pa.uint64()),
        ("content_type", pa.string()),
    ]
)
_ASCII = "VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin"


def reserve_snapshots(ledger: Ledger, snapshots: Sequence[Stored], *, now: datetime) -> None:
    """Note bodies that are about to be uploaded (`pending`), so that an upload without a commit can be found and
    removed. Known ones are kept as they are."""
    table = _stored_table(snapshots, PAGE_FETCHES.empty())

    def work(tx: Transaction) -> None:
        tx.stage("stage_snapshots", table, key=["content_hash"], types={"object_key": _ASCII})
        tx.execute(query("fetches/reserve_snapshots"), {"now": now, "until": now + RETENTION})

    ledger.run(work)


def commit_fetches(
    ledger: Ledger,
    results: pa.Table,
    stored: Sequence[Stored] = (),
    *,
    lease: Lease | None = None,
    retention: timedelta = RETENTION,
) -> int:
    """Commit outcomes (`PAGE_FETCHES`) and the snapshots they stand on, one transaction per batch. Returns how many
    jobs changed.

    Jobs end `completed` (fetched, not_modified, gone) or `failed` (blocked, failed); deferred ones go back to
    `queued`. A snapshot counts as available from here on: the caller has read it back. A page's last body and its
    estimated change interval follow, and so do usage counters. With a lease the shard's fence is checked in the same
    transaction, and the lease extended: `StaleFence` means that nothing of the batch was written. The same results
    again change nothing.
    """
    results = PAGE_FETCHES.conform(results)
    changed = 0
    for start in range(0, results.num_rows, BATCH):
        batch = results.slice(start, BATCH)
        snapshots = _stored_table(stored, batch)
        rows = _rows(batch)
        changed += ledger.run(lambda tx, r=rows, s=snapshots: _commit(tx, r, s, lease, retention))  # type: ignore[misc]
    return changed


def _commit(tx: Transaction, rows: pa.Table, snapshots: pa.Table, lease: Lease | None, retention: timedelta) -> int:
    last = max(rows["fetched_at"].to_pylist())
    if lease is not None:
        check_fence(tx, lease, now=last)
    tx.stage("stage_snapshots", snapshots, key=["content_hash"], types={"object_key": _ASCII})
    tx.stage(
        "stage_results",
        rows,
        key=["fetch_job_id"],
        types={"outcome": "VARCHAR(16)", "validation_method": "VARCHAR(16)", "reason": "VARCHAR(64)"},
    )
    params = {"now": last, "today": last.date(), "until": last + retention, "profile": FETCH_PROFILE}
    tx.execute(query("fetches/put_snapshots"), params)
    tx.execute(query("fetches/drop_known"), params)
    row = tx.row("SELECT COUNT(*) FROM stage_results")
    changed = int(row[0]) if row else 0
    if changed:
        for statement in script("fetches/commit"):
            tx.execute(statement, params)
    return changed


def _rows(batch: pa.Table) -> pa.Table:
    """The newest outcome of each job, in the shape of the ledger's columns."""
    frame = frame_of(batch)
    newest = frame.sort("fetched_at", "attempt").unique("fetch_job_id", keep="last", maintain_order=True)
    headers = pl.struct(
        "x_robots_tag", "link_header", "refresh_header", "retry_after_s", "warnings"
    ).struct.json_encode()
    table = newest.select(
        "fetch_job_id",
        "source_url_id",
        "outcome",
        "reason",
        pl.col("detail").str.head(1024),
        "http_status",
        "final_url",
        "fetched_at",
        "elapsed_ms",
        "validation_method",
        "wire_bytes",
        "body_bytes",
        "content_hash",
        pl.col("content_type").str.head(255),
        # A validator that does not fit must not be sent back cut: better none.
        pl.when(pl.col("etag").str.len_chars() <= 1024).then("etag").alias("etag"),
        pl.when(pl.col("last_modified").str.len_chars() <= 255).then("last_modified").alias("last_modified"),
        pl.col("robots_version").str.head(128),
        "attempt",
        headers.alias("response_headers"),
    ).to_arrow()
    return table.cast(_ROWS)


_ROWS = pa.schema(
    [
        PAGE_FETCHES.schema.field(name)
        for name in (
            "fetch_job_id", "source_url_id", "outcome", "reason", "detail", "http_status", "final_url", "fetched_at",
            "elapsed_ms", "validation_method", "wire_bytes", "body_bytes", "content_hash", "content_type", "etag",
            "last_modified", "robots_version", "attempt",
        )
    ]
    + [pa.field("response_headers", pa.string())]
)  # fmt: skip


def _stored_table(stored: Sequence[Stored], batch: pa.Table) -> pa.Table:
    """Snapshots handed in, and those that only the outcomes name (their part was written, then the commit was lost)."""
    rows: dict[bytes, dict[str, object]] = {}
    columns = ["content_hash", "object_key", "body_bytes", "content_type", "validation_method"]
    for row in batch.select(columns).to_pylist():
        if row["content_hash"] and row["object_key"] and row["validation_method"] == "full_body":
            rows[row["content_hash"]] = {
                "content_hash": row["content_hash"],
                "object_key": row["object_key"],
                "uncompressed_bytes": row["body_bytes"],
                "stored_bytes": 0,
                "content_type": None if row["content_type"] is None else row["content_type"][:255],
            }
    for each in stored:
        known = rows.get(each.content_hash)
        if known is not None or not batch.num_rows:
            rows[each.content_hash] = {
                "content_hash": each.content_hash,
                "object_key": each.object_key,
                "uncompressed_bytes": each.uncompressed_bytes,
                "stored_bytes": each.stored_bytes,
                "content_type": None if known is None else known["content_type"],
            }
    return pa.Table.from_pylist(list(rows.values()), schema=_STORED)


__all__ = ["BATCH", "RETENTION", "StaleFence", "Stored", "commit_fetches", "reserve_snapshots"]
