"""Facts into ClickHouse. Here: the three loaders and how a row gets its version. Not here: what the rows mean.

Every loader can be run again, after success, after failure or after a kill in the middle, with the same result: rows
have identities, and a repeated row is either not written or replaces itself. So block deduplication is switched off:
it could only lose a rerun's rows (a block that equals one written earlier would be dropped).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from clickhouse_connect.driver.client import Client

from transforms.schemas import LINK_OBSERVATIONS, PAGE_FETCHES, TARGET_HEALTH, Dataset
from transforms.windows import Window
from warehouse.clickhouse.arrow import checked
from warehouse.clickhouse.client import explained, settings_of
from warehouse.clickhouse.schema import FACTS

INSERT_ROWS = 100_000
"""Rows per INSERT: each is written whole or not at all, and bounds the memory of client and server."""

_NO_BLOCK_DEDUPLICATION = {"insert_deduplicate": "0"}


@dataclass(frozen=True)
class LoadCounts:
    """What a load did: `rows` came in; of these `new` and `corrected` were written, `unchanged` were there already."""

    rows: int
    new: int
    corrected: int
    unchanged: int

    @property
    def written(self) -> int:
        return self.new + self.corrected


def load_observations(client: Client, table: pa.Table) -> LoadCounts:
    """Load evidence rows (`LINK_OBSERVATIONS`; any windows). The incoming `ingest_version` is ignored.

    A row whose `evidence_hash` equals what is stored keeps its version and is not written. Every other row gets
    `max(now in microseconds, stored version + 1)`, so a version only ever rises, whatever the clock does.
    Raises `PermanentError` for rows that do not fit the schema.
    """
    table = checked(LINK_OBSERVATIONS, table)
    if not table.num_rows:
        return LoadCounts(0, 0, 0, 0)
    with explained(settings_of(client), "load observations"):
        stored = _stored_versions(client, table)
        incoming = pl.DataFrame(
            {
                "observation_id": pl.from_arrow(table["observation_id"]),
                "evidence_hash": pl.from_arrow(table["evidence_hash"]),
            }
        )
        # one observation twice in a load: the last one counts, as in a table that replaces
        incoming = incoming.with_row_index("row").with_columns(
            last=pl.col("row") == pl.col("row").max().over("observation_id")
        )
        compared = incoming.join(stored, on="observation_id", how="left", maintain_order="left")
        now = time.time_ns() // 1000
        compared = compared.with_columns(
            is_new=pl.col("stored_version").is_null(),
            is_equal=pl.col("evidence_hash").eq(pl.col("stored_hash")).fill_null(value=False),
            version=pl.max_horizontal(pl.lit(now, pl.UInt64), pl.col("stored_version").fill_null(0) + 1),
        )
        wanted = compared["last"] & ~compared["is_equal"]
        versions = compared["version"].to_arrow().cast(pa.uint64())
        at = table.schema.get_field_index("ingest_version")
        table = table.set_column(at, LINK_OBSERVATIONS.schema.field("ingest_version"), versions)
        _insert(client, LINK_OBSERVATIONS, table.filter(wanted.to_arrow()))
    new = int((wanted & compared["is_new"]).sum())
    corrected = int(wanted.sum()) - new
    return LoadCounts(table.num_rows, new, corrected, table.num_rows - new - corrected)


def load_fetches(client: Client, table: pa.Table, window: Window) -> LoadCounts:
    """Load fetch outcomes (`PAGE_FETCHES`) of a window, all shards or some; a row that comes again replaces."""
    return _replace(client, PAGE_FETCHES, table, window, "source_url_id")


def load_target_health(client: Client, table: pa.Table, window: Window) -> LoadCounts:
    """Load target checks (`TARGET_HEALTH`) of a window, all shards or some; a row that comes again replaces."""
    return _replace(client, TARGET_HEALTH, table, window, "target_url_id")


def _replace(client: Client, dataset: Dataset, table: pa.Table, window: Window, key: str) -> LoadCounts:
    table = checked(dataset, table)
    if not table.num_rows:
        return LoadCounts(0, 0, 0, 0)
    fact = FACTS[dataset.name]
    with explained(settings_of(client), f"load {dataset.name}"):
        stored = client.query_arrow(
            f"SELECT {key}, max(ingest_version) AS stored_version FROM {fact.table} "  # noqa: S608  # names of ours
            "WHERE window_start = {start:DateTime64(6, 'UTC')} GROUP BY ALL",
            parameters={"start": window.start},
        )
        known = pc.is_in(table[key], value_set=stored[key].combine_chunks())
        highest = pc.max(stored["stored_version"]).as_py() or 0
        version = max(time.time_ns() // 1000, highest + 1)
        rows = table.num_rows
        table = table.append_column(
            fact.added[0], pa.array([window.start] * rows, fact.added[0].type)
        ).append_column(fact.added[1], pa.array([version] * rows, fact.added[1].type))  # fmt: skip
        _insert(client, dataset, table)
    replaced = pc.sum(known).as_py() or 0
    return LoadCounts(rows, rows - replaced, replaced, 0)


def _stored_versions(client: Client, table: pa.Table) -> pl.DataFrame:
    span, sources = (pc.min_max(table[name]).as_py() for name in ("window_start", "source_url_id"))
    stored = client.query_arrow(
        "SELECT observation_id, argMax(evidence_hash, ingest_version) AS stored_hash, "
        "max(ingest_version) AS stored_version "
        "FROM backlink_observations_fact "
        "WHERE window_start BETWEEN {first:DateTime64(6, 'UTC')} AND {last:DateTime64(6, 'UTC')} "
        "AND source_url_id BETWEEN {low:UInt64} AND {high:UInt64} "  # a batch is a range of sources
        "GROUP BY observation_id",
        parameters={"first": span["min"], "last": span["max"], "low": sources["min"], "high": sources["max"]},
    )
    return pl.DataFrame(
        {
            "observation_id": pl.from_arrow(stored["observation_id"].cast(pa.uint64())),
            "stored_hash": pl.from_arrow(stored["stored_hash"]),
            "stored_version": pl.from_arrow(stored["stored_version"]),
        },
        schema={"observation_id": pl.UInt64, "stored_hash": pl.Binary, "stored_version": pl.UInt64},
    )


def _insert(client: Client, dataset: Dataset, table: pa.Table) -> None:
    fact = FACTS[dataset.name]
    for offset in range(0, table.num_rows, INSERT_ROWS):
        client.insert_arrow(fact.table, table.slice(offset, INSERT_ROWS), settings=_NO_BLOCK_DEDUPLICATION)
