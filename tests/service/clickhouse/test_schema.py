"""The fact tables are what the datasets say: names, types, order, meanings; making them twice changes nothing."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client

from transforms.errors import PermanentError
from warehouse.clickhouse import FACTS, ensure_schema
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.clickhouse.schema import clickhouse_type

pytestmark = pytest.mark.service

# What a pyarrow type must be in ClickHouse, written down here a second time on purpose.
EXPECTED = {
    "uint8": "UInt8", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "bool": "Bool", "string": "String",
    "fixed_size_binary[16]": "UUID", "fixed_size_binary[32]": "FixedString(32)",
    "timestamp[us, tz=UTC]": "DateTime64(6, 'UTC')", "list<element: string>": "Array(String)",
    "list<item: string>": "Array(String)", "list<item: fixed_size_binary[16]>": "Array(UUID)",
    "list<element: fixed_size_binary[16]>": "Array(UUID)",
}  # fmt: skip


def without_storage_details(kind: str) -> str:
    """LowCardinality and Enum8 are ways to store a string."""
    kind = re.sub(r"LowCardinality\((.*)\)$", r"\1", kind)
    return re.sub(r"^Enum8\(.*\)$", "String", kind)


@pytest.mark.parametrize("name", FACTS)
def test_columns_and_types_equal_the_dataset(clickhouse: Client, name: str) -> None:
    fact = FACTS[name]
    stored = clickhouse.query(
        "SELECT name, type, comment FROM system.columns WHERE database = currentDatabase() AND table = {t:String} "
        "ORDER BY position",
        parameters={"t": fact.table},
    ).result_rows
    assert [row[0] for row in stored] == fact.dataset.columns + [item.name for item in fact.added]
    for (column, kind, comment), item in zip(stored, fact.fields, strict=True):
        if column == "hops":
            hop = "url String, gate String, reason String, address Nullable(String), status Nullable(UInt16)"
            assert kind == f"Array(Tuple({hop}))"
            continue
        expected = EXPECTED[str(item.type)]
        expected = f"Nullable({expected})" if item.nullable else expected
        assert without_storage_details(kind) == expected, column
        assert comment == item.metadata[b"meaning"].decode()


@pytest.mark.parametrize(
    ("table", "partition", "key"),
    [
        ("backlink_observations_fact", "toYYYYMM(observed_at)", "project_id, backlink_id, observation_id"),
        ("page_fetches_fact", "toYYYYMM(window_start)", "window_start, source_url_id"),
        ("target_health_fact", "toYYYYMM(window_start)", "target_url_id, window_start"),
    ],
)  # fmt: skip
def test_engine_partition_and_key(clickhouse: Client, table: str, partition: str, key: str) -> None:
    found = clickhouse.query(
        "SELECT partition_key, sorting_key, engine_full FROM system.tables "
        "WHERE database = currentDatabase() AND name = {t:String}",
        parameters={"t": table},
    ).result_rows[0]
    assert tuple(found[:2]) == (partition, key)
    assert "ReplacingMergeTree(ingest_version)" in found[2]


def test_closed_lists_are_numbered_as_the_blueprint_numbers_them(clickhouse: Client) -> None:
    kinds = dict(
        clickhouse.query(
            "SELECT name, type FROM system.columns WHERE database = currentDatabase() "
            "AND table = 'backlink_observations_fact' AND type LIKE 'Enum8%'"
        ).result_rows
    )
    health = "Enum8('unknown' = 0, 'ok' = 1, 'blocked' = 2, 'error' = 3)"
    assert kinds == {
        "evidence": "Enum8('none' = 0, 'missing' = 1, 'found' = 2)",
        "source_fetch_health": health,
        "target_fetch_health": health,
    }


def test_a_second_time_changes_nothing(clickhouse: Client, clickhouse_settings: ClickHouseSettings) -> None:
    sql = "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() ORDER BY name"
    before = clickhouse.query(sql).result_rows
    ensure_schema(clickhouse, clickhouse_settings)
    assert clickhouse.query(sql).result_rows == before
    assert [row[0] for row in before] == sorted(fact.table for fact in FACTS.values())


def test_a_table_of_an_older_version_gets_the_new_column(
    clickhouse: Client, clickhouse_settings: ClickHouseSettings
) -> None:
    clickhouse.command("ALTER TABLE page_fetches_fact DROP COLUMN refresh_header")
    ensure_schema(clickhouse, clickhouse_settings)
    kind = clickhouse.query(
        "SELECT type FROM system.columns WHERE database = currentDatabase() AND table = 'page_fetches_fact' "
        "AND name = 'refresh_header'"
    ).result_rows
    assert [tuple(row) for row in kind] == [("Nullable(String)",)]


def test_a_column_of_another_type_is_named(clickhouse: Client, clickhouse_settings: ClickHouseSettings) -> None:
    clickhouse.command("ALTER TABLE page_fetches_fact MODIFY COLUMN elapsed_ms UInt64")
    with pytest.raises(
        PermanentError, match="page_fetches_fact: column elapsed_ms is UInt64, this version needs UInt32"
    ):
        ensure_schema(clickhouse, clickhouse_settings)


def test_a_type_that_nobody_decided_is_refused() -> None:
    with pytest.raises(TypeError, match="decimal128"):
        clickhouse_type(pa.field("price", pa.decimal128(10, 2)))
