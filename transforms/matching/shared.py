"""What many edges and links share, worked out once for all slices. Here: distinct projects, targets and rules of the
expected edges; the links that could matter to anybody. Not here: who matches whom (`edges`), rows (`observations`).

Held at once, whatever the number of slices: 16 bytes an edge, 40 bytes a distinct (project, target), and the usable
links. Of most links of most pages nobody ever asks, and a look at the host tells: only the rest is taken apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from transforms.arrays import arrow_of, encoded, frame_of, numbers_of, series_of
from transforms.matching.rules import accepted, candidates, interesting_hosts, rule_frame
from transforms.matching.tolerance import bare_host, host_of, numbered_parts

BACKLINK_KINDS = ("a", "area")
TARGETS_AT_ONCE = 250_000
"""Distinct targets whose URLs are taken apart in one go: about 200 MB."""


@dataclass
class Wanted:
    """What the expected edges ask for."""

    projects: pl.DataFrame
    """project_id; a project's number `pid` is its row"""
    by_rule: pl.DataFrame
    """see `transforms.matching.rules.rule_frame`"""
    pair_of_edge: npt.NDArray[np.int32]
    """row of `pairs`"""
    pairs: pl.DataFrame
    """distinct (project, target): pid, target (row of targets), kid (hash of its comparison key), is_strict, rules (row of
    `rule_lists`)"""
    target_ids: npt.NDArray[np.uint64]
    target_urls: pl.Series
    target_hosts: pl.Series
    """distinct, without `www.`"""
    rule_lists: pa.ListArray
    """distinct lists of project_target_ids, sorted"""


def wanted(expected: pa.Table, rules: pa.Table) -> Wanted:
    """`expected`: `EXPECTED_EDGES`; `rules`: `TARGET_RULES`."""
    project = encoded(expected["project_id"])
    target = encoded(expected["target_url_id"])
    projects = pl.DataFrame({"project_id": series_of(project.dictionary)}, schema={"project_id": pl.Binary})
    by_rule = rule_frame(rules, projects.with_row_index("pid"))
    in_all = max(len(target.dictionary), 1)
    codes = numbers_of(target.indices)
    pids = numbers_of(project.indices).astype(np.uint64)
    pair = encoded(arrow_of(pids * np.uint64(in_all) + codes.astype(np.uint64)))
    both = numbers_of(pair.dictionary)
    pairs = pl.DataFrame({"pid": (both // in_all).astype(np.uint32), "target": (both % in_all).astype(np.uint32)})
    shown = np.empty(len(target.dictionary), np.int64)
    shown[codes] = np.arange(len(codes))  # some edge that names it
    urls = series_of(expected["target_url"]).gather(shown).rename("url")
    pairs, keys, hosts = _told(pairs, urls, by_rule)
    lists = encoded(keys.to_arrow())
    return Wanted(
        projects,
        by_rule,
        numbers_of(pair.indices),
        pairs.with_columns(rules=pl.Series(numbers_of(lists.indices).astype(np.uint32))),
        numbers_of(target.dictionary),
        urls,
        hosts,
        rule_lists(series_of(lists.dictionary), by_rule),
    )


def _told(pairs: pl.DataFrame, urls: pl.Series, by_rule: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
    """What a target's URL tells: (`pairs` with kid and is_strict, the rules of each as a text, hosts of all targets)."""
    pairs = pairs.with_row_index("pair")
    told, hosts = [], []
    for low in range(0, urls.len(), TARGETS_AT_ONCE):
        parts = numbered_parts(urls.slice(low, TARGETS_AT_ONCE)).with_columns(pl.col("url_id") + low)
        mine = pairs.filter(pl.col("target").is_between(low, low + TARGETS_AT_ONCE - 1)).rename({"target": "url_id"})
        of_targets = candidates(mine.select("pid", "url_id"), parts, by_rule)
        strict = of_targets.filter("is_strict").select("pid", "url_id", is_strict=True).unique()
        told.append(
            mine.join(parts.select("url_id", "kid"), on="url_id", how="left")
            .join(strict, on=["pid", "url_id"], how="left")
            .join(rule_keys(accepted(of_targets)), on=["pid", "url_id"], how="left")
            .select("pair", "kid", pl.col("is_strict").fill_null(value=False), pl.col("rule_key").fill_null(""))
        )
        hosts.append(parts.select(bare_host(pl.col("host")).unique()).to_series())
    if not told:
        none = pairs.select("pid", "target", kid=pl.lit(0, pl.UInt64), is_strict=False)
        return none, pl.Series([], dtype=pl.String), pl.Series([], dtype=pl.String)
    whole = pl.concat(told).sort("pair")
    return (
        pairs.drop("pair").with_columns(whole["kid"], whole["is_strict"]),
        whole["rule_key"],
        pl.concat(hosts).unique(),
    )


def rule_keys(hits: pl.DataFrame) -> pl.DataFrame:
    """`rule_key` of each (pid, url_id): the numbers of its rules, in order, joined by commas."""
    return (
        hits.sort("rule")
        .group_by("pid", "url_id")
        .agg(pl.col("rule").cast(pl.String))
        .select("pid", "url_id", rule_key=pl.col("rule").list.join(","))
    )


def rule_lists(keys: pl.Series, by_rule: pl.DataFrame) -> pa.ListArray:
    """The project_target_ids that rule keys name."""
    numbers = keys.str.extract_all(r"\d+").cast(pl.List(pl.UInt32))
    offsets = np.concatenate([[0], numbers.list.len().to_numpy().cumsum()]).astype(np.int32)
    ids = by_rule["project_target_id"].to_arrow().cast(pa.binary(16))
    flat = numbers.explode(empty_as_null=False).drop_nulls().to_arrow()
    return pa.ListArray.from_arrays(arrow_of(offsets), ids.take(flat))


def usable_links(
    links: pa.Table, sources: pl.DataFrame, redirects: pl.DataFrame | None, wanted: Wanted
) -> pl.DataFrame:
    """Links that could matter to anybody: link (row of `links`), source_url_id, url, via_redirect, followed, position.

    `sources` has those whose links are evidence: `source_url_id`, `manifest_id`. `redirects`: `source_url_id`,
    `link_identity`, `final_identity`.
    """
    columns = ["source_url_id", "manifest_id", "position", "kind", "identity", "follow"]
    own = (
        frame_of(links.select(columns))
        .with_row_index("link")
        .lazy()
        .filter(pl.col("kind").is_in(BACKLINK_KINDS) & pl.col("identity").is_not_null())
        # Links count only as part of the manifest that the standing outcome names.
        .join(sources.lazy(), on=["source_url_id", "manifest_id"], how="semi", maintain_order="left")
        .with_columns(followed=pl.col("follow") == "follow")
        .drop("manifest_id", "kind", "follow")
        .collect()
    )
    kept = own.select("link", "source_url_id", "position", "followed", url="identity", via_redirect=pl.lit(value=False))
    if redirects is not None and redirects.height:
        proven = redirects.unique(["source_url_id", "link_identity"])
        through = own.join(
            proven, left_on=["source_url_id", "identity"], right_on=["source_url_id", "link_identity"]
        ).filter(pl.col("final_identity") != pl.col("identity"))
        kept = pl.concat([
            kept,
            through.select(
                "link", "source_url_id", "position", "followed", url="final_identity", via_redirect=pl.lit(value=True)
            ),
        ])  # fmt: skip
    host = kept.select(host=host_of(pl.col("url")))["host"]
    hosts = host.unique().drop_nulls()
    is_of_target = bare_host(pl.col("host")).is_in(wanted.target_hosts.implode())
    of_targets = hosts.to_frame().filter(is_of_target)["host"]
    keep = pl.concat([of_targets, interesting_hosts(hosts, wanted.by_rule)]).unique()
    return kept.filter(host.is_in(keep.implode()))
