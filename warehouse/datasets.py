"""Datasets as Parquet in the object store. Here: where a partition's files are and that they have the dataset's schema.
Not here: what the columns mean (`transforms.schemas`) or how bytes are kept (`warehouse.objects`).

Layout: `datasets/<name>/window=<Window.path>/shard=<n>/<part>.parquet`, without the shard level for window-only
datasets. A partition is all parts below its folder; a part of the same name replaces the one before, so that a stage
that runs again and cuts its rows the same way changes nothing. Files are sorted by `Dataset.sort_by` and compressed
with zstd.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from transforms.arrays import frame_of
from transforms.errors import PermanentError
from transforms.schemas import Dataset
from transforms.windows import Window
from warehouse.objects import ObjectStore

ROW_GROUP_ROWS = 128 * 1024
"""Rows are skipped by row group: small enough to skip well, large enough to compress and to read in one go."""

_THREADS = 8


class BadDataset(PermanentError):
    """A file that is not what its dataset says: torn, of another kind, or of another schema."""


class DatasetStore:
    """Reads and writes the partitions of every dataset. Safe to use from many threads."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    # -- writing -----------------------------------------------------------------------------------------------------

    def write_part(
        self, dataset: Dataset, window: Window, shard: int | None, table: pa.Table, part: str = "part-0"
    ) -> str:
        """Write one part and return its key. Rows are conformed to the schema and sorted; the same part name replaces.

        Raises `BadDataset` when a column is missing, a value does not fit its type, or a required column has nulls.
        """
        key = f"{partition_prefix(dataset, window, shard)}{part}.parquet"
        table = _conformed(dataset, table, key)
        if dataset.sort_by:
            table = table.sort_by([(name, "ascending") for name in dataset.sort_by])
        sink = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata({"dataset": dataset.name, "meaning": dataset.meaning}),
            sink,
            compression="zstd",
            row_group_size=ROW_GROUP_ROWS,
            sorting_columns=pq.SortingColumn.from_ordering(
                dataset.schema, [(name, "ascending") for name in dataset.sort_by]
            )
            if dataset.sort_by
            else None,
            write_page_index=True,
        )
        self.store.put(key, memoryview(sink.getvalue()).tobytes())
        return key

    # -- reading ------------------------------------------------------------------------------------------------------

    def part_keys(self, dataset: Dataset, window: Window, shard: int | None = None) -> list[str]:
        """Keys of the parts of one shard, or (shard None) of every shard of the window; by shard number, then name."""
        keys = [
            info.key
            for info in self.store.list(partition_prefix(dataset, window, shard))
            if info.key.endswith(".parquet")
        ]
        return sorted(keys, key=lambda key: (shard_of_key(key), key))

    def keys_between(self, dataset: Dataset, first: datetime, before: datetime, shard: int) -> list[str]:
        """Keys of one shard's parts in the windows that start within [first, before), in order of time; a listing a day."""
        low, high = Window(first).path, Window(before).path
        keys = []
        for day in range((before.date() - first.date()).days + 1):
            prefix = f"datasets/{dataset.name}/window={first.date() + timedelta(days=day)}"
            for info in self.store.list(prefix):
                window, folder = info.key.split("/")[2:4]
                if low <= window.removeprefix("window=") < high and folder == f"shard={shard}":
                    keys.append(info.key)
        return [key for key in keys if key.endswith(".parquet")]

    def read(
        self,
        dataset: Dataset,
        window: Window,
        shard: int | None = None,
        columns: Sequence[str] | None = None,
        filters: pads.Expression | None = None,
    ) -> pa.Table:
        """All rows of one shard, or (shard None) of the whole window; an absent partition is an empty table.

        `columns` keeps only these, in this order; `filters` is a `pyarrow.dataset` expression (it skips row groups).
        Raises `BadDataset` naming the key of a file that is torn or has another schema.
        """
        return self.read_keys(dataset, self.part_keys(dataset, window, shard), columns, filters)

    def read_keys(
        self,
        dataset: Dataset,
        keys: Sequence[str],
        columns: Sequence[str] | None = None,
        filters: pads.Expression | None = None,
    ) -> pa.Table:
        """The rows of these part files, in the order of the keys."""
        schema = dataset.schema if columns is None else pa.schema([dataset.schema.field(name) for name in columns])

        def read_one(key: str) -> pa.Table:
            source = self.store.open(key)
            try:
                _check_schema(dataset, pq.read_schema(source), key)
                source.seek(0)
                return (
                    pq.read_table(source, columns=list(schema.names), filters=filters).select(schema.names).cast(schema)
                )
            except pa.ArrowException as error:
                raise _torn(dataset, key, error) from error
            except OSError as error:  # Parquet's own word for a bad page or checksum
                raise _torn(dataset, key, error) from error

        if len(keys) <= 1:
            tables = [read_one(key) for key in keys]
        else:
            with ThreadPoolExecutor(min(_THREADS, len(keys)), thread_name_prefix="dataset-read") as pool:
                tables = list(pool.map(read_one, keys))
        return pa.concat_tables([schema.empty_table(), *tables])

    def scan(self, dataset: Dataset, windows: Window | Sequence[Window], shard: int | None = None) -> pl.LazyFrame:
        """A lazy polars frame over one or more windows (all shards, or one), for queries larger than memory.

        Footers are checked now, rows are read when the frame is collected; absent partitions add nothing.
        """
        keys = [
            key
            for window in ([windows] if isinstance(windows, Window) else windows)
            for key in self.part_keys(dataset, window, shard)
        ]
        if not keys:
            return _empty_frame(dataset)
        for key in keys:
            try:
                _check_schema(dataset, pq.read_schema(self.store.open(key)), key)
            except (pa.ArrowException, OSError) as error:
                raise _torn(dataset, key, error) from error
        options: dict[str, Any] = {}
        if (storage := self.store.scan_options()) is not None:
            options["storage_options"] = storage
        return pl.scan_parquet([self.store.locate(key) for key in keys], hive_partitioning=False, **options)


def partition_prefix(dataset: Dataset, window: Window, shard: int | None) -> str:
    """Folder (with its slash) of a partition; of the whole window when `shard` is None."""
    folder = f"datasets/{dataset.name}/window={window.path}/"
    return folder if shard is None else f"{folder}shard={shard}/"


def shard_of_key(key: str) -> int:
    """Shard number of a part's key; -1 for a window-only dataset."""
    folder = key.rsplit("/", 2)[-2]
    return int(folder.removeprefix("shard=")) if folder.startswith("shard=") else -1


def _conformed(dataset: Dataset, table: pa.Table, key: str) -> pa.Table:
    for field in dataset.schema:
        if not field.nullable and field.name in table.column_names and (nulls := table[field.name].null_count):
            raise BadDataset(
                f"{key} was not written: column {field.name} of dataset {dataset.name} must not be null, "
                f"{nulls:,} of {table.num_rows:,} rows are"
            )
    try:
        return dataset.conform(table)
    except (ValueError, pa.ArrowException) as error:
        raise BadDataset(f"{key} was not written: the rows do not fit dataset {dataset.name}: {error}") from error


def _check_schema(dataset: Dataset, found: pa.Schema, key: str) -> None:
    """Names and types must be equal; order too, because polars scans by position of the first file."""
    if found.names == dataset.schema.names and found.types == dataset.schema.types:
        return
    wanted = {field.name: field.type for field in dataset.schema}
    differences = [f"lacks {name}" for name in wanted if name not in found.names]
    differences += [f"has the unknown column {name}" for name in found.names if name not in wanted]
    differences += [
        f"has {name} as {found.field(name).type} instead of {kind}"
        for name, kind in wanted.items()
        if name in found.names and found.field(name).type != kind
    ]
    raise BadDataset(
        f"{key} {'; '.join(differences[:4]) or 'has its columns in another order'}: it is no file of dataset "
        f"{dataset.name} as this version knows it; materialize that partition again"
    )


def _torn(dataset: Dataset, key: str, error: Exception) -> BadDataset:
    return BadDataset(
        f"{key} cannot be read as Parquet ({str(error).splitlines()[0][:120]}): delete it and materialize that "
        f"partition of {dataset.name} again"
    )


def _empty_frame(dataset: Dataset) -> pl.LazyFrame:
    frame = frame_of(dataset.empty())
    return frame.lazy()
