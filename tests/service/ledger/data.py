"""Rows that ledger tests start from: projects with edges, and results of the stages. Here: builders. Not here: tests."""

# ruff: noqa: E501
from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS, OCCURRENCES, PAGE_FETCHES, PAGE_MANIFESTS
from transforms.urls import identify_many
from transforms.windows import Window
from warehouse.ledger import Ledger, edges, keys, projects
from warehouse.ledger.tables import ALERT_DELIVERIES, ALERT_EVENTS, EDGES, SCHEDULE
from warehouse.ledger.writeback import WritebackBatch

NOW = datetime(2026, 12, 1, 10, 5, tzinfo=UTC)
WINDOW = Window.containing(NOW)


def next_window(window: Window = WINDOW, by: int = 1) -> Window:
    return Window(window.start + by * window.length, window.length)


@dataclass
class Scene:
    """A project with edges from `sources` pages to one target each."""

    ledger: Ledger
    tenant: bytes
    project: projects.Project
    target_rule: bytes
    source_ids: list[int] = field(default_factory=list)
    target_ids: list[int] = field(default_factory=list)
    backlink_ids: list[int] = field(default_factory=list)


def url_ids(ledger: Ledger, urls: list[str]) -> list[int]:
    return edges.register_urls(ledger, edges.urls_of(identify_many(urls)))["url_id"].to_pylist()


def scene(
    ledger: Ledger,
    *,
    sources: int = 3,
    tenant: str | None = None,
    due_now: bool = True,
    host: str | None = None,
    now: datetime = NOW,
) -> Scene:
    """A project of its own tenant with `sources` edges, due at once, on hosts that no other scene uses (or on `host`)."""
    tag = secrets.token_hex(4)
    owner = keys.tenant_id(tenant or tag)
    project = projects.ensure_project(ledger, tenant_id=owner, name=f"project {tag}", now=now)
    (rule,) = projects.add_targets(
        ledger, project.id, [projects.TargetSpec("domain", f"https://target-{tag}.com/")], now=now
    )
    made = Scene(ledger, owner, project, rule)
    made.source_ids = sorted(
        url_ids(ledger, [f"https://{host or f'blog{n}-{tag}.org'}/page/{n}" for n in range(sources)])
    )
    made.target_ids = sorted(url_ids(ledger, [f"https://target-{tag}.com/{n}" for n in range(sources)]))
    made.backlink_ids = register(
        made, list(zip(made.source_ids, made.target_ids, strict=True)), due_now=due_now, now=now
    )
    return made


def register(of: Scene, pairs: list[tuple[int, int]], *, due_now: bool = True, now: datetime = NOW) -> list[int]:
    table = EDGES.table(
        [{"project_id": of.project.id, "source_url_id": s, "target_url_id": t, "any_target": False} for s, t in pairs]
    )
    return edges.register_edges(of.ledger, table, source="manual", now=now, due_now=due_now)["backlink_id"].to_pylist()


def fetch_row(due: dict[str, Any], at: datetime = NOW, **changes: Any) -> dict[str, Any]:
    """A `PAGE_FETCHES` row: a full body unless told otherwise. `due` is a `DUE_SOURCES` row."""
    body = hashlib.sha256(f"body of {due['source_url_id']}".encode()).digest()
    row = {
        "source_url_id": due["source_url_id"], "source_url": due["source_url"], "registrable_domain": due["registrable_domain"],
        "fetch_job_id": due["fetch_job_id"], "outcome": "fetched", "reason": "ok", "http_status": 200,
        "final_url": due["source_url"], "is_redirected": False, "hops": [], "fetched_at": at, "elapsed_ms": 20,
        "validation_method": "full_body", "wire_bytes": 1000, "body_bytes": 4000, "content_hash": body,
        "object_key": f"snapshots/{body.hex()}.zst", "content_type": "text/html; charset=utf-8", "etag": '"v1"',
        "last_modified": "Tue, 01 Dec 2026 09:00:00 GMT", "x_robots_tag": [], "link_header": [], "robots_version": "r1",
        "warnings": [], "attempt": 1,
    }  # fmt: skip
    return {**row, **changes}


def fetches(rows: list[dict[str, Any]]) -> pa.Table:
    return PAGE_FETCHES.table(rows)


def page_row(fetch: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A `PAGE_MANIFESTS` row of a fetched page."""
    row = {
        "source_url_id": fetch["source_url_id"],
        "manifest_id": hashlib.sha256(fetch["content_hash"] + fetch["final_url"].encode()).digest()[:16],
        "content_hash": fetch["content_hash"], "document_url": fetch["final_url"], "base_url": fetch["final_url"],
        "parser_version": "1", "reason": "ok", "charset": "utf-8", "charset_method": "header", "robots_directives": [],
        "robots_indexable": True, "meta_nofollow": False, "header_nofollow": False, "canonical_html": [], "canonical_header": [],
        "is_truncated": False, "parse_quality": "clean", "text_ratio": 0.5, "text_bytes": 1000, "link_count": 12,
        "is_script_shell": False, "body_bytes": 4000,
    }  # fmt: skip
    return {**row, **changes}


def pages(rows: list[dict[str, Any]]) -> pa.Table:
    lists = {field.name: [] for field in PAGE_MANIFESTS.schema if pa.types.is_list(field.type)}
    return PAGE_MANIFESTS.table([{**lists, **row} for row in rows])


def observation_key(run: bytes, edge: dict[str, Any]) -> bytes:
    return hashlib.sha256(f"{run.hex()}:{edge['source_url_id']}:{edge['target_url_id']}".encode()).digest()


def observation_row(
    edge: dict[str, Any], at: datetime = NOW, *, evidence: str = "found", version: int = 1, **changes: Any
) -> dict[str, Any]:
    """A `LINK_OBSERVATIONS` row of an `EXPECTED_EDGES` row."""
    key = observation_key(edge["crawl_run_id"], edge)
    found = evidence == "found"
    row = {
        **{name: edge[name] for name in (
            "tenant_id", "project_id", "backlink_id", "crawl_run_id", "crawl_page_id", "source_url_id", "source_url",
            "source_url_hash", "source_registrable_domain", "target_url_id", "target_url", "target_url_hash",
        )},
        "observation_id": int.from_bytes(key[:8], "big"), "idempotency_key": key,
        "window_start": Window.containing(at).start, "observed_at": at, "evidence": evidence,
        "evidence_reason": {"found": "link_found", "missing": "link_absent", "none": "http_5xx"}[evidence],
        "evidence_complete": evidence != "none", "source_fetch_health": "error" if evidence == "none" else "ok",
        "source_http_status": 503 if evidence == "none" else 200, "source_final_url": edge["source_url"],
        "source_is_redirected": False, "source_robots_indexable": True, "target_fetch_health": "ok", "target_http_status": 200,
        "target_final_url": edge["target_url"], "target_is_redirected": False, "target_robots_indexable": True,
        "link_url": edge["target_url"] if found else None, "tolerated": [], "link_count": 1 if found else 0,
        "anchor_text": "our friends" if found else None, "rel_nofollow": False, "rel_ugc": False, "rel_sponsored": False,
        "follow": "follow" if found else None, "is_image_link": False, "is_redirected": False,
        "placement": "content" if found else None, "page_title": "A page", "html_lang": "en", "response_time_ms": 20,
        "target_rule_ids": [], "evidence_hash": hashlib.sha256(f"{evidence}{version}".encode()).digest(), "ingest_version": version,
    }  # fmt: skip
    return {**row, **changes}


def state_row(observation: dict[str, Any], state: str, *, event: str = "none", **changes: Any) -> dict[str, Any]:
    """An `EDGE_STATES` row that stands after an observation row."""
    at = observation["observed_at"]
    row = {
        **{name: observation[name] for name in ("backlink_id", "tenant_id", "project_id", "observation_id", "idempotency_key")},
        "observed_at": at, "state": state, "event": event, "changes": [], "ever_live": state != "unknown",
        "misses": {"live": 0, "lost": 2}.get(state, 0), "last_live_at": at if state == "live" else at - timedelta(days=1) if state == "lost" else None,
        "lost_at": at if state == "lost" else None, "is_latest": True, "state_version": observation["ingest_version"],
    }  # fmt: skip
    return {**row, **changes}


def alert_row(
    state: dict[str, Any], rule: bytes | None, event_type: str = "backlink.lost", **changes: Any
) -> dict[str, Any]:
    parts = (b"" if rule is None else rule).hex(), state["backlink_id"], event_type, state["observation_id"]
    row = {
        "deduplication_key": hashlib.sha256(":".join(map(str, parts)).encode()).digest(), "project_id": state["project_id"],
        "alert_rule_id": rule, "backlink_id": state["backlink_id"], "observation_id": state["observation_id"],
        "event_type": event_type, "payload": "{}", "occurred_at": state["observed_at"],
    }  # fmt: skip
    return {**row, **changes}


def batch(
    states: list[dict[str, Any]],
    observations: list[dict[str, Any]],
    *,
    schedule: list[dict[str, Any]] | None = None,
    alerts: list[dict[str, Any]] | None = None,
    deliveries: list[dict[str, Any]] | None = None,
    occurrences: list[dict[str, Any]] | None = None,
) -> WritebackBatch:
    """A write-back batch; each alert goes to one mail address unless `deliveries` are given; next check in a day."""
    if schedule is None:
        schedule = [
            {"backlink_id": s["backlink_id"], "next_check_at": s["observed_at"] + timedelta(days=1)}
            for s in states
            if s["is_latest"]
        ]
    if deliveries is None:
        deliveries = [
            {"deduplication_key": a["deduplication_key"], "channel": "email", "destination": "seo@example.com"}
            for a in alerts or []
        ]
    return WritebackBatch(
        EDGE_STATES.table(states),
        LINK_OBSERVATIONS.table(observations),
        OCCURRENCES.table(occurrences or []),
        SCHEDULE.table(schedule),
        ALERT_EVENTS.table(alerts or []),
        ALERT_DELIVERIES.table(deliveries),
    )
