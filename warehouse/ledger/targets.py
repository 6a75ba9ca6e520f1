"""Health of monitored targets. Here: claiming target URLs that are due, and committing what they answered. Not here:
source pages (`claims`, `fetches`); a target's trouble never says that a link is lost."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from transforms.arrays import frame_of
from transforms.schemas import TARGET_HEALTH
from transforms.windows import Window, buckets_of_shard
from warehouse.ledger.claims import RESERVATION, _in
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.leases import Lease, check_fence
from warehouse.ledger.sql import query, script
from warehouse.ledger.tables import TARGETS_DUE

BATCH = 2_000
INTERVAL = timedelta(hours=24)
"""A healthy target is checked this often."""

RETRY_FROM, RETRY_TO = timedelta(minutes=30), timedelta(hours=24)
"""A failing one after 30 minutes, then twice as long each time, up to a day."""


def claim_targets(
    ledger: Ledger, *, window: Window, shard: int, shards: int, now: datetime, owner: str, batch: int = BATCH
) -> pa.Table:
    """Claim monitored target URLs on the shard's hosts that fall due before the window's end; all that the window has
    claimed (`TARGETS_DUE`). One job per target and window, whoever monitors it; claiming again adds what fell due
    since."""
    buckets = buckets_of_shard(shard, shards)
    params = {
        "start": window.start,
        "end": window.end,
        "window_key": window.key,
        "now": now,
        "owner": owner[:128],
        "batch": batch,
        "reserved_until": max(window.end, now) + RESERVATION,
    }

    def work(tx: Transaction) -> int:
        tx.stage("stage_targets", _IDS.empty_table(), key=["target_url_id"])
        locked = tx.execute(_in(query("targets/lock"), buckets), params)
        if locked:
            for statement in script("targets/claim"):
                tx.execute(statement, params)
        return locked

    while ledger.run(work):
        pass
    with ledger.transaction() as tx:
        return tx.table(_in(query("targets/claimed"), buckets), TARGETS_DUE.schema, params)


_IDS = pa.schema([("target_url_id", pa.uint64())])


def commit_targets(
    ledger: Ledger, results: pa.Table, *, window: Window, lease: Lease | None = None, interval: timedelta = INTERVAL
) -> int:
    """Commit target health (`TARGET_HEALTH`) of a window. Returns how many jobs changed; the same results again: none.

    The next check follows from the answer: after `interval`, or sooner while it fails. Raises `StaleFence`.
    """
    results = TARGET_HEALTH.conform(results)
    changed = 0
    for start in range(0, results.num_rows, BATCH):
        frame = frame_of(results.slice(start, BATCH))
        newest = frame.sort("checked_at").unique("target_url_id", keep="last", maintain_order=True)
        table = newest.to_arrow().cast(TARGET_HEALTH.schema)
        changed += ledger.run(lambda tx, t=table: _commit(tx, t, window, lease, interval))  # type: ignore[misc]
    return changed


def _commit(tx: Transaction, rows: pa.Table, window: Window, lease: Lease | None, interval: timedelta) -> int:
    last = max(rows["checked_at"].to_pylist())
    if lease is not None:
        check_fence(tx, lease, now=last)
    types = {"outcome": "VARCHAR(16)", "reason": "VARCHAR(64)", "health": "VARCHAR(16)"}
    tx.stage("stage_health", rows, key=["target_url_id"], types=types)
    params = {
        "window_key": window.key,
        "interval": int(interval.total_seconds()),
        "retry_from": int(RETRY_FROM.total_seconds()),
        "retry_to": int(RETRY_TO.total_seconds()),
    }
    tx.execute(query("targets/drop_known"), params)
    row = tx.row("SELECT COUNT(*) FROM stage_health")
    changed = int(row[0]) if row else 0
    if changed:
        for statement in script("targets/commit"):
            tx.execute(statement, params)
    return changed
