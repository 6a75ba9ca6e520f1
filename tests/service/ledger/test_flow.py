"""One window through the ledger: claim, fetch, parse, targets, write-back, next window; then what people are shown."""

# ruff: noqa: E501
from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from transforms.collapse import PRIOR_COLUMNS
from transforms.schemas import DUE_SOURCES, TARGET_HEALTH
from warehouse.ledger import Ledger, claims, fetches, leases, lookups, parses, projects, targets
from warehouse.ledger.writeback import apply_batch

pytestmark = pytest.mark.service


@dataclass
class Body:
    """Shape of `warehouse.snapshots.StoredSnapshot`."""

    content_hash: bytes
    object_key: str
    uncompressed_bytes: int
    stored_bytes: int


def one(ledger: Ledger, sql: str, **params: Any) -> tuple[Any, ...]:
    with ledger.transaction() as tx:
        row = tx.row(sql, params)
    assert row is not None
    return row


def test_a_window_from_claim_to_the_next(fresh_ledger: Ledger) -> None:
    ledger = fresh_ledger
    scene = data.scene(ledger, sources=3)
    claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    assert claim.counts == {"new": 3, "before": 0, "deferred": 0, "skipped": 0}
    due, expected = claim.due.to_pylist(), claim.expected.to_pylist()
    assert [row["source_url_id"] for row in due] == scene.source_ids
    assert all(row["edges"] == 1 and row["prior_content_hash"] is None and not row["is_confirmation"] for row in due)
    assert [row["backlink_id"] for row in expected] == scene.backlink_ids
    assert claim.rules.to_pylist()[0]["project_target_id"] == scene.target_rule

    # fetch: a body, a 404, a failure
    rows = [
        data.fetch_row(due[0]),
        data.fetch_row(due[1], outcome="gone", reason="http_404", http_status=404, content_hash=None, object_key=None, validation_method="no_body", wire_bytes=0, body_bytes=0),
        data.fetch_row(due[2], outcome="failed", reason="http_5xx", http_status=500, content_hash=None, object_key=None, validation_method="no_body", wire_bytes=0, body_bytes=0),
    ]  # fmt: skip
    bodies = [Body(rows[0]["content_hash"], rows[0]["object_key"], 4000, 900)]
    lease = leases.acquire_shard(ledger, "shard:0", owner="test", ttl_s=300, now=NOW)
    fetches.reserve_snapshots(ledger, bodies, now=NOW)
    assert one(ledger, "SELECT status FROM page_content_snapshots") == ("pending",)
    assert fetches.commit_fetches(ledger, data.fetches(rows), bodies, lease=lease) == 3
    assert fetches.commit_fetches(ledger, data.fetches(rows), bodies, lease=lease) == 0, "the same results again"
    assert fetches.commit_fetches(ledger, data.fetches(rows), lease=lease) == 0
    assert one(ledger, "SELECT status, stored_bytes FROM page_content_snapshots") == ("available", 900)
    usage = "SELECT page_checks_reserved, page_checks_completed, network_fetches, bytes_downloaded FROM tenant_crawl_usage_daily"
    assert one(ledger, usage) == (3, 3, 3, 1000)
    with ledger.transaction() as tx:
        jobs = tx.rows("SELECT status, outcome, failure_code FROM page_fetch_jobs ORDER BY source_url_id")
    assert jobs == [("completed", "fetched", None), ("completed", "gone", "http_404"), ("failed", "failed", "http_5xx")]

    # parse
    page = data.page_row(rows[0])
    assert parses.register_parsed(ledger, data.pages([page]), manifest_key="datasets/page_manifests/x.parquet") == 1
    assert parses.register_parsed(ledger, data.pages([page]), manifest_key="datasets/page_manifests/y.parquet") == 0
    found = parses.find_parsed(ledger, [page["manifest_id"], b"?" * 16]).to_pylist()
    assert found == [{"manifest_id": page["manifest_id"], "link_manifest_key": "datasets/page_manifests/x.parquet", "reason": "ok", "links_found": 12, "is_truncated": False}]  # fmt: skip

    # what the newest look of a source leaves for the next claim; a job that is not the newest leaves nothing
    looks = pa.Table.from_pylist(
        [
            {"source_url_id": due[0]["source_url_id"], "fetch_job_id": due[0]["fetch_job_id"], "prior_link_count": 12,
             "prior_text_bytes": 3400, "collapsed_looks": 2, "collapsed_since": NOW},
            {"source_url_id": due[1]["source_url_id"], "fetch_job_id": due[0]["fetch_job_id"], "prior_link_count": 99,
             "prior_text_bytes": 99, "collapsed_looks": 0, "collapsed_since": None},
        ],
        schema=pa.schema(
            [("source_url_id", pa.uint64()), ("fetch_job_id", pa.uint64()),
             *((name, DUE_SOURCES.schema.field(name).type) for name in PRIOR_COLUMNS)]
        ),
    )  # fmt: skip
    for _ in range(2):
        parses.remember_looks(ledger, looks)

    # target health
    claimed_targets = targets.claim_targets(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test").to_pylist()
    assert sorted(row["target_url_id"] for row in claimed_targets) == sorted(scene.target_ids)
    assert (
        targets.claim_targets(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test").to_pylist()
        == claimed_targets
    )
    health = TARGET_HEALTH.table([
        {"target_url_id": row["target_url_id"], "target_url": row["target_url"], "outcome": "fetched" if n else "failed", "reason": "ok" if n else "http_5xx",
         "health": "ok" if n else "error", "http_status": 200 if n else 500, "final_url": row["target_url"], "is_redirected": False,
         "robots_indexable": True, "checked_at": NOW, "elapsed_ms": 10}
        for n, row in enumerate(claimed_targets)
    ])  # fmt: skip
    assert targets.commit_targets(ledger, health, window=WINDOW, lease=lease) == 3
    assert targets.commit_targets(ledger, health, window=WINDOW, lease=lease) == 0
    with ledger.transaction() as tx:
        when = tx.rows(
            "SELECT next_check_at, consecutive_failures FROM target_revalidation_state ORDER BY target_url_id"
        )
    assert when == [(NOW + timedelta(minutes=30), 1), (NOW + timedelta(hours=24), 0), (NOW + timedelta(hours=24), 0)]
    assert leases.release(ledger, lease)

    # write back
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="news",
        event_types=["backlink.new"],
        channels=[{"channel": "slack", "destination": "env:SLACK"}],
        now=NOW,
    )
    seen = [
        data.observation_row(
            expected[0],
            content_hash=page["content_hash"],
            manifest_id=page["manifest_id"],
            fetch_job_id=due[0]["fetch_job_id"],
        ),
        data.observation_row(expected[1], evidence="missing", evidence_reason="http_404"),
        data.observation_row(expected[2], evidence="none"),
    ]
    states = [
        data.state_row(seen[0], "live", event="new"),
        data.state_row(seen[1], "unknown", misses=1, first_miss_at=NOW),
        data.state_row(seen[2], "unknown"),
    ]
    confirm = WINDOW.end + timedelta(minutes=10)
    schedule = [
        {"backlink_id": scene.backlink_ids[0], "next_check_at": NOW + timedelta(days=1)},
        {"backlink_id": scene.backlink_ids[1], "next_check_at": confirm, "confirm_not_before": confirm},
        {"backlink_id": scene.backlink_ids[2], "next_check_at": WINDOW.end + timedelta(minutes=1)},
    ]
    apply_batch(
        ledger,
        data.batch(states, seen, schedule=schedule, alerts=[data.alert_row(states[0], rule, "backlink.new")], deliveries=[
            {"deduplication_key": data.alert_row(states[0], rule, "backlink.new")["deduplication_key"], "channel": "slack", "destination": "env:SLACK"}
        ]),
        now=NOW,
    )  # fmt: skip
    assert one(ledger, "SELECT status, pages_planned, pages_completed, pages_failed FROM crawl_runs") == (
        "partial",
        3,
        2,
        1,
    )

    # the next window: the confirmation waits for its time, the failure does not; the live edge is not due
    later = data.next_window()
    early = claims.claim_due(ledger, window=later, shard=0, shards=1, now=later.start, owner="test")
    assert [row["backlink_id"] for row in early.expected.to_pylist()] == [scene.backlink_ids[2]]
    after = claims.claim_due(ledger, window=later, shard=0, shards=1, now=confirm, owner="test")
    assert [row["backlink_id"] for row in after.expected.to_pylist()] == scene.backlink_ids[1:]
    assert {row["source_url_id"]: row["is_confirmation"] for row in after.due.to_pylist()} == {
        scene.source_ids[1]: True,
        scene.source_ids[2]: False,
    }

    # a day later the live page is claimed with its validators
    tomorrow = data.next_window(by=24)
    day = claims.claim_due(ledger, window=tomorrow, shard=0, shards=1, now=tomorrow.start, owner="test")
    prior = next(row for row in day.due.to_pylist() if row["source_url_id"] == scene.source_ids[0])
    headers = json.loads(prior.pop("prior_headers"))
    assert (headers["x_robots_tag"], headers["link_header"], headers["refresh_header"]) == ([], [], None)
    assert {name: prior[name] for name in prior if name.startswith("prior_")} == {
        "prior_content_hash": rows[0]["content_hash"], "prior_object_key": rows[0]["object_key"], "prior_document_url": due[0]["source_url"],
        "prior_content_type": "text/html; charset=utf-8", "prior_etag": '"v1"', "prior_last_modified": "Tue, 01 Dec 2026 09:00:00 GMT",
        "prior_link_count": 12, "prior_text_bytes": 3400,
    }  # fmt: skip
    assert (prior["collapsed_looks"], prior["collapsed_since"]) == (2, NOW)

    # 304 without validators of its own keeps those that it confirmed, and its prior stays what it was when claimed
    not_modified = data.fetch_row(prior, tomorrow.start, outcome="not_modified", reason="not_modified", http_status=304, validation_method="not_modified", etag=None, last_modified=None, wire_bytes=0, body_bytes=0)  # fmt: skip
    assert fetches.commit_fetches(ledger, data.fetches([not_modified])) == 1
    again = claims.claim_due(ledger, window=tomorrow, shard=0, shards=1, now=tomorrow.start, owner="test")
    assert again.due == day.due
    assert one(
        ledger, "SELECT etag, last_modified FROM page_fetch_jobs WHERE id = %(id)s", id=prior["fetch_job_id"]
    ) == ('"v1"', "Tue, 01 Dec 2026 09:00:00 GMT")

    # what people are shown
    shown = lookups.status(ledger, now=NOW + timedelta(hours=1))
    (project,) = shown.projects.to_pylist()
    assert {name: project[name] for name in ("edges", "live", "lost", "unknown", "awaiting_confirmation", "failing", "never_checked", "overdue")} == {
        "edges": 3, "live": 1, "lost": 0, "unknown": 2, "awaiting_confirmation": 1, "failing": 1, "never_checked": 0, "overdue": 0,
    }  # fmt: skip
    first = shown.windows.to_pylist()[-1]
    assert (
        first["window_start"],
        first["sources"],
        first["fetched"],
        first["gone"],
        first["failed"],
        first["wire_bytes"],
    ) == (WINDOW.start, 3, 1, 1, 1, 1000)
    assert {(row["queue"], row["status"], row["rows"]) for row in shown.queues.to_pylist()} == {
        ("alert_deliveries", "pending", 1),
        ("transactional_outbox", "pending", 1),
    }
    (story,) = lookups.explain(ledger, source=due[0]["source_url"], target=expected[0]["target_url"])
    assert story.edge["state"] == "live"
    assert story.edge["project"] == scene.project.name
    assert [(row["outcome"], row["snapshot_status"]) for row in story.jobs.to_pylist()] == [
        ("not_modified", "available"),
        ("fetched", "available"),
    ]
    assert [row["manifest_id"] for row in story.parses.to_pylist()] == [page["manifest_id"]]
    assert [(row["evidence"], row["event"], row["manifest_id"]) for row in story.observations.to_pylist()] == [
        ("found", "new", page["manifest_id"])
    ]
    assert [
        (row["event_type"], row["rule"], row["channel"], row["delivery_status"]) for row in story.alerts.to_pylist()
    ] == [("backlink.new", "news", "slack", "pending")]
    assert len(story.target_jobs) == 1
    edges_shown = lookups.edge_list(ledger, scene.project.id).to_pylist()
    assert [row["state"] for row in edges_shown] == ["live", "unknown", "unknown"]
    assert (
        lookups.edge_list(ledger, scene.project.id, backlink_ids=scene.backlink_ids[1:2]).to_pylist()
        == edges_shown[1:2]
    )
    assert (
        lookups.edge_list(ledger, scene.project.id, after_id=scene.backlink_ids[0], limit=1).to_pylist()
        == edges_shown[1:2]
    )

    # and all of it can be deleted
    assert projects.delete_project(ledger, scene.project.id, actor="test", now=NOW)
    assert not projects.delete_project(ledger, scene.project.id, actor="test", now=NOW)
    for table in (
        "projects",
        "project_targets",
        "backlinks",
        "backlink_observations",
        "crawl_runs",
        "crawl_pages",
        "alert_rules",
        "alert_events",
        "alert_deliveries",
        "backlink_discoveries",
    ):
        assert one(ledger, f"SELECT COUNT(*) FROM {table}") == (0,), table
    assert one(ledger, "SELECT action, actor FROM audit_log") == ("project.deleted", "test")
    assert one(ledger, "SELECT COUNT(*) FROM page_fetch_jobs WHERE outcome IS NOT NULL")[0] > 0, "shared rows stay"


def test_change_interval_is_an_exponential_average(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=1)
    window = WINDOW
    bodies = [b"a" * 32, b"a" * 32, b"b" * 32, b"c" * 32]
    for number, body in enumerate(bodies):
        at = window.start + timedelta(minutes=1)
        with ledger.transaction() as tx:
            tx.execute(
                "UPDATE backlinks SET next_check_at = %(at)s WHERE id = %(id)s", {"at": at, "id": scene.backlink_ids[0]}
            )
        claim = claims.claim_due(ledger, window=window, shard=0, shards=1, now=at, owner="test")
        due = next(row for row in claim.due.to_pylist() if row["source_url_id"] == scene.source_ids[0])
        fetches.commit_fetches(
            ledger, data.fetches([data.fetch_row(due, at, content_hash=body, object_key=f"snapshots/{body.hex()}.zst")])
        )
        window = data.next_window(window, by=1 if number < 2 else 3)
    # first body starts the clock; the change after 2 h is the average; the next after 3 h: 0.3 * 3 h + 0.7 * 2 h
    row = one(
        ledger,
        "SELECT changes_seen, change_interval_ema_s FROM url_revalidation_state WHERE source_url_id = %(s)s",
        s=scene.source_ids[0],
    )
    assert row == (2, 0.3 * 3 * 3600 + 0.7 * 2 * 3600)
