"""Which outcome of a source stands for a window when it has several. Here: that one rule. Not here: fetching."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.reasons import Outcome
from transforms.schemas import PAGE_FETCHES


def latest_fetches(fetches: pa.Table) -> pa.Table:
    """One row per source of a partition's `PAGE_FETCHES` parts: the newest; any answer before any deferral, and a deferral
    that the server asked for (429, 503) before one that was never sent."""
    if fetches.num_rows == 0:
        return PAGE_FETCHES.empty()
    order = frame_of(fetches.select(["source_url_id", "outcome", "http_status", "fetched_at", "attempt"]))
    kept = (
        order.with_row_index("row")
        .with_columns(deferred=pl.col("outcome") == Outcome.DEFERRED.value)
        .with_columns(unasked=pl.col("deferred") & pl.col("http_status").is_null())
        .sort(
            "source_url_id",
            "deferred",
            "unasked",
            "fetched_at",
            "attempt",
            "row",
            descending=[False, False, False, True, True, True],
        )
        .unique("source_url_id", keep="first", maintain_order=True)["row"]
    )
    return fetches.take(kept.to_arrow())
