"""A window's manifests against its expected edges, in slices of bounded size. Here: slicing and the public functions.
Not here: matching itself (`edges`, `rules`), rows (`observations`).

Sources are independent of each other, so a window may be matched whole, by shard, or by ranges of `source_url_id`, with
the same rows; memory grows with the slice, not with the window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.arrays import arrow_of, frame_of, numbers_of, series_of
from transforms.collapse import PRIOR_COLUMNS
from transforms.evidence import source_evidence
from transforms.matching.digests import Rows
from transforms.matching.edges import Matched, match_edges
from transforms.matching.observations import Known, Observed, discoveries, observe, occurrences
from transforms.matching.shared import usable_links, wanted
from transforms.schemas import DISCOVERED_EDGES, EXPECTED_EDGES, LINK_MANIFESTS, LINK_OBSERVATIONS, OCCURRENCES

ROWS_PER_SLICE = 200_000
"""Expected edges plus usable links of a slice: about 250 MB beside what a call holds anyway."""


LINK_COLUMNS = [
    "source_url_id", "manifest_id", "position", "kind", "identity", "identity_hash", "host", "registrable_domain",
    "anchor_text", "is_image", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "placement", "locator",
    "occurrence_key",
]  # fmt: skip
"""What matching reads of `LINK_MANIFESTS`."""


SourceIds = npt.NDArray[np.uint64]


@dataclass
class MatchResult:
    observations: pa.Table
    """`LINK_OBSERVATIONS`: one row per expected edge; `ingest_version` 0 until it is loaded."""
    occurrences: pa.Table
    """`OCCURRENCES`: one row per link that stands for an edge."""
    discovered: pa.Table
    """`DISCOVERED_EDGES`: links that a rule accepts and no expected edge matches; to be registered."""
    counts: dict[str, int] = field(default_factory=dict)
    """edges, links, found, missing, none, occurrences, discovered, and `reason:<code>` for each reason."""


def match_window(
    *,
    window_start: datetime,
    fetches: pa.Table,
    pages: pa.Table,
    links: pa.Table,
    expected: pa.Table,
    rules: pa.Table,
    target_health: pa.Table,
    due: pa.Table | None = None,
    link_redirects: pa.Table | None = None,
    discover: bool = True,
    rows_per_slice: int = ROWS_PER_SLICE,
) -> MatchResult:
    """Evidence for every expected edge of a window (or of one shard of it), and the edges it found besides.

    `fetches`, `pages`, `links`, `expected`, `rules`, `target_health` are rows of the datasets of those names (of
    several fetch rows of a source the standing one counts, of several target checks the newest); `due` (`DUE_SOURCES`)
    brings `transforms.collapse.PRIOR_COLUMNS`, without which no collapse is noticed; `link_redirects` (`LINK_REDIRECTS`)
    says where the sources' own redirectors lead, and which edges are not missing because one could not be checked. Every
    expected edge gets exactly one row, also when its source was not fetched. Raises `ValueError` when a table lacks a column.
    """
    batch = Batch(
        window_start=window_start,
        fetches=fetches,
        pages=pages,
        links=links,
        expected=expected,
        rules=rules,
        target_health=target_health,
        due=due,
        link_redirects=link_redirects,
    )
    results = [batch.result(part, batch.match(part, discover=discover)) for part in batch.slices(rows_per_slice)]
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    return MatchResult(
        pa.concat_tables([LINK_OBSERVATIONS.empty(), *(result.observations for result in results)]),
        pa.concat_tables([OCCURRENCES.empty(), *(result.occurrences for result in results)]),
        pa.concat_tables([DISCOVERED_EDGES.empty(), *(result.discovered for result in results)]),
        dict(counts),
    )


@dataclass(frozen=True)
class Slice:
    """Edges and links of a range of sources."""

    expected: pa.Table
    source: Rows
    """per edge: row of its source, 0 for one without an outcome"""
    pair: Rows
    links: pl.DataFrame
    """usable ones"""
    links_read: int


class Batch:
    """The tables of `match_window`, with what all slices share worked out."""

    def __init__(
        self,
        *,
        window_start: datetime,
        fetches: pa.Table,
        pages: pa.Table,
        links: pa.Table,
        expected: pa.Table,
        rules: pa.Table,
        target_health: pa.Table,
        due: pa.Table | None = None,
        link_redirects: pa.Table | None = None,
    ) -> None:
        self.links = _needed(links)
        self._expected = _BySource(EXPECTED_EDGES.conform(expected))
        self._link_sources = _BySource(self.links.select(["source_url_id"]))
        redirects, waiting = _redirects(link_redirects)
        sources = source_evidence(fetches, pages, _prior_links(due))
        self._can_find = np.concatenate([[False], sources["can_find"].to_numpy()])
        self._source = (
            pl.DataFrame({"source_url_id": self._expected.ids})
            .join(
                sources.select("source_url_id").with_row_index("row", offset=1),
                on="source_url_id",
                how="left",
                maintain_order="left",
            )["row"]
            .fill_null(0)
            .to_numpy()
        )
        self.wanted = wanted(self._expected.table, rules)
        usable = usable_links(
            self.links,
            sources.filter("can_find").select("source_url_id", "manifest_id"),
            redirects,
            self.wanted,
        )
        self._usable = usable.sort("source_url_id", maintain_order=True)
        self.known = Known(sources, frame_of(target_health), self.wanted, window_start, waiting)

    def slices(self, rows: int = ROWS_PER_SLICE) -> Iterator[Slice]:
        """Slices of about so many edges plus usable links; a source is never cut."""
        usable = self._usable["source_url_id"].to_numpy()
        for low, high in _ranges(self._expected.ids, usable, rows):
            edges = self._expected.rows(low, high)
            expected = self._expected.take(edges)
            if expected.num_rows:
                start, end = _between(usable, low, high)
                yield Slice(
                    expected,
                    self._source[edges],
                    self.wanted.pair_of_edge[edges],
                    self._usable.slice(start, end - start),
                    self._link_sources.count(low, high),
                )

    def match(self, part: Slice, *, discover: bool = True) -> Matched:
        """Which link stands for which edge, and what is new."""
        edges = np.flatnonzero(self._can_find[part.source]) if part.links.height else np.empty(0, np.int64)
        frame = pl.DataFrame(
            {
                "edge": edges.astype(np.uint32),
                "source_url_id": series_of(part.expected["source_url_id"]).gather(edges),
                "pair": part.pair[edges],
                "any_target": series_of(part.expected["any_target"]).gather(edges),
            }
        )
        return match_edges(frame, part.links, self.wanted, part.expected, self.links, discover=discover)

    def observe(self, part: Slice, matched: Matched) -> Observed:
        """What that says of each edge."""
        return observe(part.expected, part.source, part.pair, self.known, matched, self.links)

    def result(self, part: Slice, matched: Matched) -> MatchResult:
        """The rows of a slice."""
        observed = self.observe(part, matched)
        seen = occurrences(part.expected, part.source, self.known, matched, self.links)
        fresh = discoveries(part.expected, part.source, self.known, matched, self.links)
        counts = {
            "edges": part.expected.num_rows,
            "links": part.links_read,
            **observed.counts(),
            "occurrences": seen.num_rows,
            "discovered": fresh.num_rows,
        }
        return MatchResult(observed.table(), seen, fresh, counts)


def observe_discovered(
    discovered_with_ids: pa.Table,
    *,
    window_start: datetime,
    fetches: pa.Table,
    pages: pa.Table,
    links: pa.Table,
    rules: pa.Table,
    target_health: pa.Table,
    due: pa.Table | None = None,
    link_redirects: pa.Table | None = None,
) -> MatchResult:
    """Observations and occurrences of new edges in the window that found them (`discovered` is empty).

    `discovered_with_ids` is `DISCOVERED_EDGES` plus `backlink_id` and `target_url_id` (uint64), as they were
    registered; the other tables are those of `match_window`. The next re-materialization gives the same rows.
    """
    ids = discovered_with_ids
    expected = EXPECTED_EDGES.conform(
        ids.append_column("any_target", pa.repeat(pa.scalar(value=False), ids.num_rows))
        .append_column("was_live", pa.repeat(pa.scalar(value=False), ids.num_rows))
        .append_column("was_redirected", pa.repeat(pa.scalar(value=False), ids.num_rows))
    )
    wanted = pc.unique(ids["source_url_id"])
    return match_window(
        window_start=window_start,
        fetches=fetches.filter(pc.is_in(fetches["source_url_id"], wanted)),
        pages=pages.filter(pc.is_in(pages["source_url_id"], wanted)),
        links=links.filter(pc.is_in(links["source_url_id"], wanted)),
        expected=expected,
        rules=rules,
        target_health=target_health,
        due=due,
        link_redirects=link_redirects,
        discover=False,
    )


def _needed(links: pa.Table) -> pa.Table:
    """The columns of `LINK_MANIFESTS` that matching reads; the raw spellings stay behind."""
    missing = [name for name in LINK_COLUMNS if name not in links.column_names]
    if missing:
        raise ValueError(f"dataset {LINK_MANIFESTS.name}: columns are missing: {', '.join(missing)}")
    return links.select(LINK_COLUMNS)


def source_ranges(edges: pa.ChunkedArray, links: pa.ChunkedArray, rows: int) -> list[tuple[int | None, int | None]]:
    """Half-open ranges of `source_url_id` that hold about so many edges and links each, for who reads a window in parts;
    None is no bound. A source is never cut. Both are columns of `source_url_id`."""
    return _ranges(numbers_of(edges), numbers_of(links), rows)


def _ranges(edges: SourceIds, links: SourceIds, rows_per_slice: int) -> list[tuple[int | None, int | None]]:
    """Half-open ranges of `source_url_id` that hold about `rows_per_slice` rows each; a source is never cut."""
    rows = len(edges) + len(links)
    slices = math.ceil(rows / rows_per_slice)
    if slices <= 1:
        return [(None, None)]
    cuts = [rows * number // slices for number in range(1, slices)]
    borders = sorted({int(border) for border in np.partition(np.concatenate([edges, links]), cuts)[cuts]})
    return list(zip([None, *borders], [*borders, None], strict=True))


def _between(ids: SourceIds, low: int | None, high: int | None) -> tuple[int, int]:
    """Where a range begins and ends in sorted ids."""
    return (
        0 if low is None else int(np.searchsorted(ids, np.uint64(low))),
        len(ids) if high is None else int(np.searchsorted(ids, np.uint64(high))),
    )


class _BySource:
    """Rows of a table by range of `source_url_id`: a slice where the table is sorted (as files are), else a filter."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.ids: SourceIds = numbers_of(table["source_url_id"])
        self._is_sorted = bool(np.all(self.ids[1:] >= self.ids[:-1]))

    def rows(self, low: int | None, high: int | None) -> slice | npt.NDArray[np.int64]:
        if self._is_sorted:
            return slice(*_between(self.ids, low, high))
        inside = np.ones(len(self.ids), dtype=bool)
        if low is not None:
            inside &= self.ids >= np.uint64(low)
        if high is not None:
            inside &= self.ids < np.uint64(high)
        return np.flatnonzero(inside)

    def take(self, rows: slice | npt.NDArray[np.int64]) -> pa.Table:
        if isinstance(rows, slice):
            return self.table.slice(rows.start, rows.stop - rows.start)
        return self.table.take(arrow_of(rows))

    def count(self, low: int | None, high: int | None) -> int:
        return len(self.ids[self.rows(low, high)])


def _prior_links(due: pa.Table | None) -> pl.DataFrame | None:
    return None if due is None else frame_of(due.select(["source_url_id", *PRIOR_COLUMNS]))


def _redirects(table: pa.Table | None) -> tuple[pl.DataFrame | None, pl.Series]:
    """Proven redirects, and `backlink_id` of the edges whose redirector could not be checked."""
    if table is None:
        return None, pl.Series(dtype=pl.UInt64)
    frame = frame_of(table)
    waiting = frame.filter(~pl.col("is_conclusive"))["waiting_edges"].explode().drop_nulls().unique()
    return frame.filter(pl.col("final_identity").is_not_null()), waiting.cast(pl.UInt64)
