"""Decided state into the ledger. Here: `apply_batch`, which writes an edge's state, observations, occurrences, matches,
alerts, deliveries and outbox rows in one transaction. Not here: deciding (dbt, `transforms`), delivering.

Order is kept by `state_version`: an edge or an observation is written only when its version is higher than what is
there, so the same batch again writes nothing, and an older one moves nothing backwards. A corrected history (higher
versions for old observations) replaces hot observations, retracts alerts whose event it no longer holds, and tells the
outbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl
import pyarrow as pa

from transforms.alerts.events import happened
from transforms.arrays import frame_of
from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS, OCCURRENCES, Dataset
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.sql import query, script
from warehouse.ledger.tables import ALERT_DELIVERIES, ALERT_EVENTS, ALERT_OUTBOX, INTERVALS, RECENT_ALERTS, SCHEDULE

EDGES_PER_TRANSACTION = 2_000
LONGEST_INTERVAL = timedelta(days=7)
"""No active edge waits longer, whatever the policy says."""

ID_BATCH = 10_000


@dataclass(frozen=True)
class WritebackBatch:
    """What a window decided, for any number of edges. All rows of an edge belong into one batch."""

    states: pa.Table
    """`EDGE_STATES`: rows of the window, and later ones that were folded again because of them."""
    observations: pa.Table
    """`LINK_OBSERVATIONS` of those rows; where one is absent (an old one that was folded again) only its state is
    written."""
    occurrences: pa.Table = field(default_factory=OCCURRENCES.empty)
    """`OCCURRENCES` of the window, and of the later ones that hold the newest observation of an edge."""
    schedule: pa.Table = field(default_factory=SCHEDULE.empty)
    """`SCHEDULE` of the edges whose newest observation is among the states."""
    alert_events: pa.Table = field(default_factory=ALERT_EVENTS.empty)
    deliveries: pa.Table = field(default_factory=ALERT_DELIVERIES.empty)
    outbox: pa.Table = field(default_factory=ALERT_OUTBOX.empty)
    """`ALERT_OUTBOX` of the alert events; those of the states themselves are made here."""


def apply_batch(
    ledger: Ledger, batch: WritebackBatch, *, now: datetime, edges_per_transaction: int = EDGES_PER_TRANSACTION
) -> dict[str, int]:
    """Write a batch; whole edges per transaction. Idempotent and safe to run again after any crash.

    Outbox rows (`backlink-state-events`) follow from the transitions and changes of the states by themselves. Rows of
    edges or rules that are gone meanwhile are passed over. Returns counts: edges, observations, alert_events,
    retracted, deliveries, outbox, occurrences, pages. Raises `LedgerConstraint` when a row breaks a promise (LOST
    without evidence): then nothing of that transaction is written.
    """
    total = dict.fromkeys(_COUNTED.values(), 0)
    for part in _split(batch, edges_per_transaction):
        for name, count in ledger.run(lambda tx, p=part: _apply(tx, p, now)).items():  # type: ignore[misc]
            total[name] += count
    return total


def read_intervals(ledger: Ledger, backlink_ids: Sequence[int] | pa.Array | pa.ChunkedArray) -> pa.Table:
    """What the recheck policy needs to know (`INTERVALS`) of the edges that still exist."""
    return _by_edge(ledger, backlink_ids, "writeback/intervals", INTERVALS)


def recent_alerts(
    ledger: Ledger, backlink_ids: Sequence[int] | pa.Array | pa.ChunkedArray, *, since: datetime
) -> pa.Table:
    """Alert events of the edges since an instant that stand (`RECENT_ALERTS`), for cooldowns."""
    return _by_edge(ledger, backlink_ids, "writeback/recent_alerts", RECENT_ALERTS, since=since)


def _by_edge(
    ledger: Ledger,
    backlink_ids: Sequence[int] | pa.Array | pa.ChunkedArray,
    name: str,
    shape: Dataset,
    **params: object,
) -> pa.Table:
    ids = (
        pl.Series(
            "backlink_id", backlink_ids if isinstance(backlink_ids, list) else list(pl.Series(backlink_ids)), pl.UInt64
        )
        .unique()
        .sort()
    )
    parts = [shape.empty()]
    for start in range(0, ids.len(), ID_BATCH):
        table = pa.table({"backlink_id": ids.slice(start, ID_BATCH).to_arrow()})

        def work(tx: Transaction, table: pa.Table = table) -> pa.Table:
            tx.stage("stage_ids", table, key=["backlink_id"])
            return tx.table(query(name), shape.schema, params)

        parts.append(ledger.run(work))
    return pa.concat_tables(parts)


# -- one transaction --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    rows: pa.Table
    schedule: pa.Table
    matches: pa.Table
    occurrences: pa.Table
    pages: pa.Table
    alerts: pa.Table
    deliveries: pa.Table
    outbox: pa.Table
    held: pa.Table


_COUNTED = {
    "INSERT INTO backlink_observations": "observations",
    "UPDATE backlinks AS b": "edges",
    "INSERT INTO backlink_occurrences": "occurrences",
    "INSERT INTO alert_events": "alert_events",
    "UPDATE alert_events AS e": "retracted",
    "INSERT INTO alert_deliveries": "deliveries",
    "INSERT INTO transactional_outbox": "outbox",
    "UPDATE crawl_pages AS g": "pages",
}
_TYPES = {
    "state": "VARCHAR(16)", "event": "VARCHAR(16)", "evidence": "VARCHAR(16)", "evidence_reason": "VARCHAR(64)",
    "source_fetch_health": "VARCHAR(16)", "target_fetch_health": "VARCHAR(16)", "follow": "VARCHAR(32)",
    "placement": "VARCHAR(32)", "html_lang": "VARCHAR(255)", "parser_version": "VARCHAR(64)", "kind": "VARCHAR(16)",
}  # fmt: skip


def _apply(tx: Transaction, part: _Part, now: datetime) -> dict[str, int]:
    tx.stage("stage_rows", part.rows, key=["observation_id"], index=["backlink_id"], types=_TYPES)
    tx.derive("stage_latest", query("writeback/latest"), key=["backlink_id"])
    tx.stage("stage_schedule", part.schedule, key=["backlink_id"])
    tx.stage("stage_matches", part.matches, key=["backlink_id", "project_target_id"])
    tx.stage("stage_occurrences", part.occurrences, key=["backlink_id", "occurrence_key"], types=_TYPES)
    tx.stage("stage_pages", part.pages, key=["crawl_page_id"])
    tx.stage(
        "stage_alerts",
        part.alerts,
        key=["deduplication_key"],
        index=["observation_id"],
        types={"event_type": "VARCHAR(64)"},
    )
    tx.stage(
        "stage_deliveries",
        part.deliveries,
        index=["deduplication_key"],
        types={"channel": "VARCHAR(16)", "destination": "VARCHAR(512)"},
    )
    tx.stage("stage_outbox", part.outbox, key=["event_key"], types={"topic": "VARCHAR(128)"})
    tx.stage("stage_held", part.held, key=["observation_id", "event_type"], types={"event_type": "VARCHAR(64)"})
    counts = dict.fromkeys(_COUNTED.values(), 0)
    params = {"now": now, "longest_s": int(LONGEST_INTERVAL.total_seconds())}
    for statement in script("writeback/apply"):
        changed = tx.execute(statement, params)
        for head, name in _COUNTED.items():
            if statement.startswith(head):
                counts[name] += changed
    return counts


_OBSERVED = (
    "observation_id", "crawl_run_id", "crawl_page_id", "fetch_job_id", "source_url", "target_url_id", "target_url",
    "evidence", "evidence_reason", "evidence_complete", "source_fetch_health", "source_http_status",
    "source_final_url", "source_robots_indexable", "source_canonical_url", "target_fetch_health",
    "target_http_status", "target_final_url", "target_robots_indexable", "link_url", "tolerated", "link_count",
    "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "is_image_link", "is_redirected",
    "placement", "page_title", "html_lang", "response_time_ms", "content_hash", "manifest_id", "parser_version",
    "target_rule_ids",
)  # fmt: skip


def _split(batch: WritebackBatch, edges: int) -> Iterator[_Part]:
    """Whole edges, `edges` at a time; alerts of no edge (a host's incident) go with the first."""
    states = frame_of(EDGE_STATES.conform(batch.states)).unique("observation_id", keep="last", maintain_order=True)
    observations = (
        frame_of(LINK_OBSERVATIONS.conform(batch.observations)).unique("observation_id", keep="last").select(_OBSERVED)
    )
    rows = states.join(observations, on="observation_id", how="left", maintain_order="left").with_columns(
        has_observation=pl.col("evidence").is_not_null(),
        # filled in by the first statements, under the edges' locks
        is_newer=pl.lit(False),
        is_current=pl.lit(False),
        old_event=pl.lit(None, pl.String),
        old_state=pl.lit(None, pl.String),
    )
    occurrences = frame_of(OCCURRENCES.conform(batch.occurrences)).unique(
        ["backlink_id", "occurrence_key", "observed_at"], keep="last"
    )
    schedule = frame_of(SCHEDULE.conform(batch.schedule)).unique("backlink_id", keep="last")
    alerts = frame_of(ALERT_EVENTS.conform(batch.alert_events)).unique("deduplication_key", keep="last")
    deliveries = frame_of(ALERT_DELIVERIES.conform(batch.deliveries)).unique()
    outbox = frame_of(ALERT_OUTBOX.conform(batch.outbox)).unique("event_key", keep="last")
    by_event = {hashlib.sha256(f"alert:{key.hex()}".encode()).digest(): key for key in alerts["deduplication_key"]}
    outbox = outbox.with_columns(
        deduplication_key=pl.Series([by_event.get(key) for key in outbox["event_key"]], dtype=pl.Binary)
    )
    held = happened(states, frame_of(batch.observations)).select("observation_id", "event_type", "backlink_id").unique()
    keys = states["backlink_id"].unique().sort()
    for start in range(0, max(keys.len(), 1), edges):
        ids = pl.DataFrame({"backlink_id": keys.slice(start, edges)}, schema={"backlink_id": pl.UInt64})
        mine = rows.join(ids, on="backlink_id", how="semi")
        latest = mine.filter("is_latest").sort("observed_at", "observation_id").unique("backlink_id", keep="last")
        my_alerts = alerts.join(ids, on="backlink_id", how="semi")
        if start == 0:
            my_alerts = pl.concat([my_alerts, alerts.filter(pl.col("backlink_id").is_null())])
        if mine.is_empty() and my_alerts.is_empty():
            continue
        mine = mine.with_columns(is_latest=pl.col("observation_id").is_in(latest["observation_id"].implode()))
        matches = latest.filter("has_observation").select(
            "backlink_id", pl.col("target_rule_ids").alias("project_target_id")
        )
        places = _places(occurrences.join(ids, on="backlink_id", how="semi"), latest)
        mine = mine.with_columns(
            # A find whose occurrences are not at hand (retention took the file) does not say that they are gone.
            knows_places=(pl.col("evidence") == "missing").fill_null(value=False)
            | pl.col("backlink_id").is_in(places.filter("is_current")["backlink_id"].implode())
        )
        pages = (
            mine.filter(pl.col("crawl_page_id").is_not_null())
            .group_by("crawl_page_id")
            .agg(is_done=(pl.col("evidence") != "none").any())
            .with_columns(run_id=pl.lit(None, pl.Binary), was_open=pl.lit(False), was_failed=pl.lit(False))
        )
        yield _Part(
            rows=_arrow(mine.drop("target_rule_ids")),
            schedule=_arrow(schedule.join(ids, on="backlink_id", how="semi")),
            matches=_arrow(matches.explode("project_target_id").drop_nulls().unique()),
            occurrences=_arrow(places),
            pages=_arrow(pages),
            alerts=_arrow(my_alerts),
            deliveries=_arrow(deliveries.join(my_alerts, on="deduplication_key", how="semi")),
            outbox=_arrow(outbox.join(my_alerts, on="deduplication_key", how="semi")),
            held=_arrow(held.join(ids, on="backlink_id", how="semi").drop("backlink_id")),
        )


def _places(occurrences: pl.DataFrame, latest: pl.DataFrame) -> pl.DataFrame:
    """One row per occurrence as it was seen last, with `first_at`, `last_at` and `is_current`: it stands at the newest
    observation. The others are past: a fixed parser found them in an old window."""
    edge_and_key = ["backlink_id", "occurrence_key"]
    newest = latest.select("backlink_id", newest_at="observed_at")
    return (
        occurrences.join(newest, on="backlink_id")
        .sort("observed_at")
        .with_columns(
            first_at=pl.col("observed_at").min().over(edge_and_key),
            last_at=pl.col("observed_at").max().over(edge_and_key),
            is_current=pl.col("observed_at") == pl.col("newest_at"),
        )
        .unique(edge_and_key, keep="last")
        .drop("newest_at")
    )


_BINARY = {
    "idempotency_key": 32, "tenant_id": 16, "project_id": 16, "crawl_run_id": 16, "content_hash": 32, "manifest_id": 16,
    "project_target_id": 16, "occurrence_key": 32, "deduplication_key": 32, "alert_rule_id": 16, "run_id": 16,
    "event_key": 32,
}  # fmt: skip


def _arrow(frame: pl.DataFrame) -> pa.Table:
    """Back to the exact widths of keys, which polars does not know."""
    table = frame.to_arrow()
    fields = [
        field.with_type(pa.binary(_BINARY[field.name])) if field.name in _BINARY else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))
