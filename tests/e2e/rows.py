"""What the stores hold, by names that mean the same in every play: no ids, no row-creation times, no versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from assets.platform import Platform

EDGES = """
SELECT p.name, s.normalized_url, t.normalized_url, b.current_state, b.source_fetch_health, b.last_evidence, b.last_reason,
       b.last_checked_at, b.last_seen_live_at, b.lost_at, b.consecutive_failures, b.follow, b.anchor_text, b.placement,
       b.link_count, b.first_seen_at, b.first_discovery_source
FROM backlinks AS b JOIN projects AS p ON p.id = b.project_id JOIN urls AS s ON s.id = b.source_url_id
JOIN urls AS t ON t.id = b.target_url_id
"""
OBSERVATIONS = """
SELECT p.name, s.normalized_url, t.normalized_url, o.observed_at, o.evidence, o.evidence_reason, o.evidence_complete, o.state,
       o.transition_event, o.misses, o.source_http_status, o.anchor_text, o.follow, o.link_url, HEX(o.content_hash)
FROM backlink_observations AS o JOIN backlinks AS b ON b.id = o.backlink_id JOIN projects AS p ON p.id = b.project_id
JOIN urls AS s ON s.id = b.source_url_id JOIN urls AS t ON t.id = b.target_url_id WHERE o.observed_at < %(until)s
"""
ALERTS = """
SELECT p.name, s.normalized_url, t.normalized_url, e.event_type, e.occurred_at, e.retracted_at,
       (SELECT COUNT(*) FROM alert_deliveries AS d WHERE d.alert_event_id = e.id)
FROM alert_events AS e JOIN backlinks AS b ON b.id = e.backlink_id JOIN projects AS p ON p.id = b.project_id
JOIN urls AS s ON s.id = b.source_url_id JOIN urls AS t ON t.id = b.target_url_id WHERE e.occurred_at < %(until)s
"""
FETCHES = """
SELECT u.normalized_url, j.validation_window, j.status, j.outcome, j.failure_code, j.http_status, HEX(s.content_hash)
FROM page_fetch_jobs AS j JOIN urls AS u ON u.id = j.source_url_id
LEFT JOIN page_content_snapshots AS s ON s.id = j.content_snapshot_id WHERE j.validation_window < %(until)s
"""
OCCURRENCES = """
SELECT p.name, s.normalized_url, t.normalized_url, HEX(o.occurrence_key), o.anchor_text, o.is_live
FROM backlink_occurrences AS o JOIN backlinks AS b ON b.id = o.backlink_id JOIN projects AS p ON p.id = b.project_id
JOIN urls AS s ON s.id = b.source_url_id JOIN urls AS t ON t.id = b.target_url_id
"""
HISTORY = """
SELECT source_url, target_url, observed_at, evidence, evidence_reason, state, event, changes, misses, first_miss_at, ever_live
FROM edge_history FINAL WHERE window_start < {until:DateTime64(6, 'UTC')} ORDER BY ALL
"""


def business_rows(platform: Platform, until: datetime, *, now: bool = True) -> dict[str, list[str]]:
    """Rows up to an instant (exclusive), each as text, sorted. `now`: also the tables that only know the present."""
    texts = {"observations": OBSERVATIONS, "alerts": ALERTS, "fetches": FETCHES}
    if now:
        texts |= {"edges": EDGES, "occurrences": OCCURRENCES}
    with platform.ledger.transaction() as tx:
        found = {name: sorted(map(repr, tx.rows(text, {"until": until}))) for name, text in texts.items()}
    history = platform.clickhouse.query(HISTORY, parameters={"until": until}).result_rows
    found["history"] = [repr(row) for row in history]
    return found


def raw_rows(platform: Platform) -> dict[str, list[str]]:
    """Every row and column of both stores that a rerun must leave alone; leases, times of writing and load versions apart."""
    found: dict[str, list[str]] = {}
    with platform.ledger.transaction() as tx:
        for table in (
            "backlinks", "backlink_observations", "backlink_occurrences", "backlink_target_matches", "alert_events",
            "alert_deliveries", "transactional_outbox", "page_fetch_jobs", "crawl_runs",
        ):  # fmt: skip
            columns = [
                row[0]
                for row in tx.rows(
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = "
                    "%(table)s AND column_name NOT IN ('updated_at', 'created_at', 'lease_owner', 'leased_until')",
                    {"table": table},
                )
            ]
            names = ", ".join(f"`{name}`" for name in columns)
            found[table] = sorted(map(repr, tx.rows(f"SELECT {names} FROM {table}")))
    for table, apart in (
        ("backlink_observations_fact", ""), ("edge_history", "fold_version"), ("edge_current", "fold_version"),
        ("page_fetches_fact", "ingest_version"), ("target_health_fact", "ingest_version"),
    ):  # fmt: skip
        excluded = f" EXCEPT ({apart})" if apart else ""
        rows: Any = platform.clickhouse.query(f"SELECT *{excluded} FROM {table} FINAL ORDER BY ALL").result_rows
        found[table] = [repr(row) for row in rows]
    return found
