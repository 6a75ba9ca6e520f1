"""Stage 3, `link_manifests`: parse stored snapshots offline; a page row and a row per link, reused where parsed before."""

from collections import defaultdict

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from assets import page_fetches, tables
from assets.partition import WindowShard, window_shards
from assets.platform import Platform
from crawl import parse_pool
from transforms import html
from transforms.fetches import latest_fetches
from transforms.reasons import READABLE
from transforms.schemas import LINK_MANIFESTS, PAGE_FETCHES, PAGE_MANIFESTS
from warehouse.ledger import parses

KEY = dg.AssetKey(["backlinks", "link_manifests"])
BATCH = 500
"""Bodies in memory at once."""


def parse(platform: Platform, at: WindowShard) -> tuple[pa.Table, pa.Table, int]:
    """Manifest of every readable source of the partition: `(pages, links, how many pages were reused)`."""
    fetched = latest_fetches(platform.datasets.read(PAGE_FETCHES, at.window, at.shard))
    readable = fetched.filter(pc.is_in(fetched["reason"], pa.array([r.value for r in READABLE], pa.string())))
    readable = readable.filter(pc.is_valid(readable["object_key"]))
    jobs = [_job(row) for row in readable.to_pylist()]
    reused = _reuse(platform, jobs)
    pages, links = [reused[0]], [reused[1]]
    have = set(reused[0]["source_url_id"].to_pylist())
    todo = [job for job in jobs if job.source_url_id not in have]
    for start in range(0, len(todo), BATCH):
        parsed_pages, parsed_links = parse_pool.parse_many(todo[start : start + BATCH], load=platform.snapshots.get)
        pages.append(parsed_pages)
        links.append(parsed_links)
    page_table, link_table = pa.concat_tables(pages), pa.concat_tables(links)
    platform.datasets.write_part(LINK_MANIFESTS, at.window, at.shard, link_table, "all")
    key = platform.datasets.write_part(PAGE_MANIFESTS, at.window, at.shard, page_table, "all")
    parses.register_parsed(platform.ledger, page_table, manifest_key=key)
    return page_table, link_table, len(have)


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
