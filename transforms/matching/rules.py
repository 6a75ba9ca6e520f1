"""Which target rules of a project accept which URLs. Set-based over (project, distinct URL). Here: the four scopes.
Not here: what a person writes as a target (`transforms.targets`; the meaning is the same), which pages hold the URLs.

| scope | accepts |
|---|---|
| `domain`, `subdomain` | the rule's host; hosts below it when `include_subdomains`; tolerant of `www.` |
| `url_prefix` | URLs that begin with the rule's URL; tolerant of scheme, `www.` and click-tracking |
| `exact_url` | that URL; tolerant of scheme, `www.`, click-tracking and one trailing slash |

A strict rule accepts only what needs no tolerance. Hosts are compared label by label: `example.com` never accepts
`notexample.com`.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from transforms.arrays import frame_of
from transforms.matching.tolerance import TRACKING, WWW, bare_host, differences, url_parts

_PARTS = ("scheme", "is_www", "rest", "tracking", "has_slash", "prefix_key", "exact_key")


def rule_frame(rules: pa.Table, projects: pl.DataFrame) -> pl.DataFrame:
    """`TARGET_RULES` rows with a row number `rule`, the project's number `pid` and the parts of its URL (`rule_…`).

    `projects` has `project_id` and `pid`.
    """
    frame = frame_of(rules)
    frame = (
        frame.select(
            "project_id", "project_target_id", "scope", "url", "is_strict", "include_subdomains", rule_host="host"
        )
        .unique("project_target_id", keep="last", maintain_order=True)
        .with_columns(pl.col("rule_host").str.strip_chars("[]"))
        .join(projects, on="project_id", how="inner", maintain_order="left")
        .sort("project_target_id")  # rules are numbered in the order of their ids
        .with_row_index("rule")
    )
    parts = url_parts(frame.select("url").drop_nulls().unique(maintain_order=True))
    parts = parts.select("url", pl.col("host").alias("rule_url_host"), *(pl.col(p).alias(f"rule_{p}") for p in _PARTS))
    return frame.join(parts, on="url", how="left", maintain_order="left")


def candidates(wanted: pl.DataFrame, urls: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    """Every rule that would accept a URL if it were tolerant: `pid`, `url_id`, `rule`, `mask`, `is_strict`.

    `wanted`: distinct (`pid`, `url_id`); `urls`: `url_id` and parts, with the host's number `host_id`; `rules`: from
    `rule_frame`. A rule accepts the URL where `mask == 0` or it is not strict (`accepted`).
    """
    hosts = urls.select("host_id", "host").unique("host_id")
    at = wanted.join(urls.select("url_id", "host_id"), on="url_id")
    found = [
        _by_host(at, hosts, rules.filter(pl.col("scope").is_in(["domain", "subdomain"]))),
        _by_prefix(at, hosts, urls, rules.filter(pl.col("scope") == "url_prefix")),
        _by_url(wanted, urls, rules.filter(pl.col("scope") == "exact_url")),
    ]
    return pl.concat(found).join(rules.select("rule", "is_strict"), on="rule", how="left", maintain_order="left")


def accepted(of: pl.DataFrame) -> pl.DataFrame:
    """Those of the candidates whose rule really accepts the URL."""
    return of.filter((pl.col("mask") == 0) | ~pl.col("is_strict"))


def interesting_hosts(hosts: pl.Series, rules: pl.DataFrame) -> pl.Series:
    """Those of the distinct hosts that some rule could accept a URL of: a cheap sieve before any string work."""
    own = rules.select(pl.concat([pl.col("rule_host"), pl.col("rule_url_host").drop_nulls()]).unique()).to_series()
    bare = pl.select(bare_host(pl.lit(own))).to_series()
    names = pl.concat([own, bare]).unique()
    suffixes = _suffixes(hosts.unique())
    return suffixes.filter(pl.col("suffix").is_in(names.implode()))["host"].unique()


def _suffixes(hosts: pl.Series) -> pl.DataFrame:
    """`host` with each of its suffixes of whole labels, itself first: a.b.c -> a.b.c, b.c, c."""
    frame = pl.DataFrame({"host": hosts}).with_columns(_labels=pl.col("host").str.split("."))
    return (
        frame.with_columns(_from=pl.int_ranges(pl.col("_labels").list.len()))
        .explode("_from")
        .select("host", suffix=pl.col("_labels").list.slice(pl.col("_from")).list.join("."))
    )


def _by_host(at: pl.DataFrame, hosts: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    """Names are compared once per host; pages and projects meet them by number."""
    below = (
        hosts.join(_suffixes(hosts["host"]), on="host")
        .join(rules, left_on="suffix", right_on="rule_host")
        .select(
            "host_id",
            "pid",
            "rule",
            mask=pl.when((pl.col("host") == pl.col("suffix")) | pl.col("include_subdomains"))
            .then(pl.lit(0, pl.UInt8))
            .when(pl.col("host") == "www." + pl.col("suffix"))
            .then(pl.lit(WWW, pl.UInt8)),
        )
        .drop_nulls("mask")
    )
    # The rule itself was written with www. and the link goes to the bare host.
    bare = rules.with_columns(_bare=bare_host(pl.col("rule_host"))).filter(pl.col("_bare") != pl.col("rule_host"))
    beside = hosts.join(bare, left_on="host", right_on="_bare").select(
        "host_id", "pid", "rule", mask=pl.lit(WWW, pl.UInt8)
    )
    hits = pl.concat([below, beside]).group_by("host_id", "pid", "rule").agg(pl.col("mask").min())
    return at.join(hits, on=["pid", "host_id"]).select("pid", "url_id", "rule", "mask")


def _by_prefix(at: pl.DataFrame, hosts: pl.DataFrame, urls: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    near = hosts.select("host_id", bare=bare_host(pl.col("host"))).join(
        rules.with_columns(bare=bare_host(pl.col("rule_url_host"))), on="bare"
    )
    pairs = at.join(near, on=["pid", "host_id"]).join(
        urls.select("url_id", "scheme", "is_www", "rest", "prefix_key"), on="url_id"
    )
    pairs = pairs.filter(pl.col("prefix_key").str.starts_with(pl.col("rule_prefix_key")))
    raw = (
        pl.when(pl.col("rest").str.starts_with(pl.col("rule_rest")))
        .then(pl.lit(0, pl.UInt8))
        .otherwise(pl.lit(TRACKING, pl.UInt8))
    )
    return pairs.select("pid", "url_id", "rule", mask=differences("", "rule_", exact=False) | raw)


def _by_url(wanted: pl.DataFrame, urls: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    parts = urls.select("url_id", "scheme", "is_www", "tracking", "has_slash", "exact_key")
    # Sieve first: few of a page's URLs are anybody's exact target.
    parts = parts.join(
        rules.select("rule_exact_key").unique(), left_on="exact_key", right_on="rule_exact_key", how="semi"
    )
    pairs = wanted.join(parts, on="url_id").join(
        rules, left_on=["pid", "exact_key"], right_on=["pid", "rule_exact_key"]
    )
    return pairs.select("pid", "url_id", "rule", mask=differences("", "rule_", exact=True))
