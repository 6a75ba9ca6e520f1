"""What a dataset is: a name, a pyarrow schema whose columns say what they mean, and the order its rows are stored in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

U8, U16, U32, U64 = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
I16, F32, BOOL, STR = pa.int16(), pa.float32(), pa.bool_(), pa.string()
KEY = pa.binary(16)
"""A 16-byte identifier: a UUID's bytes, or the first half of a SHA-256."""
HASH = pa.binary(32)
"""A SHA-256."""
TIME = pa.timestamp("us", tz="UTC")


def column(name: str, kind: pa.DataType, meaning: str, *, null: bool = False) -> pa.Field:
    """A column with its meaning, which travels in the field's metadata (and so in the Parquet footer)."""
    return pa.field(name, kind, nullable=null, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Dataset:
    name: str
    meaning: str
    schema: pa.Schema
    sort_by: tuple[str, ...] = field(default=())

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def empty(self) -> pa.Table:
        return self.schema.empty_table()

    def table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows (dicts; absent keys are null) to a table of exactly this schema. Raises `pa.ArrowInvalid` on a misfit."""
        return pa.Table.from_pylist(rows, schema=self.schema)

    def conform(self, table: pa.Table) -> pa.Table:
        """The same rows with exactly this schema's columns, order and types. Raises `ValueError` naming what is missing."""
        missing = [name for name in self.schema.names if name not in table.column_names]
        if missing:
            raise ValueError(f"dataset {self.name}: columns are missing: {', '.join(missing)}")
        return table.select(self.schema.names).cast(self.schema)
