"""Answers for people: what `backlinks status` and `backlinks explain` show of the ledger. Here: reading. Not here:
history beyond the hot observations (ClickHouse), formatting (the command)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from transforms.schemas.dataset import BOOL, HASH, I16, KEY, STR, TIME, U16, U32, U64, Dataset, column
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.identities import find_url
from warehouse.ledger.sql import query

PROJECT_STATUS = Dataset(
    "ledger_project_status",
    "One row per project.",
    pa.schema([
        column("project_id", KEY, "projects.id"),
        column("tenant_id", KEY, "its tenant"),
        column("name", STR, "its name"),
        column("is_active", BOOL, "false: paused"),
        column("edges", U64, "known edges"),
        column("live", U64, "in state live"),
        column("lost", U64, "in state lost"),
        column("unknown", U64, "never decided"),
        column("due", U64, "active edges whose next check is not after now"),
        column("awaiting_confirmation", U64, "active edges whose first miss waits for confirmation"),
        column("blocked", U64, "edges whose source said no at the last check"),
        column("failing", U64, "edges whose source was broken at the last check"),
        column("never_checked", U64, "active edges without any check"),
        column("overdue", U64, "coverage debt: active edges, known for 7 days, without a check in the last 7 days"),
        column("last_checked_at", TIME, "last check of any of its edges", null=True),
        column("oldest_due_at", TIME, "when the oldest unserved check fell due", null=True),
    ]),
)  # fmt: skip

WINDOW_STATUS = Dataset(
    "ledger_window_status",
    "One row per window that claimed something, newest first.",
    pa.schema([
        column("window_start", TIME, "the window"),
        column("sources", U64, "claimed"),
        column("waiting", U64, "not answered yet"),
        column("fetched", U64, "outcome fetched"),
        column("not_modified", U64, "outcome not_modified"),
        column("gone", U64, "outcome gone"),
        column("blocked", U64, "outcome blocked"),
        column("failed", U64, "outcome failed, or given up"),
        column("deferred", U64, "outcome deferred: coverage debt of the window"),
        column("confirmations", U64, "sources claimed to confirm a miss"),
        column("wire_bytes", U64, "body bytes received"),
    ]),
)  # fmt: skip

QUEUE_STATUS = Dataset(
    "ledger_queue_status",
    "One row per queue and status that has rows.",
    pa.schema([
        column("queue", STR, "table"),
        column("status", STR, "pending, leased, failed, ..."),
        column("rows", U64, "how many"),
        column("oldest_at", TIME, "since when the oldest waits", null=True),
    ]),
)  # fmt: skip

EDGE_LIST = Dataset(
    "ledger_edge_list",
    "Edges of a project with their current state.",
    pa.schema([
        column("backlink_id", U64, "backlinks.id"),
        column("source_url", STR, "identity of the source page"),
        column("target_url", STR, "identity of the target page"),
        column("source_registrable_domain", STR, "registrable domain of the source's host"),
        column("any_target", BOOL, "any link that a target rule accepts stands for it"),
        column("state", STR, "unknown | live | lost"),
        column("evidence", STR, "of the last check", null=True),
        column("reason", STR, "of the last check", null=True),
        column("follow", STR, "follow, or where a nofollow comes from, as last found", null=True),
        column("anchor_text", STR, "as last found", null=True),
        column("placement", STR, "as last found", null=True),
        column("link_count", U16, "links on the page that match, as last found"),
        column("rel_nofollow", BOOL, "as last found"),
        column("rel_ugc", BOOL, "as last found"),
        column("rel_sponsored", BOOL, "as last found"),
        column("is_image_link", BOOL, "as last found"),
        column("is_redirected", BOOL, "as last found"),
        column("source_health", STR, "at the last check"),
        column("source_http_status", U16, "at the last check", null=True),
        column("source_indexable", BOOL, "as last read", null=True),
        column("target_health", STR, "at the last check"),
        column("target_http_status", U16, "at the last check", null=True),
        column("target_indexable", BOOL, "at the last check", null=True),
        column("misses", U16, "consecutive complete misses"),
        column("first_seen_at", TIME, "when it was first heard of"),
        column("last_checked_at", TIME, "last check", null=True),
        column("last_seen_live_at", TIME, "last time it was found", null=True),
        column("lost_at", TIME, "when it was lost, while it is", null=True),
        column("next_check_at", TIME, "next check, not before"),
        column("confirm_not_before", TIME, "a first miss waits for confirmation until then", null=True),
        column("state_version", U64, "rises with every change"),
    ]),
)  # fmt: skip

JOBS = Dataset(
    "ledger_edge_jobs",
    "Fetches of an edge's source, newest first.",
    pa.schema([
        column("job_id", U64, "page_fetch_jobs.id"),
        column("window_start", TIME, "the window that claimed it"),
        column("status", STR, "queued | leased | completed | failed"),
        column("outcome", STR, "how it ended", null=True),
        column("reason", STR, "why it was no plain answer", null=True),
        column("detail", STR, "one sentence", null=True),
        column("fetched_at", TIME, "when", null=True),
        column("http_status", U16, "of the final response", null=True),
        column("document_url", STR, "URL that answered", null=True),
        column("is_confirmation", BOOL, "to confirm a miss"),
        column("attempts", U16, "attempts"),
        column("robots_version", STR, "robots.txt that was obeyed", null=True),
        column("response_time_ms", U32, "time taken", null=True),
        column("content_hash", HASH, "snapshot it stands on", null=True),
        column("object_key", STR, "its object", null=True),
        column("snapshot_status", STR, "pending | available | quarantined | deleted", null=True),
    ]),
)  # fmt: skip

PARSES = Dataset(
    "ledger_edge_parses",
    "Manifests of those snapshots.",
    pa.schema([
        column("manifest_id", KEY, "as in page_manifests"),
        column("content_hash", HASH, "snapshot that was parsed"),
        column("document_url", STR, "document URL it was parsed under", null=True),
        column("parser_version", STR, "parser"),
        column("status", STR, "completed | failed"),
        column("reason", STR, "how it ended", null=True),
        column("links_found", U32, "links", null=True),
        column("is_truncated", BOOL, "a limit was hit"),
        column("link_manifest_key", STR, "Parquet part of its page row", null=True),
    ]),
)  # fmt: skip

OBSERVATIONS = Dataset(
    "ledger_edge_observations",
    "Hot observations of an edge, newest first.",
    pa.schema([
        column("observation_id", U64, "as in link_observations"),
        column("observed_at", TIME, "when"),
        column("evidence", STR, "found | missing | none"),
        column("evidence_complete", BOOL, "may count as a miss"),
        column("reason", STR, "why", null=True),
        column("state", STR, "after it"),
        column("event", STR, "none | new | lost | recovered"),
        column("misses", U16, "after it"),
        column("state_version", U64, "version"),
        column("source_http_status", U16, "status of the source", null=True),
        column("anchor_text", STR, "anchor", null=True),
        column("follow", STR, "follow, or where a nofollow comes from", null=True),
        column("link_url", STR, "the link that stood for the edge", null=True),
        column("content_hash", HASH, "snapshot", null=True),
        column("manifest_id", KEY, "manifest", null=True),
        column("parser_version", STR, "parser", null=True),
        column("job_id", U64, "page_fetch_jobs.id", null=True),
        column("metadata", STR, "JSON: changes, tolerated, source_canonical_url"),
    ]),
)  # fmt: skip

ALERTS = Dataset(
    "ledger_edge_alerts",
    "Alert events of an edge with their deliveries, newest first.",
    pa.schema([
        column("event_type", STR, "what happened"),
        column("rule", STR, "name of the rule", null=True),
        column("occurred_at", TIME, "when"),
        column("retracted_at", TIME, "when a correction took it back", null=True),
        column("status", STR, "over all deliveries"),
        column("channel", STR, "email | slack | webhook", null=True),
        column("destination", STR, "where it goes", null=True),
        column("delivery_status", STR, "of this delivery", null=True),
        column("attempts", U16, "of this delivery", null=True),
        column("observation_id", U64, "cause", null=True),
    ]),
)  # fmt: skip

_TARGET_JOBS = Dataset(
    "ledger_edge_target_jobs",
    "Checks of an edge's target, newest first.",
    pa.schema([
        column("job_id", U64, "target_validation_jobs.id"),
        column("window_start", TIME, "window"),
        column("validated_at", TIME, "when", null=True),
        column("health", STR, "unknown | ok | blocked | error", null=True),
        column("outcome", STR, "how it ended", null=True),
        column("reason", STR, "why", null=True),
        column("http_status", U16, "status", null=True),
        column("final_url", STR, "URL that answered", null=True),
        column("robots_indexable", BOOL, "may be indexed", null=True),
        column("priority", I16, "priority"),
    ]),
)  # fmt: skip


@dataclass(frozen=True)
class Status:
    """The ledger at a glance."""

    projects: pa.Table
    """`PROJECT_STATUS`."""
    windows: pa.Table
    """`WINDOW_STATUS`."""
    queues: pa.Table
    """`QUEUE_STATUS`: deliveries and outbox."""
    leases: list[dict[str, Any]]
    """Shards that somebody owns: name, owner, fence, leased_until."""


@dataclass(frozen=True)
class EdgeExplained:
    """The chain of evidence of one edge, as the ledger holds it. Tables are newest first."""

    edge: dict[str, Any]
    """An `EDGE_LIST` row, and project_id, project, source_url_id, target_url_id."""
    jobs: pa.Table
    """`JOBS`: fetches of the source, each with its snapshot."""
    parses: pa.Table
    """`PARSES` of those snapshots."""
    target_jobs: pa.Table
    """Checks of the target."""
    observations: pa.Table
    """`OBSERVATIONS`."""
    alerts: pa.Table
    """`ALERTS`."""


def status(ledger: Ledger, *, now: datetime, tenant_id: bytes | None = None, windows: int = 24) -> Status:
    """Counts by state, what is due, the last windows, coverage debt, queues and leases. Reads every edge once (an
    index)."""
    params = {"now": now, "week_ago": now - timedelta(days=7), "tenant_id": tenant_id, "windows": windows}
    with ledger.transaction() as tx:
        return Status(
            tx.table(query("lookups/projects"), PROJECT_STATUS.schema, params),
            tx.table(query("lookups/windows"), WINDOW_STATUS.schema, params),
            tx.table(query("lookups/queues"), QUEUE_STATUS.schema, params),
            [
                dict(zip(("name", "owner", "fence", "leased_until"), row, strict=True))
                for row in tx.rows(
                    "SELECT name, owner, fence, leased_until FROM shard_leases WHERE owner IS NOT NULL ORDER BY name"
                )
            ],
        )


def busiest_hosts(ledger: Ledger, *, gap_s: float, in_flight: int, least: int = 10_000, limit: int = 1_000) -> pa.Table:
    """Hosts with more than `least` pages to check, as `transforms.recheck.projected_coverage` wants them: host, sources,
    gap_s, in_flight (the given ones where no operator set others). Reads the source dictionary once."""
    schema = pa.schema([("host", STR), ("sources", U64), ("gap_s", pa.float64()), ("in_flight", U16)])
    params = {"gap_s": gap_s, "in_flight": in_flight, "least": least, "limit": limit}
    with ledger.transaction() as tx:
        return tx.table(query("lookups/busiest_hosts"), schema, params)


def edge_list(
    ledger: Ledger,
    project_id: bytes,
    *,
    state: str | None = None,
    backlink_ids: Sequence[int] | None = None,
    after_id: int = 0,
    limit: int = 10_000,
) -> pa.Table:
    """Edges of a project with their current state (`EDGE_LIST`), by id, a page at a time (`after_id`: the last one
    seen)."""

    def work(tx: Transaction) -> pa.Table:
        ids = pa.table({"id": pa.array(sorted(set(backlink_ids or [])), pa.uint64())})
        tx.stage("stage_ids", ids, key=["id"])
        params = {
            "project_id": project_id,
            "state": state,
            "after": after_id,
            "limit": limit,
            "all": backlink_ids is None,
        }
        return tx.table(query("lookups/edges"), EDGE_LIST.schema, params)

    return ledger.run(work)


def explain(
    ledger: Ledger, *, source: str, target: str, project_id: bytes | None = None, limit: int = 50
) -> list[EdgeExplained]:
    """Every edge between two URLs (their identities), one per project that has it; at most `limit` rows a table. An
    empty list: no project knows such an edge."""
    answer = []
    with ledger.transaction() as tx:
        ends = {
            "source_url_id": find_url(tx, ledger.rules, source),
            "target_url_id": find_url(tx, ledger.rules, target),
        }
        found = tx.rows(query("lookups/find_edge"), {**ends, "project_id": project_id})
        for edge_project, name, backlink_id, source_url_id, target_url_id in found:
            params = {
                "project_id": edge_project, "backlink_id": backlink_id, "source_url_id": source_url_id,
                "target_url_id": target_url_id, "limit": limit, "state": None, "after": 0, "all": False,
            }  # fmt: skip
            tx.stage("stage_ids", pa.table({"id": pa.array([backlink_id], pa.uint64())}), key=["id"])
            edge = tx.table(query("lookups/edges"), EDGE_LIST.schema, params).to_pylist()[0]
            answer.append(
                EdgeExplained(
                    {
                        **edge,
                        "project_id": bytes(edge_project),
                        "project": name,
                        "source_url_id": source_url_id,
                        "target_url_id": target_url_id,
                    },
                    tx.table(query("lookups/edge_jobs"), JOBS.schema, params),
                    tx.table(query("lookups/edge_parses"), PARSES.schema, params),
                    tx.table(query("lookups/edge_target_jobs"), _TARGET_JOBS.schema, params),
                    tx.table(query("lookups/edge_observations"), OBSERVATIONS.schema, params),
                    tx.table(query("lookups/edge_alerts"), ALERTS.schema, params),
                )
            )
    return answer
