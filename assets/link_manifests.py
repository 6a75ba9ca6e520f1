"""Stage 3, `link_manifests`: parse stored snapshots offline; a page row and a row per link, reused where parsed before."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from assets import page_fetches, tables
from assets.partition import WindowShard, window_shards
from assets.platform import Platform
from crawl import parse_pool
from crawl.parse_pool import ParseJob
from transforms import evidence, html
from transforms.arrays import frame_of
from transforms.collapse import PRIOR_COLUMNS
from transforms.fetches import latest_fetches
from transforms.html import ParsedPage
from transforms.reasons import READABLE, Reason
from transforms.schemas import DUE_SOURCES, LINK_MANIFESTS, PAGE_FETCHES, PAGE_MANIFESTS
from warehouse.datasets import BadDataset
from warehouse.ledger import parses
from warehouse.objects import ObjectMissing
from warehouse.snapshots import SnapshotQuarantined

KEY = dg.AssetKey(["backlinks", "link_manifests"])
CLICKABLE = ("a", "area")
"""Kinds of links that a page's `link_count` counts."""
READABLE_CODES = sorted(reason.value for reason in READABLE)


def parse(platform: Platform, at: WindowShard) -> tuple[pa.Table, pa.Table, int]:
    """Manifest of every readable source of the partition: `(pages, links, how many pages were reused)`."""
    fetched = latest_fetches(platform.datasets.read(PAGE_FETCHES, at.window, at.shard))
    readable = fetched.filter(
        pc.and_(pc.is_in(fetched["reason"], pa.array(READABLE_CODES)), pc.is_valid(fetched["object_key"]))
    )
    wanted = {row["source_url_id"]: (_job(row), row["object_key"]) for row in readable.to_pylist()}
    pages, links = _reused(platform, {key: job.manifest_id for key, (job, _) in wanted.items()})
    have = set(pages["source_url_id"].to_pylist())
    reused = len(have)
    parts: list[tuple[pa.Table, pa.Table]] = [(pages, links)]
    todo = [(job, key) for source, (job, key) in wanted.items() if source not in have]
    lost: list[ParsedPage] = []
    lost_jobs: list[ParseJob] = []

    def bodies() -> Iterator[ParseJob]:
        loaded = platform.snapshots.get_many(key for _, key in todo)
        for (job, _), (key, body) in zip(todo, loaded, strict=True):
            if isinstance(body, bytes):
                yield replace(job, body=body)
            else:  # gone or damaged: no evidence, and the partition goes on
                if isinstance(body, SnapshotQuarantined):
                    # Away with it: while it stands, a 304 is believed and the page is never sent again.
                    platform.objects.delete([key])
                lost.append(html.failed_page(job.document_url, 0, Reason.ARTIFACT_UNAVAILABLE))
                lost_jobs.append(job)

    parse_pool.run_parse_many(bodies(), lambda *tables: parts.append(tables))
    parts.append(
        html.manifest_tables(
            lost, [j.key for j in lost_jobs], [j.manifest_id for j in lost_jobs], [j.content_hash for j in lost_jobs]
        )
    )
    page_table = pa.concat_tables(page for page, _ in parts)
    link_table = pa.concat_tables(link for _, link in parts)
    platform.datasets.write_part(LINK_MANIFESTS, at.window, at.shard, link_table, "all")
    key = platform.datasets.write_part(PAGE_MANIFESTS, at.window, at.shard, page_table, "all")
    parses.register_parsed(platform.ledger, page_table, manifest_key=key)
    due = platform.datasets.read(DUE_SOURCES, at.window, at.shard, ["source_url_id", *PRIOR_COLUMNS])
    looks = evidence.page_looks(evidence.source_evidence(fetched, page_table, pl.DataFrame(pl.from_arrow(due))))
    parses.remember_looks(platform.ledger, looks.to_arrow())
    return page_table, link_table, reused


def _job(row: dict[str, Any]) -> ParseJob:
    """The parse of a fetched page, its body still to be loaded."""
    return ParseJob(
        key=row["source_url_id"],
        body=b"",
        document_url=row["final_url"] or row["source_url"],
        content_hash=row["content_hash"],
        content_type=row["content_type"],
        x_robots_tag=tuple(row["x_robots_tag"]),
        link_header=tuple(row["link_header"]),
        refresh_header=row["refresh_header"],
        body_truncated=row["reason"] == Reason.BODY_TRUNCATED,
        fetched_at=row["fetched_at"],
    )


def _reused(platform: Platform, wanted: dict[int, bytes]) -> tuple[pa.Table, pa.Table]:
    """Rows of manifests that were written before, under the sources that need them now."""
    found = parses.find_parsed(platform.ledger, list(set(wanted.values()))).to_pylist()
    by_key: dict[str, list[bytes]] = defaultdict(list)
    for row in found:
        if row["reason"] not in parses.RETRIABLE | {Reason.ARTIFACT_UNAVAILABLE.value}:
            by_key[row["link_manifest_key"]].append(row["manifest_id"])
    sources = pl.DataFrame(
        {"source": list(wanted), "manifest_id": list(wanted.values())},
        schema={"source": pl.UInt64, "manifest_id": pl.Binary},
    )
    pages, links = [PAGE_MANIFESTS.empty()], [LINK_MANIFESTS.empty()]
    there = set(platform.objects.exists(list(by_key)))
    for key, ids in by_key.items():
        if key not in there:
            continue  # deleted by retention: parsed again
        links_key = key.replace(f"/{PAGE_MANIFESTS.name}/", f"/{LINK_MANIFESTS.name}/")
        keep = pads.field("manifest_id").isin(ids)
        try:
            found_pages = _once(platform.datasets.read_keys(PAGE_MANIFESTS, [key], filters=keep))
            found_links = _once(platform.datasets.read_keys(LINK_MANIFESTS, [links_key], filters=keep))
        except (BadDataset, ObjectMissing):
            continue  # another window's file is torn or gone: parsed again from the snapshots
        whole = whole_manifests(found_pages, found_links)
        for dataset, rows, tables_of in ((PAGE_MANIFESTS, found_pages, pages), (LINK_MANIFESTS, found_links, links)):
            moved = rows.join(whole, on="manifest_id", how="semi", maintain_order="left").drop("source_url_id")
            moved = moved.join(sources, on="manifest_id", maintain_order="left").rename({"source": "source_url_id"})
            tables_of.append(dataset.conform(moved.to_arrow()))
    return pa.concat_tables(pages), pa.concat_tables(links)


def _once(rows: pa.Table) -> pl.DataFrame:
    """A manifest's rows under one of its sources."""
    frame = frame_of(rows)
    return frame.filter(pl.col("source_url_id") == pl.col("source_url_id").first().over("manifest_id"))


def whole_manifests(pages: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """`manifest_id` of the pages whose link rows are all there.

    The two files of a partition are written one after the other. After a kill between them a page may stand without its
    links: reused, it would say that every link is absent.
    """
    clickable = links.filter(pl.col("kind").is_in(CLICKABLE)).group_by("manifest_id").len("rows")
    return (
        pages.join(clickable, on="manifest_id", how="left")
        .filter(pl.col("is_truncated") | (pl.col("link_count") == pl.col("rows").fill_null(0)))
        .select("manifest_id")
        .unique()
    )


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(key=KEY, deps=[page_fetches.KEY], partitions_def=partitions, group_name="parse", kinds={"parquet"})
    def link_manifests(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult:
        """What the pages say: a page row (robots, canonical, charset, completeness) and a row per link."""
        parsed = [parse(platform, at) for at in window_shards(context, platform)]
        pages = pa.concat_tables(page for page, _, _ in parsed)
        return dg.MaterializeResult(
            metadata={
                "pages": pages.num_rows,
                "links": sum(links.num_rows for _, links, _ in parsed),
                "reused": sum(reused for _, _, reused in parsed),
                "truncated": pc.sum(pages["is_truncated"]).as_py() or 0,
                "by_reason": tables.count_table(pages, ["reason", "charset"]),
            }
        )

    return link_manifests
