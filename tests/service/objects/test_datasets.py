"""Parquet partitions over both stores: layout, sorting, schema, projection, filters, laziness, damage."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from transforms.schemas import TARGET_HEALTH, TARGET_RULES
from transforms.windows import Window
from warehouse.datasets import BadDataset, DatasetStore, partition_prefix
from warehouse.objects import ObjectStore

pytestmark = pytest.mark.service

WINDOW = Window(datetime(2026, 12, 1, 10, tzinfo=UTC))
NEXT = Window(datetime(2026, 12, 1, 11, tzinfo=UTC))


def health(*ids: int) -> pa.Table:
    return TARGET_HEALTH.table(
        [
            {
                "target_url_id": number,
                "target_url": f"https://t.example/{number}", "outcome": "fetched", "reason": "ok",
                "health": "ok", "http_status": 200, "is_redirected": False, "checked_at": WINDOW.start, "elapsed_ms": 5,
            }
            for number in ids
        ]
    )  # fmt: skip


@pytest.fixture
def datasets(object_store: ObjectStore) -> DatasetStore:
    return DatasetStore(object_store)


def ids(table: pa.Table) -> list[int]:
    return table["target_url_id"].to_pylist()


def test_layout_and_order_within_a_file(datasets: DatasetStore) -> None:
    key = datasets.write_part(TARGET_HEALTH, WINDOW, 3, health(9, 1, 5), "batch-0")
    assert key == "datasets/target_health/window=2026-12-01T10-00/shard=3/batch-0.parquet"
    assert ids(datasets.read(TARGET_HEALTH, WINDOW, 3)) == [1, 5, 9]
    key = datasets.write_part(TARGET_HEALTH, NEXT, None, health(2), "all")
    assert key == "datasets/target_health/window=2026-12-01T11-00/all.parquet"
    assert ids(datasets.read(TARGET_HEALTH, NEXT)) == [2]


def test_the_file_keeps_schema_meanings_compression_and_sorting(datasets: DatasetStore) -> None:
    key = datasets.write_part(TARGET_HEALTH, WINDOW, 0, health(1))
    file = pq.ParquetFile(datasets.store.open(key))
    assert file.schema_arrow.field("health").metadata[b"meaning"] == b"transforms.reasons.Health"
    assert file.schema_arrow.metadata[b"dataset"] == b"target_health"
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.metadata.row_group(0).sorting_columns == (pq.SortingColumn(0),)
    assert datasets.read(TARGET_HEALTH, WINDOW).schema.equals(TARGET_HEALTH.schema)


def test_parts_and_shards_add_up_and_a_part_of_the_same_name_replaces(datasets: DatasetStore) -> None:
    datasets.write_part(TARGET_HEALTH, WINDOW, 10, health(100), "a")
    datasets.write_part(TARGET_HEALTH, WINDOW, 2, health(20, 21), "a")
    datasets.write_part(TARGET_HEALTH, WINDOW, 2, health(25), "b")
    datasets.write_part(TARGET_HEALTH, WINDOW, 2, health(22), "a")
    assert ids(datasets.read(TARGET_HEALTH, WINDOW, 2)) == [22, 25]
    assert ids(datasets.read(TARGET_HEALTH, WINDOW)) == [22, 25, 100], "shards in the order of their numbers"
    assert datasets.read(TARGET_HEALTH, WINDOW, 1).num_rows == 0, "shard 1 is not shard 10"


def test_projection_and_filters(datasets: DatasetStore) -> None:
    datasets.write_part(TARGET_HEALTH, WINDOW, 0, health(*range(10)))
    table = datasets.read(
        TARGET_HEALTH, WINDOW, columns=["target_url", "target_url_id"], filters=pc.field("target_url_id") >= 8
    )
    assert table.column_names == ["target_url", "target_url_id"]
    assert ids(table) == [8, 9]
    assert datasets.read(TARGET_HEALTH, NEXT, columns=["health"]).schema.names == ["health"]


def test_scan_is_lazy_over_windows_and_empty_when_nothing_is_there(datasets: DatasetStore) -> None:
    datasets.write_part(TARGET_HEALTH, WINDOW, 0, health(1, 2))
    datasets.write_part(TARGET_HEALTH, WINDOW, 1, health(3))
    datasets.write_part(TARGET_HEALTH, NEXT, 0, health(4))
    frame = datasets.scan(TARGET_HEALTH, [WINDOW, NEXT]).filter(pl.col("target_url_id") > 1).select("target_url_id")
    assert sorted(frame.collect()["target_url_id"]) == [2, 3, 4]
    assert datasets.scan(TARGET_HEALTH, WINDOW, 1).collect().height == 1
    empty = datasets.scan(TARGET_HEALTH, Window(datetime(2027, 1, 1, tzinfo=UTC)))
    assert empty.collect_schema().names() == TARGET_HEALTH.columns
    assert empty.collect().height == 0


def test_a_polars_frame_comes_back_through_the_schema(datasets: DatasetStore) -> None:
    rules = TARGET_RULES.table(
        [
            {
                "tenant_id": b"t" * 16, "project_id": b"p" * 16, "project_target_id": b"r" * 16, "scope": "domain",
                "host": "a.example", "registrable_domain": "a.example", "include_subdomains": True, "is_strict": False,
                "rule_version": 1,
            }
        ]
    )  # fmt: skip
    frame = pl.from_arrow(rules)
    assert isinstance(frame, pl.DataFrame)
    datasets.write_part(TARGET_RULES, WINDOW, 0, frame.to_arrow())
    assert datasets.read(TARGET_RULES, WINDOW).equals(rules)


def test_rows_that_do_not_fit_are_not_written(datasets: DatasetStore) -> None:
    without = health(1).drop_columns(["health"])
    with pytest.raises(BadDataset, match="columns are missing: health"):
        datasets.write_part(TARGET_HEALTH, WINDOW, 0, without)
    null = health(1).set_column(1, "target_url", pa.array([None], pa.string()))
    with pytest.raises(
        BadDataset, match="column target_url of dataset target_health must not be null, 1 of 1 rows are"
    ):
        datasets.write_part(TARGET_HEALTH, WINDOW, 0, null)
    wide = health(1).set_column(0, "target_url_id", pa.array([-1], pa.int64()))
    with pytest.raises(BadDataset, match="do not fit dataset target_health"):
        datasets.write_part(TARGET_HEALTH, WINDOW, 0, wide)
    assert datasets.part_keys(TARGET_HEALTH, WINDOW) == []


@pytest.mark.parametrize("damage", ["torn", "no_parquet", "page"])
def test_a_damaged_file_is_named(datasets: DatasetStore, damage: str) -> None:
    key = datasets.write_part(TARGET_HEALTH, WINDOW, 0, health(*range(500)))
    good = datasets.store.get(key)
    bad = {"torn": good[: len(good) // 2], "no_parquet": b"hello", "page": good[:4] + b"\xff" * 400 + good[404:]}[
        damage
    ]
    datasets.store.put(key, bad)
    with pytest.raises(BadDataset, match=r"shard=0/part-0\.parquet cannot be read as Parquet"):
        datasets.read(TARGET_HEALTH, WINDOW)
    if damage != "page":
        with pytest.raises(BadDataset, match=r"part-0\.parquet"):
            datasets.scan(TARGET_HEALTH, WINDOW)


def test_a_file_of_another_schema_is_named_with_its_differences(datasets: DatasetStore) -> None:
    sink = io.BytesIO()
    table = health(1).drop_columns(["reason"]).append_column("extra", pa.array([1]))
    pq.write_table(table.set_column(0, "target_url_id", pa.array([1], pa.int32())), sink)
    datasets.store.put(partition_prefix(TARGET_HEALTH, WINDOW, 0) + "old.parquet", sink.getvalue())
    message = r"old\.parquet lacks reason; has the unknown column extra; has target_url_id as int32 instead of uint64"
    with pytest.raises(BadDataset, match=message):
        datasets.read(TARGET_HEALTH, WINDOW)
    with pytest.raises(BadDataset, match=message):
        datasets.scan(TARGET_HEALTH, WINDOW)
