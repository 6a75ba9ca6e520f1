"""The fact tables. Columns are derived from `transforms.schemas`, so that a dataset is described once.

Here: `FACTS` (which dataset lies in which table, and what ClickHouse adds) and `ensure_schema`. The engine, partition
and sorting key of each table are in the `.sql` file of its name. Not here: tables that dbt makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources

import pyarrow as pa
from clickhouse_connect.driver.client import Client

from transforms.errors import PermanentError
from transforms.reasons import Evidence, Health
from transforms.schemas import LINK_OBSERVATIONS, PAGE_FETCHES, TARGET_HEALTH, Dataset, column
from transforms.schemas.dataset import TIME, U64
from warehouse.clickhouse.client import explained
from warehouse.clickhouse.config import ClickHouseSettings


def enum8(values: type[StrEnum]) -> str:
    """`Enum8(...)` numbered in the order of declaration, as the blueprint numbers them (unknown=0, ok=1, ...)."""
    return "Enum8(" + ", ".join(f"'{value.value}' = {number}" for number, value in enumerate(values)) + ")"


_WORD = "LowCardinality(String)"
_WORD_OR_NULL = "LowCardinality(Nullable(String))"

_SPECIAL_TYPES = {
    "evidence": enum8(Evidence),
    "source_fetch_health": enum8(Health),
    "target_fetch_health": enum8(Health),
    "health": enum8(Health),
    "evidence_reason": _WORD,
    "outcome": _WORD,
    "reason": _WORD,
    "validation_method": _WORD,
    "follow": _WORD_OR_NULL,
    "placement": _WORD_OR_NULL,
    "html_lang": _WORD_OR_NULL,
    "parser_version": _WORD_OR_NULL,
}
"""Few distinct values, or a closed list: stored as such. Everything else follows from its pyarrow type."""


@dataclass(frozen=True)
class Fact:
    """A fact table: the dataset it holds, and columns that only ClickHouse has."""

    dataset: Dataset
    table: str
    added: tuple[pa.Field, ...] = field(default=())

    @property
    def fields(self) -> list[pa.Field]:
        return [*self.dataset.schema, *self.added]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.fields)


_LOADED = (
    column("window_start", TIME, "the window it belongs to"),
    column("ingest_version", U64, "microseconds; the highest version of a row is the one that counts"),
)

FACTS: dict[str, Fact] = {
    fact.dataset.name: fact
    for fact in (
        Fact(LINK_OBSERVATIONS, "backlink_observations_fact"),
        Fact(PAGE_FETCHES, "page_fetches_fact", _LOADED),
        Fact(TARGET_HEALTH, "target_health_fact", _LOADED),
    )
}
"""By dataset name, which is also the name of the dbt source."""


def clickhouse_type(item: pa.Field) -> str:
    """The ClickHouse type of a pyarrow field. Raises `TypeError` for a type that no dataset uses yet."""
    special = _SPECIAL_TYPES.get(item.name)
    if special is not None:
        return special
    return _type(item.type, item.nullable)


def ensure_schema(client: Client, settings: ClickHouseSettings) -> None:
    """Create the database and the fact tables; add columns that a table of an older version lacks. Safe to repeat.

    Raises `PermanentError` naming the column when a table that exists has another type for it.
    """
    with explained(settings, f"create database {settings.database}"):
        client.database = None  # a server refuses every query that names a database which is not there
        try:
            client.command(f"CREATE DATABASE IF NOT EXISTS `{settings.database}`")
        finally:
            client.database = settings.database
    for fact in FACTS.values():
        with explained(settings, f"create table {fact.table}"):
            template = resources.files("warehouse.clickhouse").joinpath(f"{fact.table}.sql").read_text()
            definitions = ",\n    ".join(_definition(item) for item in fact.fields)
            client.command(
                template.replace("{columns}", definitions).replace("{comment}", _quoted(fact.dataset.meaning))
            )
            _bring_up_to_date(client, fact)


def _bring_up_to_date(client: Client, fact: Fact) -> None:
    rows = client.query(
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}",
        parameters={"table": fact.table},
    ).result_rows
    stored: dict[str, str] = {name: kind for name, kind in rows}  # noqa: C416
    for item in fact.fields:
        if item.name not in stored:
            client.command(f"ALTER TABLE {fact.table} ADD COLUMN IF NOT EXISTS {_definition(item)}")
        elif stored[item.name] != clickhouse_type(item):
            raise PermanentError(
                f"table {fact.table}: column {item.name} is {stored[item.name]}, this version needs "
                f"{clickhouse_type(item)}; migrate it by hand or load into an empty database"
            )


def _definition(item: pa.Field) -> str:
    meaning = (item.metadata or {}).get(b"meaning", b"").decode()
    return f"{item.name} {clickhouse_type(item)} COMMENT {_quoted(meaning)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_PLAIN = {
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.int16(): "Int16",
    pa.float32(): "Float32",
    pa.bool_(): "Bool",
    pa.string(): "String",
    pa.binary(16): "UUID",
    pa.binary(32): "FixedString(32)",
    pa.timestamp("us", tz="UTC"): "DateTime64(6, 'UTC')",
}


def _type(kind: pa.DataType, nullable: bool) -> str:
    if pa.types.is_list(kind):
        # Array cannot be null in ClickHouse; list items of our datasets never are.
        return f"Array({_type(kind.value_type, False)})"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{item.name} {_type(item.type, item.nullable)}" for item in kind)
        return f"Tuple({inner})"
    plain = _PLAIN.get(kind)
    if plain is None:
        raise TypeError(f"no ClickHouse type is decided for {kind}")
    return f"Nullable({plain})" if nullable else plain
