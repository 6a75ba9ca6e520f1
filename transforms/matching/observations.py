"""Rows of `LINK_OBSERVATIONS`, `OCCURRENCES` and `DISCOVERED_EDGES` from what was matched. Here: which columns say what.
Not here: who matches whom (`edges`), what a check proves (`transforms.evidence`), keys and hashes (`digests`).

Few things are said of many edges, so each is laid down once and rows only point at it: what the check of a source gave
(`source`), what is known of a target (`target`), which rules accept it (`rules`), and the `answer`: found with such a
link, or absent for such a reason. What an expected edge brings itself is passed on without a copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.arrays import arrow_of, rows_of, series_of
from transforms.matching.digests import (
    Digests,
    Rows,
    as_column,
    idempotency_keys,
    observation_ids,
    part_digests,
    row_digests,
)
from transforms.matching.edges import Matched
from transforms.matching.shared import Wanted, rule_lists
from transforms.matching.tolerance import tolerated_names
from transforms.reasons import Evidence, Health, Reason
from transforms.schemas import DISCOVERED_EDGES, EXPECTED_EDGES, LINK_OBSERVATIONS, OCCURRENCES

SOURCE = [
    "observed_at", "source_http_status", "source_final_url", "source_is_redirected", "source_robots_indexable",
    "source_canonical_url", "page_title", "html_lang", "response_time_ms", "content_hash", "object_key", "manifest_id",
    "parser_version",
]  # fmt: skip
ANSWER = [
    "evidence", "evidence_reason", "evidence_complete", "source_fetch_health", "link_url", "tolerated", "link_count",
    "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "is_image_link", "is_redirected", "placement",
]  # fmt: skip
TARGET = [
    "target_fetch_health", "target_http_status", "target_final_url", "target_is_redirected", "target_robots_indexable",
]  # fmt: skip
RULES = ["target_rule_ids"]
PARTS = {"source": SOURCE, "answer": ANSWER, "target": TARGET, "rules": RULES}
"""What `evidence_hash` covers. What an observation id stands for (edge, run, source, target) and bookkeeping (consumer,
job) are no evidence."""

_PASSED_ON = [name for name in LINK_OBSERVATIONS.columns if name in EXPECTED_EDGES.columns]


@dataclass
class Part:
    """Distinct things that observations say, one row each, and the hash of each row."""

    name: str
    table: pa.Table

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame, more: tuple[str, ...] = ()) -> Part:
        """`more`: columns that observations show beside those that are evidence."""
        columns = [*PARTS[name], *more]
        schema = pa.schema([LINK_OBSERVATIONS.schema.field(column) for column in columns])
        return cls(name, frame.select(columns).to_arrow().cast(schema).combine_chunks())

    @cached_property
    def digests(self) -> Digests:
        rows = pl.DataFrame({column: series_of(self.table[column]) for column in PARTS[self.name]})
        return part_digests(self.name, rows, PARTS[self.name])


class Known:
    """What the rows of every slice point at. A source's row is that of `sources`, plus one; row 0 is a source without an
    outcome. A target's row is that of `Wanted.target_ids`."""

    def __init__(
        self,
        sources: pl.DataFrame,
        target_health: pl.DataFrame,
        wanted: Wanted,
        window_start: datetime,
        waiting: pl.Series,
    ) -> None:
        self.window_start = window_start
        self.wanted = wanted
        start = pl.lit(window_start).dt.cast_time_unit("us")
        whole = pl.concat([sources.clear(n=1), sources]).with_columns(
            pl.col("observed_at").fill_null(start),
            pl.col("source_is_redirected").fill_null(value=False),
            evidence=pl.when("is_missing").then(pl.lit(Evidence.MISSING.value)).otherwise(pl.lit(Evidence.NONE.value)),
            evidence_reason=pl.col("absent_reason").fill_null(Reason.NOT_FETCHED.value),
            evidence_complete=pl.col("is_missing").fill_null(value=False),
            source_fetch_health=pl.col("health").fill_null(Health.UNKNOWN.value),
        )
        self.source = Part.of("source", whole, ("fetch_job_id",))
        self.is_complete = whole["is_complete"].fill_null(value=False)
        outcome = ["evidence", "evidence_reason", "evidence_complete", "source_fetch_health"]
        unchecked = pl.DataFrame([[Evidence.NONE, Reason.REDIRECT_UNCHECKED, False, Health.OK]], outcome, orient="row")
        self.absent = pl.concat([unchecked, whole.select(outcome).unique(maintain_order=True)])
        """distinct outcomes of sources for an edge without a link; the first is that of an edge that waits for the check
        of a redirector, on a page that would prove its absence"""
        self.absent_of_source = (
            whole.select(outcome)
            .join(self.absent.with_row_index("row"), on=outcome, how="left", maintain_order="left")["row"]
            .to_numpy()
        )
        self.waiting = waiting
        """backlink_id of those edges"""
        newest = target_health.sort("target_url_id", "checked_at").unique("target_url_id", keep="last")
        self.target = Part.of(
            "target",
            pl.DataFrame({"target_url_id": wanted.target_ids})
            .join(newest, on="target_url_id", how="left", maintain_order="left")
            .select(
                target_fetch_health=pl.col("health").fill_null(Health.UNKNOWN.value),
                target_http_status="http_status",
                target_final_url="final_url",
                target_is_redirected=pl.col("is_redirected").fill_null(value=False),
                target_robots_indexable="robots_indexable",
            ),
        )
        self.rules = _rules(wanted.rule_lists)


def observe(expected: pa.Table, source: Rows, pair: Rows, known: Known, matched: Matched, links: pa.Table) -> Observed:
    """What is said of each edge of a slice: `expected` with the row of its source and of its (project, target)."""
    standing = matched.pairs.filter(pl.col("rank") == 0).join(
        matched.pairs.group_by("edge").len("link_count"), on="edge", how="left", maintain_order="left"
    )
    edges = standing["edge"].to_numpy()
    answer = known.absent_of_source[source]
    if known.waiting.len():
        waits = series_of(expected["backlink_id"]).is_in(known.waiting.implode()).to_numpy()
        proven = (known.absent["evidence_reason"] == Reason.LINK_ABSENT.value).to_numpy()
        answer[waits & proven[answer]] = 0
    answer[edges] = known.absent.height + np.arange(len(edges), dtype=answer.dtype)
    rules = known.wanted.pairs["rules"].to_numpy()[pair]
    rule_part = known.rules
    if matched.any_rules.height:
        own = rule_lists(matched.any_rules["rule_key"], known.wanted.by_rule)
        rules[matched.any_rules["edge"].to_numpy()] = rule_part.table.num_rows + np.arange(len(own), dtype=rules.dtype)
        rule_part = _rules(pa.concat_arrays([known.wanted.rule_lists, own]))
    return Observed(
        expected,
        {
            "source": (known.source, source),
            "answer": (_answers(known, standing, source[edges], links), answer),
            "target": (known.target, known.wanted.pairs["target"].to_numpy()[pair]),
            "rules": (rule_part, rules),
        },
        known.window_start,
    )


@dataclass
class Observed:
    """One observation per expected edge, still in parts: each part with the row that each edge points at."""

    expected: pa.Table
    parts: dict[str, tuple[Part, Rows]]
    window_start: datetime

    def counts(self) -> dict[str, int]:
        """found, missing, none, and `reason:<code>` for each reason."""
        part, rows = self.parts["answer"]
        each = np.bincount(rows, minlength=part.table.num_rows).tolist()
        evidence: Counter[str] = Counter({kind.value: 0 for kind in Evidence})
        reasons: Counter[str] = Counter()
        for kind, reason, number in zip(
            part.table["evidence"].to_pylist(), part.table["evidence_reason"].to_pylist(), each, strict=True
        ):
            evidence[kind] += number
            reasons[f"reason:{reason}"] += number
        return {**evidence, **{reason: number for reason, number in sorted(reasons.items()) if number}}

    def columns(self) -> dict[str, pa.Array | pa.ChunkedArray]:
        """Every column of `LINK_OBSERVATIONS` but keys and hash; `ingest_version` is 0 until it is loaded."""
        rows = self.expected.num_rows
        columns: dict[str, pa.Array | pa.ChunkedArray] = {name: self.expected[name] for name in _PASSED_ON}
        for part, at in self.parts.values():
            columns |= zip(part.table.column_names, part.table.take(arrow_of(at)).columns, strict=True)
        columns["window_start"] = pl.repeat(
            self.window_start, rows, dtype=pl.Datetime("us", "UTC"), eager=True
        ).to_arrow()
        columns["ingest_version"] = pl.repeat(0, rows, dtype=pl.UInt64, eager=True).to_arrow()
        return columns

    def keys(self) -> dict[str, pa.Array]:
        """`idempotency_key`, `observation_id`, `evidence_hash`."""
        keys = idempotency_keys(*(self.expected[name] for name in ("crawl_run_id", "source_url_id", "target_url_id")))
        hashes = row_digests(keys, [(part.digests, at) for part, at in self.parts.values()])
        return {
            "idempotency_key": as_column(keys),
            "observation_id": arrow_of(observation_ids(keys)),
            "evidence_hash": as_column(hashes),
        }

    def table(self) -> pa.Table:
        """`LINK_OBSERVATIONS` rows, in the order of the edges."""
        columns = self.columns() | self.keys()
        return pa.Table.from_arrays(
            [columns[name] for name in LINK_OBSERVATIONS.columns], schema=LINK_OBSERVATIONS.schema
        )


def _rules(lists: pa.ListArray) -> Part:
    field = LINK_OBSERVATIONS.schema.field("target_rule_ids")
    return Part("rules", pa.Table.from_arrays([lists.cast(field.type)], schema=pa.schema([field])))


def _answers(known: Known, standing: pl.DataFrame, source: Rows, links: pa.Table) -> Part:
    """The outcomes without a link, then what each standing link says; `source`: rows of the sources of those."""
    link = rows_of(
        links,
        standing["link"],
        ["identity", "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "is_image", "placement"],
    )
    found = standing.select("mask", "via_redirect", "link_count").with_columns(
        link.rename({"identity": "link_url", "is_image": "is_image_link"}).get_columns(),
        evidence_complete=known.is_complete.gather(source),
    )
    absent = known.absent.with_columns(
        link_url=pl.lit(None, pl.String), tolerated=pl.lit([], pl.List(pl.String)), link_count=pl.lit(0, pl.UInt16),
        anchor_text=pl.lit(None, pl.String), rel_nofollow=False, rel_ugc=False, rel_sponsored=False,
        follow=pl.lit(None, pl.String), is_image_link=False, is_redirected=False, placement=pl.lit(None, pl.String),
    )  # fmt: skip
    found = found.with_columns(
        evidence=pl.lit(Evidence.FOUND.value),
        evidence_reason=pl.when("via_redirect")
        .then(pl.lit(Reason.LINK_FOUND_VIA_REDIRECT.value))
        .otherwise(pl.lit(Reason.LINK_FOUND.value)),
        # A link that was found on an odd page (a shell with a noscript link, say) is the answer of a healthy fetch.
        source_fetch_health=pl.lit(Health.OK.value),
        tolerated=tolerated_names(pl.col("mask")),
        link_count=pl.col("link_count").clip(upper_bound=65535).cast(pl.UInt16),
        is_redirected=pl.col("via_redirect"),
    )
    return Part.of("answer", pl.concat([absent.select(ANSWER), found.select(ANSWER)]))


def occurrences(expected: pa.Table, source: Rows, known: Known, matched: Matched, links: pa.Table) -> pa.Table:
    """One `OCCURRENCES` row per link that stands for an edge, redirected ones included."""
    pairs = matched.pairs.sort("edge", "position")
    edges = pairs["edge"].to_numpy()
    rows = rows_of(
        links, pairs["link"], [name for name in OCCURRENCES.columns if name in links.column_names]
    ).with_columns(
        rows_of(links, pairs["link"], ["identity"])["identity"].alias("link_url"),
        series_of(expected["backlink_id"].take(arrow_of(edges))).alias("backlink_id"),
        series_of(known.source.table["observed_at"].take(arrow_of(source[edges]))).alias("observed_at"),
    )
    return OCCURRENCES.conform(rows.select(OCCURRENCES.columns).to_arrow())


def discoveries(expected: pa.Table, source: Rows, known: Known, matched: Matched, links: pa.Table) -> pa.Table:
    """One `DISCOVERED_EDGES` row per new edge; run and page are those of the project's consumer of the source."""
    fresh = matched.discovered
    edges = fresh["edge"].to_numpy()
    consumer = [
        "tenant_id", "project_id", "crawl_run_id", "crawl_page_id", "source_url_id", "source_url", "source_url_hash",
        "source_registrable_domain",
    ]  # fmt: skip
    facts = ["position", "anchor_text", "rel_nofollow", "rel_ugc", "rel_sponsored", "follow", "is_image", "placement"]
    target = rows_of(links, fresh["link"], ["identity", "identity_hash", "host", "registrable_domain"])
    rows = pl.concat(
        [
            rows_of(expected, fresh["edge"], consumer),
            rows_of(links, fresh["link"], facts),
            target.select(
                target_url="identity",
                target_url_hash="identity_hash",
                target_host="host",
                target_registrable_domain=pl.coalesce("registrable_domain", "host"),
            ),
            fresh.select(pl.col("link_count").clip(upper_bound=65535).cast(pl.UInt16)),
        ],
        how="horizontal",
    ).with_columns(
        series_of(known.source.table["observed_at"].take(arrow_of(source[edges]))).alias("observed_at"),
        series_of(rule_lists(fresh["rule_key"], known.wanted.by_rule)).alias("target_rule_ids"),
    )
    rows = rows.sort("project_id", "source_url_id", "position")
    return DISCOVERED_EDGES.conform(rows.select(DISCOVERED_EDGES.columns).to_arrow())
