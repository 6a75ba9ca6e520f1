"""Columns between Arrow, polars and numpy, without a copy where there is a way without. Not here: anything about links."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import polars as pl
import pyarrow as pa


def frame_of(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def series_of(column: pa.Array | pa.ChunkedArray) -> pl.Series:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series


def numbers_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column of numbers without nulls."""
    return series_of(column).to_numpy()


def arrow_of(numbers: npt.NDArray[Any]) -> pa.Array:
    return pl.Series(numbers).to_arrow()


def encoded(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """A column as its distinct values and a number per row."""
    found = column.dictionary_encode()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def rows_of(table: pa.Table, rows: pl.Series, columns: list[str]) -> pl.DataFrame:
    """These columns of rows of a table, by number."""
    return frame_of(table.select(columns).take(rows.to_arrow()))
