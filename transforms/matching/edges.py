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

from transforms.matching.rules import accepted, candidates, interesting_hosts, rule_frame
from transforms.matching.tolerance import REDIRECT, bare_host, differences, url_parts

BACKLINK_KINDS = ("a", "area")

_HOST = r"^[^:/?#]+://([^/?#]*)"


@dataclass
class Matched:
    """What one slice of sources gave. `edge` and `link` are row numbers of the slice's expected edges and links."""

    pairs: pl.DataFrame
    """edge, link, mask, via_redirect, rank (0 = stands for the edge)"""
    target_rules: pl.DataFrame
    """edge, target_rule_ids (sorted): of the target, or of the standing link for an any_target edge"""
    discovered: pl.DataFrame
    """pid, source_url_id, link (stands for it), link_count, target_rule_ids"""


def match_edges(
    edges: pl.DataFrame,
    links: pl.DataFrame,
    rules: pa.Table,
    sources: pl.Series,
    redirects: pl.DataFrame | None = None,
    *,
    discover: bool = True,
) -> Matched:
    """Match one slice.

    `edges`: `EXPECTED_EDGES` columns and `edge`; `links`: `LINK_MANIFESTS` columns and `link`; `sources`: ids of the
    sources whose links are evidence; `redirects`: `source_url_id`, `link_identity`, `final_identity`.
    """
    projects = edges.select("project_id").unique(maintain_order=True).with_row_index("pid")
    by_rule = rule_frame(rules, projects)
    narrow = edges.select("edge", "source_url_id", "project_id", "target_url_id", "any_target").join(
        projects, on="project_id", how="left", maintain_order="left"
    )
    targets = edges.select("target_url_id", url="target_url").unique("target_url_id", maintain_order=True)
    usable = _usable_links(links, sources, redirects, targets, by_rule)

    urls = pl.concat([targets["url"], usable["url"]]).unique(maintain_order=True)
    parts = url_parts(pl.DataFrame({"url": urls}).with_row_index("url_id")).with_columns(
        kid=pl.col("exact_key").hash(), url_id=pl.col("url_id").cast(pl.UInt32)
    )
    hosts = parts.select("host").unique().with_row_index("host_id")
    parts = parts.join(hosts, on="host", how="left", maintain_order="left")
    narrow = narrow.join(
        targets.join(parts.select("url", t_url="url_id"), on="url").select("target_url_id", "t_url"),
        on="target_url_id",
        how="left",
        maintain_order="left",
    )
    usable = usable.join(parts.select("url", "url_id"), on="url", how="left", maintain_order="left").drop("url")

    of_targets = candidates(narrow.select("pid", url_id="t_url").unique(), parts, by_rule)
    strict = of_targets.filter("is_strict").select("pid", t_url="url_id").unique().with_columns(is_strict=True)
    narrow = narrow.join(strict, on=["pid", "t_url"], how="left", maintain_order="left").with_columns(
        pl.col("is_strict").fill_null(value=False)
    )

    pairs = [_direct_pairs(narrow.filter(~pl.col("any_target")), usable, parts)]
    subscribers = narrow.select("source_url_id", "pid").unique()
    has_any = narrow["any_target"].any()
    hits = _empty_hits()
    if discover or has_any:
        if not discover:
            any_pids = narrow.filter("any_target").select("source_url_id", "pid").unique()
            subscribers = any_pids
        offered = usable.join(subscribers, on="source_url_id", maintain_order="left")
        hits = accepted(candidates(offered.select("pid", "url_id").unique(), parts, by_rule))
        best = hits.group_by("pid", "url_id").agg(
            pl.col("mask").sort_by(pl.col("mask").bitwise_count_ones(), "mask").first(),
            strict=pl.col("is_strict").any(),
        )
        offered = offered.join(best, on=["pid", "url_id"], maintain_order="left")
        if has_any:
            pairs.append(_any_pairs(narrow.filter("any_target"), offered))
    ranked = _ranked(pl.concat(pairs))
    found = Matched(ranked, _target_rules(narrow, ranked, usable, of_targets, hits, by_rule), _no_discoveries())
    if discover:
        found.discovered = _discoveries(narrow, ranked, offered, links, edges, parts, hits, by_rule)
    return found


def _usable_links(
    links: pl.DataFrame,
    sources: pl.Series,
    redirects: pl.DataFrame | None,
    targets: pl.DataFrame,
    by_rule: pl.DataFrame,
) -> pl.DataFrame:
    """Links that could matter to anybody: link, source_url_id, url, via_redirect, followed, position."""
    own = links.lazy().filter(
        pl.col("kind").is_in(BACKLINK_KINDS)
        & pl.col("identity").is_not_null()
        & pl.col("source_url_id").is_in(sources.implode())
    )
    columns: list[str | pl.Expr] = [
        "link",
        "source_url_id",
        "position",
        pl.col("follow").eq("follow").alias("followed"),
    ]
    direct = own.select(*columns, url="identity", via_redirect=pl.lit(value=False)).collect()
    if redirects is not None and redirects.height:
        proven = redirects.unique(["source_url_id", "link_identity"]).lazy()
        through = (
            own.join(proven, left_on=["source_url_id", "identity"], right_on=["source_url_id", "link_identity"])
            .filter(pl.col("final_identity") != pl.col("identity"))
            .select(*columns, url="final_identity", via_redirect=pl.lit(value=True))
            .collect()
        )
        direct = pl.concat([direct, through])
    host = pl.col("url").str.extract(_HOST, 1).str.replace(r":\d+$", "").str.strip_chars("[]")
    direct = direct.with_columns(_host=host)
    hosts = direct["_host"].unique().drop_nulls()
    bare = bare_host(pl.col("host"))
    of_targets = targets.select(host=host).unique().select(bare).to_series()
    wanted = pl.DataFrame({"host": hosts}).filter(bare.is_in(of_targets.implode()))["host"]
    keep = pl.concat([wanted, interesting_hosts(hosts, by_rule)]).unique()
    return direct.filter(pl.col("_host").is_in(keep.implode())).drop("_host")


def _direct_pairs(narrow: pl.DataFrame, usable: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """Edges and the links to their own targets: joined on one integer made of source and key, then compared in full."""
    keys = parts.select("url_id", "kid")

    def keyed(frame: pl.DataFrame, url: str) -> pl.DataFrame:
        with_kid = frame.join(keys, left_on=url, right_on="url_id", how="left", maintain_order="left")
        return with_kid.with_columns(_key=pl.struct("source_url_id", "kid").hash()).drop("kid")

    of_edges = keyed(narrow.select("edge", "source_url_id", "t_url", "is_strict"), "t_url")
    of_links = keyed(usable, "url_id")
    pairs = of_links.join(of_edges, on="_key", suffix="_of_edge").filter(
        pl.col("source_url_id") == pl.col("source_url_id_of_edge")
    )
    facts = ["scheme", "is_www", "tracking", "has_slash", "exact_key"]
    compare = parts.select("url_id", *facts)
    pairs = pairs.join(compare, on="url_id", how="left").join(
        compare.rename({name: f"t_{name}" for name in facts}), left_on="t_url", right_on="url_id", how="left"
    )
    pairs = pairs.filter(pl.col("exact_key") == pl.col("t_exact_key")).with_columns(
        mask=differences("", "t_", exact=True)
    )
    return pairs.filter((pl.col("mask") == 0) | ~pl.col("is_strict")).select(_PAIR)


_PAIR = ["edge", "link", "url_id", "mask", "via_redirect", "followed", "position"]


def _any_pairs(narrow: pl.DataFrame, offered: pl.DataFrame) -> pl.DataFrame:
    return narrow.select("edge", "source_url_id", "pid").join(offered, on=["source_url_id", "pid"]).select(_PAIR)


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


def _rule_ids(hits: pl.DataFrame, by_rule: pl.DataFrame) -> pl.DataFrame:
    return (
        hits.select("pid", "url_id", "rule")
        .unique()
        .sort("rule")
        .join(by_rule.select("rule", "project_target_id"), on="rule", how="left", maintain_order="left")
        .group_by("pid", "url_id")
        .agg(target_rule_ids="project_target_id")
    )


def _target_rules(
    narrow: pl.DataFrame,
    ranked: pl.DataFrame,
    usable: pl.DataFrame,
    of_targets: pl.DataFrame,
    hits: pl.DataFrame,
    by_rule: pl.DataFrame,
) -> pl.DataFrame:
    ids = _rule_ids(pl.concat([accepted(of_targets), hits]), by_rule)
    standing = ranked.filter(pl.col("rank") == 0).select("edge", "url_id")
    any_edges = narrow.filter("any_target").select("edge").join(standing, on="edge", how="inner")
    seen = (
        narrow.select("edge", "pid", "t_url")
        .join(any_edges, on="edge", how="left", maintain_order="left")
        .select("edge", "pid", url_id=pl.coalesce("url_id", "t_url"))
    )
    return seen.join(ids, on=["pid", "url_id"], how="inner").select("edge", "target_rule_ids")


def _discoveries(
    narrow: pl.DataFrame,
    ranked: pl.DataFrame,
    offered: pl.DataFrame,
    links: pl.DataFrame,
    edges: pl.DataFrame,
    parts: pl.DataFrame,
    hits: pl.DataFrame,
    by_rule: pl.DataFrame,
) -> pl.DataFrame:
    taken = ranked.select("edge", "link").join(narrow.select("edge", "pid"), on="edge").select("pid", "link").unique()
    homes = edges.select("source_url_id", home="source_registrable_domain").unique("source_url_id")
    fresh = (
        offered.filter(~pl.col("via_redirect"))
        .join(taken, on=["pid", "link"], how="anti")
        .join(homes, on="source_url_id")
        .join(links.select("link", site=pl.coalesce("registrable_domain", "host")), on="link")
        .filter(pl.col("home") != pl.col("site"))
        .join(parts.select("url_id", "kid"), on="url_id")
        .sort("pid", "source_url_id", "followed", "position", descending=[False, False, True, False])
        .group_by(
            "pid", "source_url_id", "kid", pl.when("strict").then("url_id").alias("_strict_url"), maintain_order=True
        )
        .agg(pl.col("link").first(), pl.col("url_id").first(), link_count=pl.len())
    )
    return (
        fresh.join(_rule_ids(hits, by_rule), on=["pid", "url_id"], how="left")
        .join(by_rule.select("pid", "project_id").unique(), on="pid", how="left")
        .select("project_id", "source_url_id", "link", "link_count", "target_rule_ids")
    )


def _empty_hits() -> pl.DataFrame:
    return pl.DataFrame(
        schema={"pid": pl.UInt32, "url_id": pl.UInt32, "rule": pl.UInt32, "mask": pl.UInt8, "is_strict": pl.Boolean}
    )


def _no_discoveries() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "project_id": pl.Binary,
            "source_url_id": pl.UInt64,
            "link": pl.UInt32,
            "link_count": pl.UInt32,
            "target_rule_ids": pl.List(pl.Binary),
        }
    )
