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
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.evidence import source_evidence
from transforms.matching.edges import match_edges
from transforms.matching.observations import discoveries, observe, occurrences
from transforms.reasons import Evidence
from transforms.schemas import DISCOVERED_EDGES, EXPECTED_EDGES, LINK_MANIFESTS, LINK_OBSERVATIONS, OCCURRENCES

ROWS_PER_SLICE = 400_000
"""Expected edges plus links of a slice: about 1 GB at the peak."""


_LINK_COLUMNS = [
    "source_url_id", "manifest_id", "position", "kind", "identity", "identity_hash", "host", "registrable_domain",
    "anchor_text", "is_image", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "placement", "locator",
    "occurrence_key",
]  # fmt: skip


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
    brings `prior_link_count`, without which no collapse is noticed; `link_redirects` (`source_url_id`, `link_identity`,
    `final_identity`) holds redirects of a source's own redirector that were checked. Every expected edge gets exactly
    one row, also when its source was not fetched. Raises `ValueError` when a table lacks a column.
    """
    results = list(
        match_slices(
            window_start=window_start,
            fetches=fetches,
            pages=pages,
            links=links,
            expected=expected,
            rules=rules,
            target_health=target_health,
            due=due,
            link_redirects=link_redirects,
            discover=discover,
            rows_per_slice=rows_per_slice,
        )
    )
    counts: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
    return MatchResult(
        pa.concat_tables([LINK_OBSERVATIONS.empty(), *(result.observations for result in results)]),
        pa.concat_tables([OCCURRENCES.empty(), *(result.occurrences for result in results)]),
        pa.concat_tables([DISCOVERED_EDGES.empty(), *(result.discovered for result in results)]),
        dict(counts),
    )


def match_slices(
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
) -> Iterator[MatchResult]:
    """`match_window`, one result per slice of sources: for windows whose observations should not be held at once."""
    expected = EXPECTED_EDGES.conform(expected)
    links = _needed(links)
    sources = source_evidence(fetches, pages, _prior_links(due))
    health = (
        _frame(target_health)
        .sort("target_url_id", "checked_at")
        .unique("target_url_id", keep="last", maintain_order=True)
    )
    redirects = None if link_redirects is None else _frame(link_redirects)
    edges_of, links_of = _BySource(expected), _BySource(links)
    for low, high in _ranges(expected, links, rows_per_slice):
        edges = _frame(edges_of.between(low, high)).with_row_index("edge")
        if not edges.height:
            continue
        here = _frame(links_of.between(low, high)).with_row_index("link")
        # Links count only as part of the manifest that the standing outcome names.
        usable = sources.filter("can_find").select("source_url_id", "manifest_id")
        here = here.join(usable, on=["source_url_id", "manifest_id"], how="semi", maintain_order="left")
        matched = match_edges(edges, here, rules, usable["source_url_id"], redirects, discover=discover)
        observed = observe(edges, here, matched, sources, health, window_start)
        seen = occurrences(edges, here, matched, sources)
        fresh = discoveries(edges, here, matched, sources) if discover else DISCOVERED_EDGES.empty()
        yield MatchResult(observed, seen, fresh, _counts(observed, seen, fresh, here.height))


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
        ids.append_column("any_target", pa.repeat(pa.scalar(value=False), ids.num_rows)).append_column(
            "was_live", pa.repeat(pa.scalar(value=False), ids.num_rows)
        )
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
    missing = [name for name in _LINK_COLUMNS if name not in links.column_names]
    if missing:
        raise ValueError(f"dataset {LINK_MANIFESTS.name}: columns are missing: {', '.join(missing)}")
    return links.select(_LINK_COLUMNS)


def _ranges(expected: pa.Table, links: pa.Table, rows_per_slice: int) -> list[tuple[int | None, int | None]]:
    """Half-open ranges of `source_url_id` that hold about `rows_per_slice` rows each; a source is never cut."""
    ids = np.concatenate([expected["source_url_id"].to_numpy(), links["source_url_id"].to_numpy()])
    slices = math.ceil(len(ids) / rows_per_slice)
    if slices <= 1:
        return [(None, None)]
    cuts = [len(ids) * number // slices for number in range(1, slices)]
    borders = sorted({int(border) for border in np.partition(ids, cuts)[cuts]})
    return list(zip([None, *borders], [*borders, None], strict=True))


class _BySource:
    """Rows of a table by range of `source_url_id`: a slice where the table is sorted (as files are), else a filter."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._ids = table["source_url_id"].to_numpy()
        self._is_sorted = bool(np.all(self._ids[1:] >= self._ids[:-1]))

    def between(self, low: int | None, high: int | None) -> pa.Table:
        if self._is_sorted:
            start = 0 if low is None else int(np.searchsorted(self._ids, np.uint64(low)))
            end = len(self._ids) if high is None else int(np.searchsorted(self._ids, np.uint64(high)))
            return self._table.slice(start, end - start)
        mask = np.ones(len(self._ids), dtype=bool)
        if low is not None:
            mask &= self._ids >= np.uint64(low)
        if high is not None:
            mask &= self._ids < np.uint64(high)
        return self._table.filter(pa.array(mask))


def _prior_links(due: pa.Table | None) -> pl.DataFrame | None:
    return None if due is None else _frame(due.select(["source_url_id", "prior_link_count"]))


def _counts(observed: pa.Table, seen: pa.Table, fresh: pa.Table, links: int) -> dict[str, int]:
    evidence = Counter(observed["evidence"].to_pylist())
    reasons = Counter(observed["evidence_reason"].to_pylist())
    return {
        "edges": observed.num_rows,
        "links": links,
        **{kind.value: evidence.get(kind.value, 0) for kind in Evidence},
        "occurrences": seen.num_rows,
        "discovered": fresh.num_rows,
        **{f"reason:{reason}": number for reason, number in sorted(reasons.items())},
    }


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
