"""The crawler, the parser and the matcher over the scripted web, in memory: what they report of every edge in every
window is what is true. States and events are folded in ClickHouse and judged by the demo itself (`tests/e2e`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from assets.tables import fetch_rows
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchTask, Prior
from crawl.runner import run_batch
from orchestration.demo.scenario import WINDOWS, Edge, load_scenario, window_start
from orchestration.demo.web import ScriptedWeb, asked_again
from transforms.clock import FixedClock
from transforms.collapse import PRIOR_COLUMNS
from transforms.evidence import page_looks, source_evidence
from transforms.html import manifest_id, manifest_tables, parse_page
from transforms.matching import MatchResult, match_window
from transforms.reasons import READABLE, Reason
from transforms.schemas import DUE_SOURCES, EXPECTED_EDGES, TARGET_HEALTH, TARGET_RULES
from transforms.urls import identify

pytestmark = pytest.mark.service
SCENARIO = load_scenario()


def key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


REDIRECTED = {"link_found_via_redirect", "redirect_unchecked"}
"""Judged end to end: redirectors are asked by a stage of their own."""
SOURCES = {url: number for number, url in enumerate(sorted({edge.source for edge in SCENARIO.edges}), 1)}
TARGETS = {url: number for number, url in enumerate(sorted(SCENARIO.targets), 1)}
EDGES = {edge.key: number for number, edge in enumerate(SCENARIO.edges, 1)}
BY_NUMBER = {EDGES[edge.key]: edge for edge in SCENARIO.edges}
PROJECTS = {key(name)[:16]: name for name in SCENARIO.projects}


def _expected(edges: list[Edge]) -> pa.Table:
    rows = []
    for edge in edges:
        project, source = key(edge.project)[:16], identify(edge.source)
        rows.append({
            "tenant_id": key("tenant")[:16], "project_id": project, "backlink_id": EDGES[edge.key],
            "crawl_run_id": project, "crawl_page_id": SOURCES[edge.source], "source_url_id": SOURCES[edge.source],
            "source_url": edge.source, "source_url_hash": key(edge.source), "source_registrable_domain": source.site,
            "target_url_id": TARGETS[edge.target], "target_url": edge.target, "target_url_hash": key(edge.target),
            "any_target": False, "was_live": False,
        })  # fmt: skip
    return EXPECTED_EDGES.table(sorted(rows, key=lambda row: (row["source_url_id"], row["backlink_id"])))


def _rules() -> pa.Table:
    rows = []
    for project in SCENARIO.projects.values():
        for rule in project.targets:
            whole = identify(rule.value if "://" in rule.value else f"http://{rule.value}/")
            rows.append({
                "tenant_id": key("tenant")[:16], "project_id": key(project.key)[:16],
                "project_target_id": key(rule.value)[:16], "scope": rule.scope, "host": whole.host,
                "registrable_domain": whole.site, "url": rule.value if "://" in rule.value else None,
                "include_subdomains": rule.include_subdomains, "is_strict": False, "rule_version": 1,
            })  # fmt: skip
    return TARGET_RULES.table(rows)


@dataclass
class Memory:
    """What the stores would remember between windows."""

    origins: MemoryOrigins = field(default_factory=MemoryOrigins)
    snapshots: MemorySnapshots = field(default_factory=MemorySnapshots)
    bodies: dict[str, bytes] = field(default_factory=dict)
    priors: dict[int, Prior] = field(default_factory=dict)
    looks: dict[int, dict[str, Any]] = field(default_factory=dict)
    known: list[Edge] = field(default_factory=lambda: [edge for edge in SCENARIO.edges if not edge.discovered])


def observe(web: ScriptedWeb, memory: Memory, window: int) -> MatchResult:
    """One window: crawl every source, parse what can be read, match."""
    web.set_window(window)
    sink = MemorySink()
    run_batch(
        [FetchTask(key=number, url=url, prior=memory.priors.get(number)) for url, number in SOURCES.items()],
        settings=web.crawl_settings(window),
        sink=sink,
        snapshots=memory.snapshots,
        origins=memory.origins,
        clock=FixedClock(window_start(window)),
    )
    due = DUE_SOURCES.table([
        {
            "source_url_id": number, "source_url": url, "source_url_hash": key(url), "registrable_domain": "",
            "fetch_job_id": number, "priority": 0, "due_at": window_start(window), "is_confirmation": False, "edges": 1,
            **memory.looks.get(number, {}),
        }
        for url, number in SOURCES.items()
    ])  # fmt: skip
    pages, ids, manifests, hashes = [], [], [], []
    for result in sink.results:
        if result.body is not None and result.content_hash is not None:
            result.object_key = result.content_hash.hex()
            memory.snapshots.keys.add(result.object_key)
            memory.bodies[result.object_key] = result.body
        if result.reason not in READABLE or result.object_key is None or result.content_hash is None:
            continue
        assert result.final_url is not None
        said = {
            "content_type": result.content_type, "x_robots_tag": result.x_robots_tag, "link_header": result.link_header,
            "refresh_header": result.refresh_header,
        }  # fmt: skip
        page = parse_page(memory.bodies[result.object_key], document_url=result.final_url, **said)
        pages.append(page)
        ids.append(result.task.key)
        manifests.append(manifest_id(result.content_hash, result.final_url, **said))
        hashes.append(result.content_hash)
        if result.reason in (Reason.OK, Reason.NOT_MODIFIED):  # a cut body is not one to compare with
            memory.priors[result.task.key] = Prior(
                result.content_hash, result.object_key, result.final_url, result.content_type, result.etag,
                result.last_modified,
            )  # fmt: skip
        else:
            memory.priors.pop(result.task.key, None)
    page_table, link_table = manifest_tables(pages, ids, manifests, hashes)
    fetches = fetch_rows(sink.results)
    prior = pl.DataFrame(pl.from_arrow(due)).select("source_url_id", *PRIOR_COLUMNS)
    for look in page_looks(source_evidence(fetches, page_table, prior)).drop("fetch_job_id").to_dicts():
        memory.looks[look.pop("source_url_id")] = look
    return match_window(
        window_start=window_start(window),
        fetches=fetches,
        pages=page_table,
        links=link_table,
        expected=_expected(memory.known),
        rules=_rules(),
        target_health=TARGET_HEALTH.empty(),
        due=due,
    )


@pytest.fixture(scope="module")
def observed(scripted_web_server: ScriptedWeb) -> list[MatchResult]:
    scripted_web_server.clear_requests()
    memory, results = Memory(), []
    for window in range(WINDOWS):
        result = observe(scripted_web_server, memory, window)
        results.append(result)
        for row in result.discovered.to_pylist():
            found = (PROJECTS[row["project_id"]], row["source_url"], row["target_url"])
            memory.known.extend(edge for edge in SCENARIO.edges if edge.key == found)
    return results


def test_evidence_is_true(observed: list[MatchResult]) -> None:
    wrong = []
    for window, result in enumerate(observed):
        for row in result.observations.to_pylist():
            edge = BY_NUMBER[row["backlink_id"]]
            truth = edge.truth[window]
            if truth.reasons & REDIRECTED:
                continue
            where = f"window {window} {edge.source} -> {edge.target}"
            if row["evidence"] != truth.evidence or row["evidence_reason"] not in truth.reasons:
                wrong.append(
                    f"{where}: {truth.evidence} {set(truth.reasons)}, was {row['evidence']} {row['evidence_reason']}"
                )
            for name, value in truth.properties.items():
                if not name.startswith("target_") and row[name] != value:
                    wrong.append(f"{where}: {name} {value!r}, was {row[name]!r}")
    assert wrong == []


def test_nothing_is_ever_missing_that_is_not_missing(observed: list[MatchResult]) -> None:
    """The promise, alone: whatever else may be wrong."""
    false_misses = [
        (window, edge.source, row["evidence_reason"])
        for window, result in enumerate(observed)
        for row in result.observations.to_pylist()
        if row["evidence"] == "missing"
        and (edge := BY_NUMBER[row["backlink_id"]]).truth[window].evidence != "missing"
        and not edge.truth[window].reasons & REDIRECTED
    ]
    assert false_misses == []


def test_discoveries_are_true(observed: list[MatchResult]) -> None:
    found: dict[tuple[str, str, str], int] = {}
    for window, result in enumerate(observed):
        for row in result.discovered.to_pylist():
            found[PROJECTS[row["project_id"]], row["source_url"], row["target_url"]] = window
    assert found == {edge.key: min(edge.truth) for edge in SCENARIO.edges if edge.discovered}


def test_every_source_is_asked_once_a_window(observed: list[MatchResult], scripted_web_server: ScriptedWeb) -> None:
    log: list[dict[str, Any]] = scripted_web_server.requests()
    assert asked_again(log) == []
    assert {entry["user_agent"].partition("/")[0] for entry in log} == {"BacklinksMonitor"}
    assert sum(entry["status"] == 304 for entry in log) > 400
