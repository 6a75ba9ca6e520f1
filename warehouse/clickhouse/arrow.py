"""Between our pyarrow schemas and what ClickHouse's Arrow format carries. Here: values. Not here: queries.

ClickHouse writes a UUID column as Arrow's `uuid` extension type and an Enum8 as its number; our datasets hold
`binary(16)` and strings. The bytes are the same (RFC 9562 order, as in MySQL).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from transforms.errors import PermanentError
from transforms.schemas import Dataset


def checked(dataset: Dataset, table: pa.Table) -> pa.Table:
    """The rows with exactly the dataset's columns and types. Raises `PermanentError` naming a column that misfits."""
    for item in dataset.schema:
        if item.name in table.column_names and not item.nullable and table[item.name].null_count:
            at = pc.index(pc.is_null(table[item.name]), True).as_py()
            raise PermanentError(f"dataset {dataset.name}: column {item.name} is empty in row {at}; it is required")
    try:
        return dataset.conform(table)
    except (ValueError, pa.ArrowException) as error:
        raise PermanentError(f"rows do not fit dataset {dataset.name}: {error}") from error


def plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table that came out of ClickHouse, in the types of `schema` (columns in the schema's order)."""
    columns = [_plain_column(table[item.name], item.type) for item in schema]
    return pa.table(columns, schema=schema)


def _plain_column(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if values.type == kind:
        return values
    return pa.chunked_array([_plain_array(chunk, kind) for chunk in values.chunks], type=kind)


def _plain_array(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        return values.storage.cast(kind)
    if pa.types.is_list(values.type) and pa.types.is_list(kind):
        # `flatten` and rebased offsets: a sliced list array keeps the offsets of its parent
        offsets = pc.subtract(values.offsets, values.offsets[0]) if len(values) else values.offsets
        items = _plain_array(values.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=kind)
    return values.cast(kind)
