"""Edges that became one, in the facts. Here: giving a merged edge's rows to the edge that it became. Not here: which edges
are merged (`warehouse.ledger.identity_migration`), the fold (dbt).

An observation keeps its id, its time and what was seen, URLs as they were spelled then; only `backlink_id` changes, which is
in the sorting key: so rows are copied under the new id and then deleted under the old one. A kill in between leaves both,
and running again replaces the copies by equal ones. The survivor's history must be folded again from the first of these
rows on: the caller runs dbt over the windows that come back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources

import pyarrow as pa
from clickhouse_connect.driver.client import Client

from transforms.errors import PermanentError
from warehouse.clickhouse.client import explained, settings_of

BATCH = 200
"""Merged edges a statement: their ids travel in it."""

_NOT_COPIED = """
SELECT count()
FROM (SELECT observation_id FROM backlink_observations_fact WHERE backlink_id IN {losers:Array(UInt64)})
WHERE observation_id NOT IN (
    SELECT observation_id FROM backlink_observations_fact WHERE backlink_id IN {survivors:Array(UInt64)}
)
"""

_FOLDED = ("edge_history", "edge_current")


@dataclass(frozen=True)
class Moved:
    """What was moved. `first` and `last`: starts of the earliest and latest window that hold moved rows."""

    rows: int = 0
    first: datetime | None = None
    last: datetime | None = None


def move_facts(client: Client, merges: pa.Table) -> Moved:
    """Give the facts of merged edges (`loser_id`, `survivor_id`, `project_id`) to their survivors. Safe to repeat."""
    total = Moved()
    with explained(settings_of(client), "move facts of merged edges"):
        tables = {
            row[0]
            for row in client.query("SELECT name FROM system.tables WHERE database = currentDatabase()").result_rows
        }
        for start in range(0, merges.num_rows, BATCH):
            total = _add(total, _move(client, merges.slice(start, BATCH), [name for name in _FOLDED if name in tables]))
    return total


def _move(client: Client, merges: pa.Table, folded: list[str]) -> Moved:
    losers = merges["loser_id"].to_pylist()
    mapping = {"losers": losers, "survivors": merges["survivor_id"].to_pylist()}
    where = "backlink_id IN {losers:Array(UInt64)}"
    rows, first, last = client.query(
        f"SELECT count(), min(window_start), max(window_start) FROM backlink_observations_fact FINAL WHERE {where}",  # noqa: S608
        parameters=mapping,
    ).result_rows[0]
    if rows:
        client.command(
            resources.files("warehouse.clickhouse").joinpath("move_facts.sql").read_text(),
            parameters={**mapping, "version": time.time_ns() // 1000},
            settings={"insert_deduplicate": "0"},
        )
        missing = client.query(_NOT_COPIED, parameters=mapping).result_rows[0][0]
        if missing:  # never delete what has no copy
            raise PermanentError(
                f"{missing} observations of merged edges were not copied: nothing was deleted; report this"
            )
    for table in ("backlink_observations_fact", *folded):
        client.command(f"DELETE FROM {table} WHERE {where}", parameters=mapping)  # noqa: S608
    return Moved(rows, first.replace(tzinfo=UTC), last.replace(tzinfo=UTC)) if rows else Moved()


def _add(a: Moved, b: Moved) -> Moved:
    firsts = [each.first for each in (a, b) if each.first is not None]
    lasts = [each.last for each in (a, b) if each.last is not None]
    return Moved(a.rows + b.rows, min(firsts, default=None), max(lasts, default=None))
