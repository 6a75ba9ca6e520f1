"""How fast matching is, and how much memory it takes. `python -m tests.bench.matching_bench [--links N] [--edges N]`.

Inputs are made shard by shard, as the flow reads them. Sources hold 1.6 edges on average (the blueprint's 62.5 million
sources for 100 million edges) unless told otherwise, pages hold 20 links, three of four edges of a page are still there
(spelled exactly or tolerantly), a tenth as many links are new; 2,000 projects have four rules each. What is measured is
`match_slices` alone: every expected edge becomes an observation row with its evidence and hashes; results are counted
and let go, as a stage that writes them would.
"""

from __future__ import annotations

import argparse
import resource
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.matching import match_slices
from transforms.schemas import (
    EXPECTED_EDGES,
    LINK_MANIFESTS,
    PAGE_FETCHES,
    PAGE_MANIFESTS,
    TARGET_HEALTH,
    TARGET_RULES,
    Dataset,
)

START = datetime(2026, 12, 1, 10, tzinfo=UTC)
PROJECTS = 2_000
TARGETS_PER_PROJECT = 300
LINKS_PER_PAGE = 20


def key(numbers: pl.Expr, width: int, salt: str) -> pl.Expr:
    """Distinct bytes of a width, made of a number."""
    return (pl.lit(salt) + numbers.cast(pl.String)).str.pad_end(width, "#").cast(pl.Binary)


def filled(dataset: Dataset, frame: pl.DataFrame) -> pa.Table:
    """The frame with the dataset's other columns as nulls, empty texts, zeros."""
    columns = []
    for field in dataset.schema:
        if field.name in frame.columns:
            columns.append(frame[field.name].to_arrow().cast(field.type))
        elif field.nullable:
            columns.append(pa.nulls(frame.height, field.type))
        else:
            empty: Any = [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
            empty = False if pa.types.is_boolean(field.type) else empty
            if pa.types.is_fixed_size_binary(field.type):
                empty = b"\0" * field.type.byte_width
            columns.append(pa.repeat(pa.scalar(empty, field.type), frame.height))
    return pa.Table.from_arrays(columns, schema=dataset.schema)


def target_url(project: pl.Expr, target: pl.Expr) -> pl.Expr:
    return pl.concat_str(
        pl.lit("https://www.shop"), project.cast(pl.String), pl.lit(".example/products/item-"), target.cast(pl.String)
    )


def make_shard(shard: int, shards: int, links: int, edges: int, per_source: float, seed: int = 7) -> dict[str, Any]:
    rng = np.random.default_rng(seed + shard)
    links, edges = links // shards, edges // shards
    sources, pages = int(edges / per_source), links // LINKS_PER_PAGE
    pages = min(pages, sources)
    source = pl.col("source_url_id")
    ids = pl.DataFrame({"source_url_id": (np.arange(sources, dtype=np.uint64) * shards + shard)})
    source_url = pl.concat_str(
        pl.lit("https://blog"),
        (source % 50_000).cast(pl.String),
        pl.lit(".source.example/posts/"),
        source.cast(pl.String),
    )
    project, target = rng.integers(0, PROJECTS, edges), rng.integers(0, TARGETS_PER_PROJECT, edges)
    expected = pl.DataFrame(
        {
            "source_url_id": ids["source_url_id"].to_numpy()[rng.integers(0, sources, edges)],
            "p": project,
            "t": target,
            "backlink_id": np.arange(edges, dtype=np.uint64) * shards + shard,
        }
    ).with_columns(
        tenant_id=key(pl.col("p") % 100, 16, "t"),
        project_id=key(pl.col("p"), 16, "p"),
        crawl_run_id=key(pl.col("p"), 16, "r"),
        crawl_page_id=pl.col("backlink_id"),
        source_url=source_url,
        source_url_hash=key(source, 32, "s"),
        source_registrable_domain=pl.lit("source.example"),
        target_url_id=(pl.col("p") * TARGETS_PER_PROJECT + pl.col("t")).cast(pl.UInt64),
        target_url=target_url(pl.col("p"), pl.col("t")),
        target_url_hash=key(pl.col("p") * TARGETS_PER_PROJECT + pl.col("t"), 32, "u"),
    )
    # Pages are those of the first sources; three of four of their edges are still there, spelled in several ways.
    paged = expected.filter(source < pages * shards)
    there = paged.filter(pl.Series(rng.random(paged.height) < 0.75))
    how = pl.Series(rng.integers(0, 5, there.height))
    url = pl.col("target_url")
    present = there.select(
        "source_url_id",
        identity=pl.when(how < 2)
        .then(url)
        .when(how == 2)
        .then(url.str.replace("https://www.", "http://", literal=True))
        .when(how == 3)
        .then(url + "?utm_source=newsletter&utm_medium=email")
        .otherwise(url + "/"),
    )
    fresh = there.select("source_url_id", identity=url + "-new").sample(fraction=0.1, seed=seed)
    filler = links - present.height - fresh.height
    number = pl.Series(rng.integers(0, 10_000_000, max(filler, 0)))
    strangers = pl.DataFrame(
        {"source_url_id": ids["source_url_id"].to_numpy()[rng.integers(0, max(pages, 1), max(filler, 0))], "n": number}
    ).select(
        "source_url_id",
        identity=pl.concat_str(
            pl.lit("https://www.site"),
            (pl.col("n") % 200_000).cast(pl.String),
            pl.lit(".example/p/"),
            pl.col("n").cast(pl.String),
        ),
    )
    manifest = pl.concat([present, fresh, strangers]).sort("source_url_id").with_row_index("n")
    host = pl.col("identity").str.extract(r"^https?://([^/]+)", 1)
    manifest = manifest.with_columns(
        manifest_id=key(source, 16, "m"),
        position=pl.int_range(pl.len(), dtype=pl.UInt32).over("source_url_id"),
        kind=pl.lit("a"),
        identity_hash=key(pl.col("n"), 32, "h"),
        host=host,
        registrable_domain=host.str.replace("www.", "", literal=True),
        anchor_text=pl.lit("an anchor of usual length ") + (pl.col("n") % 1000).cast(pl.String),
        follow=pl.when(pl.col("n") % 4 == 0).then(pl.lit("nofollow_link")).otherwise(pl.lit("follow")),
        placement=pl.lit("content"),
        occurrence_key=key(pl.col("n"), 32, "o"),
    )
    page = ids.head(pages).with_columns(
        manifest_id=key(source, 16, "m"), content_hash=key(source, 32, "c"), reason=pl.lit("ok"),
        parser_version=pl.lit("1"),
        title=pl.lit("A title"), link_count=pl.lit(LINKS_PER_PAGE, pl.UInt32), robots_indexable=pl.lit(value=True),
    )  # fmt: skip
    fetch = ids.head(pages).with_columns(
        source_url=source_url, content_hash=key(source, 32, "c"), reason=pl.lit("ok"), outcome=pl.lit("fetched"),
        http_status=pl.lit(200, pl.UInt16), final_url=source_url, fetched_at=pl.lit(START), fetch_job_id=source,
        object_key=pl.lit("snapshots/ab/cd/") + source.cast(pl.String),
    )  # fmt: skip
    health = expected.select("target_url_id", "target_url").unique("target_url_id").with_columns(
        outcome=pl.lit("fetched"), reason=pl.lit("ok"), health=pl.lit("ok"), http_status=pl.lit(200, pl.UInt16),
        checked_at=pl.lit(START), robots_indexable=pl.lit(value=True),
    )  # fmt: skip
    p = pl.DataFrame({"p": np.arange(PROJECTS)})
    rules = pl.concat(
        p.with_columns(scope=pl.lit(scope), url=url, n=pl.lit(n), include_subdomains=pl.lit(value=scope == "domain"))
        for n, (scope, url) in enumerate(
            [
                ("domain", pl.lit(None, pl.String)),
                ("url_prefix", target_url(pl.col("p"), pl.lit("1"))),
                ("exact_url", target_url(pl.col("p"), pl.lit("7"))),
                ("exact_url", target_url(pl.col("p"), pl.lit("8"))),
            ]
        )
    ).with_columns(
        project_id=key(pl.col("p"), 16, "p"),
        project_target_id=key(pl.col("p") * 4 + pl.col("n"), 16, "x"),
        host=pl.lit("shop") + pl.col("p").cast(pl.String) + pl.lit(".example"),
        registrable_domain=pl.lit("shop") + pl.col("p").cast(pl.String) + pl.lit(".example"),
    )
    return {
        "fetches": filled(PAGE_FETCHES, fetch),
        "pages": filled(PAGE_MANIFESTS, page),
        "links": filled(LINK_MANIFESTS, manifest.drop("n")),
        "expected": filled(EXPECTED_EDGES, expected.drop("p", "t")),
        "rules": filled(TARGET_RULES, rules.drop("p", "n")),
        "target_health": filled(TARGET_HEALTH, health),
    }


def rss_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--links", type=int, default=1_400_000)
    arguments.add_argument("--edges", type=int, default=10_000_000)
    arguments.add_argument("--shards", type=int, default=4)
    arguments.add_argument("--edges-per-source", type=float, default=1.6)
    asked = arguments.parse_args()
    total: dict[str, int] = {}
    wall = cpu = 0.0
    for shard in range(asked.shards):
        tables = make_shard(shard, asked.shards, asked.links, asked.edges, asked.edges_per_source)
        size = sum(table.nbytes for table in tables.values()) >> 20
        before = rss_mb()
        started, used = time.perf_counter(), time.process_time()
        for result in match_slices(window_start=START, **tables):
            for name, count in result.counts.items():
                total[name] = total.get(name, 0) + count
        wall, cpu = wall + time.perf_counter() - started, cpu + time.process_time() - used
        print(
            f"shard {shard}: {size:,} MB of input, peak {before:,} -> {rss_mb():,} MB, {wall:.1f} s so far", flush=True
        )
    shown = {name: f"{count:,}" for name, count in total.items() if ":" not in name}
    print(f"{shown}\n{wall:.1f} s wall, {cpu:.1f} s CPU, {total['edges'] / wall:,.0f} edges/s")


if __name__ == "__main__":
    main()
