"""The rules of the fold, each history worked out by hand. One edge per case; all are folded in one run.

A step is (window, minute, evidence) or the same with changed columns. Windows are hours from 10:00.
What must follow is (state, event, misses) after each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.clickhouse import T0, fresh_database, observation, own_database
from tests.service.dbt.folding import Warehouse, short
from warehouse.clickhouse.config import ClickHouseSettings

pytestmark = pytest.mark.service

U, L, X = "unknown", "live", "lost"
INCOMPLETE: dict[str, Any] = {"evidence_complete": False, "evidence_reason": "parse_truncated"}

CASES: dict[str, tuple[list[tuple[Any, ...]], list[tuple[str, str, int]]]] = {
    # found the first time: never live before, so it is new; after that it just stays
    "new, then stays": (
        [(0, 5, "found"), (1, 5, "found"), (2, 5, "found")],
        [(L, "new", 0), (L, "none", 0), (L, "none", 0)],
    ),
    # the first miss (11:05) opens a confirmation; the second (12:05) is 60 min later: lost; found at 13:05: recovered
    "lost on the second miss, then recovered": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "missing"), (3, 5, "found")],
        [(L, "new", 0), (L, "none", 1), (X, "lost", 2), (L, "recovered", 0)],
    ),
    # blocked, failed: neither a miss nor a reset; the misses at 11:05 and 13:05 still make two
    "no evidence in between changes nothing": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "none"), (3, 5, "missing"), (4, 5, "none")],
        [(L, "new", 0), (L, "none", 1), (L, "none", 1), (X, "lost", 2), (X, "none", 2)],
    ),
    # a found in between resets: the misses at 11:05 and 13:05 are two first misses
    "a found between two misses resets": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "found"), (3, 5, "missing")],
        [(L, "new", 0), (L, "none", 1), (L, "none", 0), (L, "none", 1)],
    ),
    # 11:50 and 12:10 are 20 min apart: two misses, still live; 12:19:59 (window 3, run early) is 29:59 after the first:
    # still live; 13:00 (window 4) is 70 min after the first: lost, with four misses
    "a second miss within 30 minutes does not confirm": (
        [(0, 5, "found"), (1, 50, "missing"), (2, 10, "missing"), (3, 19.98 - 60, "missing"), (4, -60, "missing")],
        [(L, "new", 0), (L, "none", 1), (L, "none", 2), (L, "none", 3), (X, "lost", 4)],
    ),
    # exactly 30 minutes is "at least 30 minutes"
    "a second miss after exactly 30 minutes confirms": (
        [(0, 5, "found"), (1, 40, "missing"), (2, 10, "missing")],
        [(L, "new", 0), (L, "none", 1), (X, "lost", 2)],
    ),
    # missing on a truncated page proves nothing, however often
    "incomplete misses never count": (
        [(0, 5, "found"), (1, 5, "missing", INCOMPLETE), (2, 5, "missing", INCOMPLETE), (3, 5, "missing", INCOMPLETE)],
        [(L, "new", 0), (L, "none", 0), (L, "none", 0), (L, "none", 0)],
    ),
    # an imported edge that never was there becomes lost and nobody is told; the first found is NEW, not RECOVERED
    "a candidate that was never live": (
        [(0, 5, "missing"), (1, 5, "missing"), (2, 5, "missing"), (3, 5, "found"), (4, 5, "missing"),
         (5, 5, "missing")],
        [(U, "none", 1), (X, "none", 2), (X, "none", 3), (L, "new", 0), (L, "none", 1), (X, "lost", 2)],
    ),
    # nothing was ever learnt
    "never decided": (
        [(0, 5, "none"), (1, 5, "none")],
        [(U, "none", 0), (U, "none", 0)],
    ),
    # LOST is said once; misses go on counting while it is lost
    "stays lost quietly": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "missing"), (3, 5, "missing"), (4, 5, "none"), (5, 5, "missing")],
        [(L, "new", 0), (L, "none", 1), (X, "lost", 2), (X, "none", 3), (X, "none", 3), (X, "none", 4)],
    ),
    # each loss and each return is told
    "goes and returns twice": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "missing"), (3, 5, "found"), (4, 5, "missing"), (5, 5, "missing"),
         (6, 5, "found")],
        [(L, "new", 0), (L, "none", 1), (X, "lost", 2), (L, "recovered", 0), (L, "none", 1), (X, "lost", 2),
         (L, "recovered", 0)],
    ),
    # observed in the order 10:05, 10:50 (window 1, run early), 12:05: order is by time of observation
    "order is by time, not by window": (
        [(0, 5, "found"), (2, -70, "missing"), (1, 65, "missing")],
        [(L, "new", 0), (L, "none", 1), (X, "lost", 2)],
    ),
}  # fmt: skip

CHANGES: dict[str, tuple[list[tuple[Any, ...]], list[list[str]]]] = {
    # the first found has nothing to differ from
    "rel: nofollow comes and goes": (
        [(0, 5, "found"),
         (1, 5, "found", {"rel_nofollow": True, "follow": "nofollow_link"}),
         (2, 5, "found", {"rel_nofollow": True, "follow": "nofollow_link"}),
         (3, 5, "found")],
        [[], ["rel"], [], ["rel"]],
    ),
    # the link's own rel is the same, the page's meta robots is not: follow is part of rel
    "rel: nofollow of the whole page": (
        [(0, 5, "found"), (1, 5, "found", {"follow": "nofollow_meta"})],
        [[], ["rel"]],
    ),
    # compared with the last *found* evidence: what a miss or a failure in between says is no evidence of the link
    "anchor: across a miss and a failure": (
        [(0, 5, "found"), (1, 5, "none"), (2, 5, "missing"), (3, 5, "found"),
         (4, 5, "found", {"anchor_text": "click"})],
        [[], [], [], [], ["anchor"]],
    ),
    # recovered with another anchor and placement: both are told besides the recovery
    "anchor and placement: across a loss": (
        [(0, 5, "found"), (1, 5, "missing"), (2, 5, "missing"),
         (3, 5, "found", {"anchor_text": "click", "placement": "footer"})],
        [[], [], [], ["anchor", "placement"]],
    ),
    # a text link that becomes an image whose alt is the same text
    "anchor: text becomes image": (
        [(0, 5, "found"), (1, 5, "found", {"is_image_link": True})],
        [[], ["anchor"]],
    ),
    # a placement that could not be told is not known: content, unknown, content is none; unknown, footer is one
    "placement: unknown is no change": (
        [(0, 5, "found"), (1, 5, "found", {"placement": "unknown"}), (2, 5, "found"),
         (3, 5, "found", {"placement": "unknown"}), (4, 5, "found", {"placement": "footer"})],
        [[], [], [], [], ["placement"]],
    ),
    "redirect: of the link, then of the source page": (
        [(0, 5, "found"), (1, 5, "found", {"is_redirected": True}),
         (2, 5, "found", {"is_redirected": True, "source_is_redirected": True})],
        [[], ["redirect"], ["redirect"]],
    ),
    # not known in between (null): compared with what was known before
    "source indexability: noindex, unread, noindex, index": (
        [(0, 5, "found"), (1, 5, "found", {"source_robots_indexable": False}),
         (2, 5, "found", {"source_robots_indexable": None}), (3, 5, "found", {"source_robots_indexable": False}),
         (4, 5, "found")],
        [[], ["source_indexability"], [], [], ["source_indexability"]],
    ),
    # a canonical that points to the page itself says the same as none
    "source canonical: none, itself, another": (
        [(0, 5, "found"), (1, 5, "found", {"source_canonical_url": "https://site6.example/post"}),
         (2, 5, "found", {"source_canonical_url": "https://else.example/"}), (3, 5, "found")],
        [[], [], ["source_canonical"], ["source_canonical"]],
    ),
    # an unchecked target is no change, and does not hide one: ok, unknown, error
    "target health: ok, unchecked, error": (
        [(0, 5, "found"),
         (1, 5, "found", {"target_fetch_health": "unknown", "target_robots_indexable": None}),
         (2, 5, "found", {"target_fetch_health": "error", "target_robots_indexable": None, "target_http_status": 500}),
         (3, 5, "found")],
        [[], [], ["target_health"], ["target_health"]],
    ),
    # the first check of a target that was unchecked so far is no change either
    "target health: unchecked at first": (
        [(0, 5, "found", {"target_fetch_health": "unknown", "target_robots_indexable": None}), (1, 5, "found")],
        [[], []],
    ),
    # a target that breaks is a property change: the link is there, the edge stays live; noindex and redirect likewise
    "target: noindex, then redirected elsewhere": (
        [(0, 5, "found"), (1, 5, "found", {"target_robots_indexable": False}),
         (2, 5, "found", {"target_robots_indexable": False, "target_is_redirected": True,
                          "target_final_url": "https://customer.example/home"}),
         (3, 5, "found", {"target_robots_indexable": False, "target_is_redirected": True,
                          "target_final_url": "https://customer.example/start"})],
        [[], ["target_indexability"], ["target_redirect"], ["target_redirect"]],
    ),
}  # fmt: skip


def _rows(number: int, steps: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Observations of a case; a canonical that names the page itself must name this case's page."""
    rows = []
    for at, minute, evidence, *changes in steps:
        changed = dict(changes[0]) if changes else {}
        if changed.get("source_canonical_url", "").endswith("/post"):
            changed["source_canonical_url"] = f"https://site{number}.example/post"
        rows.append(observation(number, at, evidence, minute=minute, **changed))
    return rows


EDGES = {name: number for number, name in enumerate([*CASES, *CHANGES], 1)}


@pytest.fixture(scope="module")
def history(clickhouse_server: ClickHouseSettings, dbt_work: Path) -> Iterator[dict[int, list[dict[str, Any]]]]:
    settings = own_database(clickhouse_server)
    with fresh_database(settings) as client:
        warehouse = Warehouse(client, settings, dbt_work)
        warehouse.load(*(row for name, (steps, _) in {**CASES, **CHANGES}.items() for row in _rows(EDGES[name], steps)))
        warehouse.fold(0, select=None, command="build")  # the first run folds all there is, and every dbt test passes
        yield warehouse.history()


@pytest.mark.parametrize("name", CASES)
def test_state_and_event_after_each_observation(history: dict[int, list[dict[str, Any]]], name: str) -> None:
    assert short(history[EDGES[name]]) == CASES[name][1]


@pytest.mark.parametrize("name", CHANGES)
def test_property_changes_against_the_last_found_evidence(history: dict[int, list[dict[str, Any]]], name: str) -> None:
    rows = history[EDGES[name]]
    assert [row["changes"] for row in rows] == CHANGES[name][1]
    assert all(row["event"] in ("none", "new", "lost", "recovered") for row in rows)


def test_times_that_a_person_reads(history: dict[int, list[dict[str, Any]]]) -> None:
    # new at 10:05, missed at 11:05 and 12:05 (lost), back at 13:05
    new, missed, lost, back = history[EDGES["lost on the second miss, then recovered"]]
    at = [T0 + timedelta(hours=hour, minutes=5) for hour in range(4)]
    assert [new["first_miss_at"], missed["first_miss_at"], lost["first_miss_at"]] == [None, at[1], at[1]]
    assert [missed["lost_at"], lost["lost_at"], back["lost_at"], back["first_miss_at"]] == [None, at[2], None, None]
    assert [row["last_live_at"] for row in (new, missed, lost, back)] == [at[0], at[0], at[0], at[3]]
    assert {row["first_live_at"] for row in (new, missed, lost, back)} == {at[0]}


def test_never_live_has_no_live_times(history: dict[int, list[dict[str, Any]]]) -> None:
    first, lost, still, new, *_ = history[EDGES["a candidate that was never live"]]
    for row in (first, lost, still):
        assert (row["ever_live"], row["first_live_at"], row["last_live_at"]) == (False, None, None)
    assert lost["lost_at"] == still["lost_at"] == T0 + timedelta(hours=1, minutes=5)
    assert new["ever_live"]
    assert new["first_live_at"] == T0 + timedelta(hours=3, minutes=5)
