"""Facts of an edge that was merged into another one: they become part of its history, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.fixtures.clickhouse import PROJECT, fresh_database, observation, own_database, window
from tests.service.dbt.folding import Warehouse
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.clickhouse.merges import Moved, move_facts

pytestmark = pytest.mark.service


@pytest.fixture
def warehouse(clickhouse_server: ClickHouseSettings, dbt_work: Path) -> Iterator[Warehouse]:
    settings = own_database(clickhouse_server)
    with fresh_database(settings) as client:
        yield Warehouse(client, settings, dbt_work)


def test_the_survivor_has_both_histories(warehouse: Warehouse) -> None:
    """Edge 1 was found at 10:05 and 13:05, edge 2 missed at 11:05 and 12:05. As one: new, a miss, lost, recovered."""
    warehouse.load(observation(1, 0), observation(1, 3), observation(2, 1, "missing"), observation(2, 2, "missing"))
    warehouse.load(observation(3, 1))
    warehouse.fold((window(0).start, window(3).end), "+tag:fold")  # type: ignore[arg-type]
    assert {edge: [row["event"] for row in rows] for edge, rows in warehouse.history().items()} == {
        1: ["new", "none"], 2: ["none", "none"], 3: ["new"],
    }  # fmt: skip
    merges = pa.table(
        {
            "loser_id": pa.array([2], pa.uint64()),
            "survivor_id": pa.array([1], pa.uint64()),
            "project_id": pa.array([PROJECT], pa.binary(16)),
        }
    )
    moved = move_facts(warehouse.client, merges)
    assert moved == Moved(2, window(1).start, window(2).start)
    warehouse.fold((window(1).start, window(2).end))  # type: ignore[arg-type]
    merged = [(row["state"], row["event"], row["misses"]) for row in warehouse.history()[1]]
    assert merged == [("live", "new", 0), ("live", "none", 1), ("lost", "lost", 2), ("live", "recovered", 0)]
    assert sorted(warehouse.history()) == [1, 3]
    assert warehouse.query("SELECT backlink_id, toString(state) FROM edge_current FINAL ORDER BY 1") == [
        (1, "live"),
        (3, "live"),
    ]
    assert move_facts(warehouse.client, merges) == Moved()

    # A window of the past is read anew, and its files still name the old edge: it goes over again, and nothing is twice.
    warehouse.load(observation(2, 2, "none"))
    assert move_facts(warehouse.client, merges) == Moved(1, window(2).start, window(2).start)
    warehouse.fold((window(2).start, window(2).end))  # type: ignore[arg-type]
    merged = [(row["state"], row["event"], row["misses"]) for row in warehouse.history()[1]]
    assert merged == [("live", "new", 0), ("live", "none", 1), ("live", "none", 1), ("live", "none", 0)]
