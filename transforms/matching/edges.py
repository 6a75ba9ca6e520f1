"""Links x expected edges -> pairs; the link that stands for an edge; what is new. Set-based over one slice of sources.

Here: who matches whom. Not here: string work (`tolerance`), scopes (`rules`), evidence (`transforms.evidence`).

Decided here:
- Only `a` and `area` are backlinks; frames, forms, canonicals, refreshes and Link headers never are.
- An expected edge matches links to its own target, as tolerantly as an exact_url target. It is strict as soon as one
  strict rule of its project covers its target (tolerance aside): who says strict of a URL means every edge to it.
- An `any_target` edge matches every link that a rule of its project accepts.
- Several links: all are occurrences. Direct ones stand before redirected ones, followed ones before the others, then
  document order.
- A link through a redirector counts when `link_redirects` proves where it leads, and is then marked. Whoever fills that
  table decides which redirectors are the source's own.
- New: a direct link that a rule accepts, that no expected edge of that project and source matches, and that leaves the
  source's registrable domain (a link within one's own site is no backlink). Tolerantly equal links are one new edge,
  named after the one that stands for it, because each would match both of two edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from transforms.arrays import rows_of, series_of
from transforms.matching.rules import accepted, candidates
from transforms.matching.shared import Wanted, rule_keys
from transforms.matching.tolerance import REDIRECT, differences, numbered_parts, url_parts


@dataclass
class Matched:
    """What one slice of sources gave. `edge` is a row number of the slice's expected edges, `link` one of all links."""

    pairs: pl.DataFrame
    """edge, link, mask, via_redirect, rank (0 = stands for the edge)"""
    any_rules: pl.DataFrame
    """edge, rule_key: rules that accept the standing link of an any_target edge"""
    discovered: pl.DataFrame
    """edge (one of that project and source), link (stands for it), link_count, rule_key"""


def match_edges(
    edges: pl.DataFrame, links: pl.DataFrame, wanted: Wanted, expected: pa.Table, all_links: pa.Table, *, discover: bool
) -> Matched:
    """Match one slice.

    `edges`: edge, source_url_id, pair, any_target of those whose source can be evidence; `links`: `shared.usable_links`
    of the slice; `expected`: the slice's `EXPECTED_EDGES`, `all_links`: `LINK_MANIFESTS`, read for what is new alone.
    """
    if not edges.height or not links.height:
        return Matched(_NO_PAIRS, _NO_RULES, _NO_DISCOVERIES)
    edges = edges.with_columns(wanted.pairs[column].gather(edges["pair"]) for column in ("pid", "kid", "is_strict"))
    parts = numbered_parts(links["url"].unique(maintain_order=True))
    links = links.join(parts.select("url", "url_id", "kid"), on="url", maintain_order="left").drop("url")

    direct = _direct_pairs(edges.filter(~pl.col("any_target")), links, parts, wanted)
    of_any = edges.filter("any_target").select("edge", "source_url_id", "pid")
    subscribers = (edges if discover else of_any).select("source_url_id", "pid").unique()
    offered = links.join(subscribers, on="source_url_id", maintain_order="left")
    hits = accepted(candidates(offered.select("pid", "url_id").unique(), parts, wanted.by_rule))
    best = hits.group_by("pid", "url_id").agg(
        pl.col("mask").sort_by(pl.col("mask").bitwise_count_ones(), "mask").first(),
        strict=pl.col("is_strict").any(),
    )
    offered = offered.join(best, on=["pid", "url_id"], maintain_order="left")
    ranked = _ranked(pl.concat([direct, of_any.join(offered, on=["source_url_id", "pid"]).select(_PAIR)]))
    keys = rule_keys(hits)
    any_rules = (
        of_any.join(ranked.filter(pl.col("rank") == 0), on="edge")
        .join(keys, on=["pid", "url_id"])
        .select("edge", "rule_key")
    )
    found = Matched(ranked, any_rules, _NO_DISCOVERIES)
    if discover:
        found.discovered = (
            _discoveries(edges, ranked, offered, expected, all_links)
            .join(keys, on=["pid", "url_id"], how="left", maintain_order="left")
            .select(_NO_DISCOVERIES.columns)
        )
    return found


def _direct_pairs(edges: pl.DataFrame, links: pl.DataFrame, parts: pl.DataFrame, wanted: Wanted) -> pl.DataFrame:
    """Edges and the links to their own targets: joined on one integer made of source and key, then compared in full."""
    key = pl.col("source_url_id").hash() ^ pl.col("kid")
    of_edges = edges.select("edge", "source_url_id", "pair", "is_strict", _key=key)
    pairs = (
        links.with_columns(_key=key)
        .join(of_edges, on="_key", suffix="_of_edge")
        .filter(pl.col("source_url_id") == pl.col("source_url_id_of_edge"))
    )
    facts = ["scheme", "is_www", "tracking", "has_slash", "exact_key"]
    pairs = pairs.with_columns(target=wanted.pairs["target"].gather(pairs["pair"]))
    targets = pl.DataFrame({"target": pairs["target"].unique()})
    targets = targets.with_columns(url=wanted.target_urls.gather(targets["target"]))
    pairs = pairs.join(parts.select("url_id", *facts), on="url_id", how="left").join(
        url_parts(targets).select("target", *(pl.col(name).alias(f"t_{name}") for name in facts)),
        on="target",
        how="left",
    )
    pairs = pairs.filter(pl.col("exact_key") == pl.col("t_exact_key")).with_columns(
        mask=differences("", "t_", exact=True)
    )
    return pairs.filter((pl.col("mask") == 0) | ~pl.col("is_strict")).select(_PAIR)


def _ranked(pairs: pl.DataFrame) -> pl.DataFrame:
    """Each (edge, link) once, with its place in the order in which links stand for the edge."""
    order = ["edge", "via_redirect", "followed", "position"]
    pairs = pairs.sort(order, descending=[False, False, True, False]).unique(
        ["edge", "link"], keep="first", maintain_order=True
    )
    return pairs.with_columns(
        mask=pl.when("via_redirect").then(pl.col("mask") | pl.lit(REDIRECT, pl.UInt8)).otherwise("mask"),
        rank=pl.int_range(pl.len(), dtype=pl.UInt32).over("edge"),
    )


def _discoveries(
    edges: pl.DataFrame, ranked: pl.DataFrame, offered: pl.DataFrame, expected: pa.Table, all_links: pa.Table
) -> pl.DataFrame:
    """pid, url_id, edge, link, link_count"""
    taken = ranked.select("edge", "link").join(edges.select("edge", "pid"), on="edge").select("pid", "link").unique()
    consumers = edges.group_by("source_url_id", "pid").agg(pl.col("edge").min())
    fresh = (
        offered.filter(~pl.col("via_redirect"))
        .join(taken, on=["pid", "link"], how="anti")
        .join(consumers, on=["source_url_id", "pid"])
    )
    homes = expected["source_registrable_domain"].take(fresh["edge"].to_arrow())
    sites = rows_of(all_links, fresh["link"], ["registrable_domain", "host"]).select(
        pl.coalesce("registrable_domain", "host")
    )
    return (
        fresh.filter(series_of(homes) != sites.to_series())
        .sort("pid", "source_url_id", "followed", "position", descending=[False, False, True, False])
        .group_by(
            "pid", "source_url_id", "kid", pl.when("strict").then("url_id").alias("_strict_url"), maintain_order=True
        )
        .agg(pl.col("edge", "link", "url_id").first(), link_count=pl.len())
    )


_PAIR = ["edge", "link", "url_id", "mask", "via_redirect", "followed", "position"]
_NO_PAIRS = pl.DataFrame(
    schema={
        "edge": pl.UInt32,
        "link": pl.UInt32,
        "position": pl.UInt32,
        "mask": pl.UInt8,
        "via_redirect": pl.Boolean,
        "rank": pl.UInt32,
    }
)
_NO_RULES = pl.DataFrame(schema={"edge": pl.UInt32, "rule_key": pl.String})
_NO_DISCOVERIES = pl.DataFrame(
    schema={"edge": pl.UInt32, "link": pl.UInt32, "link_count": pl.UInt32, "rule_key": pl.String}
)
