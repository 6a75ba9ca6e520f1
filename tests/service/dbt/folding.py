"""Running the fold from tests, and reading what it says. Not a test module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickhouse_connect.driver.client import Client

from tests.fixtures.clickhouse import observations, window
from transforms.windows import Window
from warehouse.clickhouse import load_observations, run_dbt
from warehouse.clickhouse.config import ClickHouseSettings

HISTORY = """
    SELECT backlink_id, observation_id, observed_at, toString(state) AS state, toString(event) AS event, changes,
           misses, first_miss_at, ever_live, first_live_at, last_live_at, lost_at, state_version
    FROM edge_history FINAL ORDER BY backlink_id, observed_at, observation_id
"""


@dataclass
class Warehouse:
    """A database, and dbt over it."""

    client: Client
    settings: ClickHouseSettings
    work: Path

    def load(self, *rows: dict[str, Any]) -> None:
        load_observations(self.client, observations(*rows))

    def fold(self, at: Window | int, select: str | None = "tag:fold", **options: Any) -> None:
        run_dbt(self.settings, window(at) if isinstance(at, int) else at, select, work=self.work, **options)

    def history(self) -> dict[int, list[dict[str, Any]]]:
        """The state after each observation, by edge, in time order."""
        table = self.client.query_arrow(HISTORY, use_strings=True)
        edges: dict[int, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            edges.setdefault(row["backlink_id"], []).append(row)
        return edges

    def raw_rows(self, table: str) -> int:
        return int(self.client.query(f"SELECT count() FROM {table}").result_rows[0][0])

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.client.query(sql).result_rows]


def short(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """(state, event, misses) of each row."""
    return [(row["state"], row["event"], row["misses"]) for row in rows]
