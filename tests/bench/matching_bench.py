"""How fast matching is, and how much memory it takes. `python -m tests.bench.matching_bench [--links N] [--edges N] ...`.

Inputs are made shard by shard, sorted as the files of the flow are. Sources hold 1.6 edges on average (the blueprint's 62.5 million
sources for 100 million edges) unless told otherwise, pages hold 20 links, three of four edges of a page are still there
(spelled exactly or tolerantly), a tenth as many links are new; 2,000 projects have four rules each. With 1.4 million
links and 10 million edges one source in 90 has a page; `--edges-per-source 143` gives every source one.

What is measured, in the order of the table:
- *shared*: what each source's check proves; the distinct targets, their rules and keys; the few links that could matter.
- *match*: which link stands for which edge, all occurrences, and what is new.
- *columns*: a full evidence row per edge, but for its three keys: all 52 columns of `link_observations` as Arrow, with
  the matched link, the source's and target's health, the rules, and why the edge is found, missing or none.
- *occurrences*: those rows, and the rows of new edges.
- *keys*: `idempotency_key` and `observation_id` (a SHA-256 per edge) and `evidence_hash` (one per edge over those of its
  parts).
"Pure match" is everything but *keys*. Results are counted and let go, as a stage that writes them would.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.matching.observations import discoveries, occurrences
from transforms.matching.window import ROWS_PER_SLICE, Batch
from transforms.schemas import (
    EXPECTED_EDGES,
    LINK_MANIFESTS,
    LINK_OBSERVATIONS,
    PAGE_FETCHES,
    PAGE_MANIFESTS,
    TARGET_HEALTH,
    TARGET_RULES,
    Dataset,
)

START = datetime(2026, 12, 1, 10, tzinfo=UTC)
ROW_GROUP_ROWS = 128 * 1024
"""As in the flow's files."""
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
        "expected": filled(EXPECTED_EDGES, expected.drop("p", "t").sort(EXPECTED_EDGES.sort_by)),
        "rules": filled(TARGET_RULES, rules.drop("p", "n")),
        "target_health": filled(TARGET_HEALTH, health),
    }


def save_shard(folder: Path, *asked: Any) -> None:
    for name, table in make_shard(*asked).items():
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=ROW_GROUP_ROWS)


def load_shard(*asked: Any) -> dict[str, pa.Table]:
    """A shard's input, made in a process of its own: the peak of this one is that of matching."""
    with TemporaryDirectory() as folder:
        maker = multiprocessing.get_context("spawn").Process(target=save_shard, args=(Path(folder), *asked))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        return {path.name: pa.ipc.open_file(path.read_bytes()).read_all() for path in Path(folder).iterdir()}


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Clock:
    """Wall and CPU seconds by stage."""

    def __init__(self) -> None:
        self.wall: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name] += time.perf_counter() - wall
        self.cpu[name] += time.process_time() - cpu

    def lines(self, edges: int) -> Iterator[str]:
        stages = list(self.wall)
        sums = {"pure match": [name for name in stages if name != "keys"], "all": stages}
        for name, parts in ({name: [name] for name in stages} | sums).items():
            wall, cpu = (sum(clock[part] for part in parts) for clock in (self.wall, self.cpu))
            yield f"| {name} | {wall:.1f} | {cpu:.1f} | {cpu / edges * 1e6:.2f} |"


def match_shard(tables: dict[str, Any], clock: Clock, rows: int) -> Counter[str]:
    """What `match_window` does, stage by stage."""
    total: Counter[str] = Counter()
    with clock.stage("shared"):
        batch = Batch(window_start=START, **tables)
    slices = batch.slices(rows)
    while True:
        with clock.stage("shared"):
            part = next(slices, None)
        if part is None:
            return total
        with clock.stage("match"):
            matched = batch.match(part)
        with clock.stage("columns"):
            observed = batch.observe(part, matched)
            counts = observed.counts()
            columns = observed.columns()
        with clock.stage("occurrences"):
            seen = occurrences(part.expected, part.source, batch.known, matched, batch.links)
            fresh = discoveries(part.expected, part.source, batch.known, matched, batch.links)
        with clock.stage("keys"):
            columns |= observed.keys()
        assert len(columns) == len(LINK_OBSERVATIONS.columns)
        total.update(counts)
        total.update(edges=part.expected.num_rows, occurrences=seen.num_rows, discovered=fresh.num_rows)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--links", type=int, default=1_400_000)
    arguments.add_argument("--edges", type=int, default=10_000_000)
    arguments.add_argument("--shards", type=int, default=4)
    arguments.add_argument("--edges-per-source", type=float, default=1.6)
    arguments.add_argument("--rows-per-slice", type=int, default=ROWS_PER_SLICE)
    asked = arguments.parse_args()
    clock, total, largest = Clock(), Counter[str](), 0
    load = os.getloadavg()[0]
    for shard in range(asked.shards):
        tables = load_shard(shard, asked.shards, asked.links, asked.edges, asked.edges_per_source)
        largest = max(largest, sum(table.nbytes for table in tables.values()) >> 20)
        total.update(match_shard(tables, clock, asked.rows_per_slice))
    print(
        f"{asked.links:,} links, {asked.edges:,} edges, {asked.shards} shards, load {load:.1f} to {os.getloadavg()[0]:.1f}"
    )
    print(", ".join(f"{name} {count:,}" for name, count in total.items() if ":" not in name))
    print("\n| stage | wall s | CPU s | CPU µs an edge |\n|---|---|---|---|", *clock.lines(total["edges"]), sep="\n")
    print(f"\npeak {peak_mb():,} MB, of it {largest:,} MB the input of one shard")


if __name__ == "__main__":
    main()
