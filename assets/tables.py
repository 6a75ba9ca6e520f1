"""Tables that the stages build and show. Here: results to arrow rows, counts to Markdown. Not here: rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

import dagster as dg
import polars as pl
import pyarrow as pa

from crawl.ports import FetchResult, Hop
from transforms.arrays import frame_of
from transforms.schemas import PAGE_FETCHES

_MARKS = re.compile(r"([\\|<>\[\]`*!])")
_SAME_NAME = (
    "detail", "http_status", "final_url", "is_redirected", "fetched_at", "elapsed_ms", "validation_method",
    "wire_bytes", "content_hash", "object_key", "content_type", "etag", "last_modified", "x_robots_tag",
    "link_header", "refresh_header", "retry_after_s", "robots_version", "warnings", "attempt",
)  # fmt: skip


def fetch_rows(results: Sequence[FetchResult]) -> pa.Table:
    """Crawl results to `PAGE_FETCHES` rows."""
    return PAGE_FETCHES.table(
        [
            {
                **{name: getattr(result, name) for name in _SAME_NAME},
                "source_url_id": result.task.key,
                "source_url": result.task.url,
                "registrable_domain": result.task.registrable_domain,
                "fetch_job_id": result.task.job_id,
                "outcome": result.outcome.value,
                "reason": result.reason.value,
                "body_bytes": len(result.body) if result.body is not None else 0,
                "hops": hop_rows(result.hops),
            }
            for result in results
        ]
    )


def hop_rows(hops: Sequence[Hop]) -> list[dict[str, object]]:
    """Hops as `transforms.schemas.fetches.HOP` values."""
    return [
        {"url": hop.url, "gate": hop.gate, "reason": hop.reason.value, "address": hop.address, "status": hop.status}
        for hop in hops
    ]


def count_table(table: pa.Table, columns: list[str]) -> dg.MarkdownMetadataValue:
    """How many rows there are of each combination of the columns, most first, as a Markdown table."""
    frame = frame_of(table.select(columns))
    return markdown(
        frame.group_by(columns).len("rows").sort(["rows", *columns], descending=[True] + [False] * len(columns))
    )


def _cell(value: object) -> str:
    """One line that neither ends its cell nor opens a tag, a link or an image."""
    return _MARKS.sub(r"\\\1", " ".join(str(value).split()))


def markdown(frame: pl.DataFrame, most: int = 50) -> dg.MarkdownMetadataValue:
    """A small frame as a Markdown table; the rest beyond `most` rows is counted, not shown."""
    lines = ["| " + " | ".join(frame.columns) + " |", "|" + " --- |" * frame.width]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.head(most).iter_rows()]
    if frame.height > most:
        lines.append(f"\n{frame.height - most} more rows")
    return dg.MetadataValue.md("\n".join(lines))


def total(counts: list[dict[str, int]]) -> dict[str, int]:
    """Counts of several partitions, added up by name."""
    names = {name: None for each in counts for name in each}
    return {name: sum(each.get(name, 0) for each in counts) for name in names}
