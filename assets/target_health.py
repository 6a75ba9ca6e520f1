"""Stage 4, `target_health`: does each monitored target page answer, and may it be indexed? Independent of the sources."""

from collections.abc import Sequence

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import crawl
from assets import tables
from assets.link_manifests import READABLE_CODES
from assets.page_fetches import settled, stopped_early
from assets.partition import WindowShard, owns, shards_of, window_shards
from assets.platform import Platform
from crawl import parse_pool
from crawl.memory import MemorySink, MemorySnapshots
from crawl.parse_pool import ParseJob
from crawl.ports import FetchResult, FetchTask
from transforms.arrays import frame_of
from transforms.evidence import health_expr
from transforms.reasons import Reason
from transforms.schemas import PAGE_MANIFESTS, TARGET_HEALTH
from warehouse import clickhouse
from warehouse.ledger import targets

KEY = dg.AssetKey(["backlinks", "target_health"])


def check(platform: Platform, at: WindowShard) -> pa.Table:
    """Check what the window x shard has claimed and not yet checked. Returns all of its `TARGET_HEALTH` rows."""
    claimed = targets.claim_targets(
        platform.ledger, window=at.window, shard=at.shard, shards=shards_of(platform, at.window),
        now=platform.clock.now(), owner=platform.owner,
    )  # fmt: skip
    have = settled(platform, at, platform.datasets.read(TARGET_HEALTH, at.window, at.shard))
    if _lacking(claimed, have).num_rows:
        sink = MemorySink()
        with platform.lease(f"shard:{at.shard}", wait_s=900.0) as lease:
            # Again under the lease: what another run of the partition has just checked stays, and is not asked again.
            have = settled(platform, at, platform.datasets.read(TARGET_HEALTH, at.window, at.shard))
            done = crawl.run_batch(
                [
                    FetchTask(
                        key=row["target_url_id"], url=row["target_url"], registrable_domain=row["registrable_domain"]
                    )
                    for row in _lacking(claimed, have).to_pylist()
                ],
                settings=platform.crawl,
                sink=sink,
                snapshots=MemorySnapshots(),
                origins=platform.origin_book(lease),
                clock=platform.clock,
                owns=owns(platform, at),
            )
            have = pa.concat_tables([have, health_rows(sink.results)])
            platform.datasets.write_part(TARGET_HEALTH, at.window, at.shard, have, "all")
            targets.commit_targets(platform.ledger, have, window=at.window, lease=lease)
            stopped_early(done, f"the target checks of {at.key}")
    elif have.num_rows:
        targets.commit_targets(platform.ledger, have, window=at.window)
    clickhouse.load_target_health(platform.clickhouse, have, at.window)
    return have


def _lacking(claimed: pa.Table, have: pa.Table) -> pa.Table:
    return claimed.filter(pc.invert(pc.is_in(claimed["target_url_id"], have["target_url_id"])))


def health_rows(results: Sequence[FetchResult]) -> pa.Table:
    """`TARGET_HEALTH` rows: the outcome, and what a page that was read says of its canonical and of robots."""
    pages = [PAGE_MANIFESTS.empty()]
    parse_pool.run_parse_many(
        (
            ParseJob(
                key=result.task.key,
                body=result.body,
                document_url=result.final_url or result.task.url,
                content_hash=result.content_hash or b"",
                content_type=result.content_type,
                x_robots_tag=tuple(result.x_robots_tag),
                link_header=tuple(result.link_header),
                refresh_header=result.refresh_header,
                fetched_at=result.fetched_at,
            )
            for result in results
            if result.reason.value in READABLE_CODES and result.body is not None
        ),
        lambda page, _links: pages.append(page),
    )
    said = {row["source_url_id"]: row for row in pa.concat_tables(pages).to_pylist()}
    rows = []
    for result in results:
        page = said.get(result.task.key)
        canonicals = [*page["canonical_header"], *page["canonical_html"]] if page else []
        reason = Reason(page["reason"]) if page and page["reason"] in _PAGE_IS_A_BLOCK else result.reason
        rows.append(
            {
                "target_url_id": result.task.key,
                "target_url": result.task.url,
                "outcome": result.outcome.value,
                "reason": reason.value,
                "health": "unknown",  # filled in below, for all rows at once
                "http_status": result.http_status,
                "final_url": result.final_url,
                "is_redirected": result.is_redirected,
                "canonical_url": canonicals[0] if canonicals else None,
                "robots_indexable": page["robots_indexable"] if page else None,
                "checked_at": result.fetched_at,
                "elapsed_ms": result.elapsed_ms,
            }
        )
    frame = frame_of(TARGET_HEALTH.table(rows))
    return TARGET_HEALTH.conform(frame.with_columns(health=health_expr(pl.col("reason"))).to_arrow())


_PAGE_IS_A_BLOCK = frozenset({Reason.CHALLENGE.value, Reason.CONSENT_WALL.value})


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(key=KEY, partitions_def=partitions, group_name="crawl", kinds={"http", "parquet"})
    def target_health(context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]) -> dg.MaterializeResult:
        """Status, redirect, canonical and indexability of the customers' pages. Never says that a link is lost."""
        rows = pa.concat_tables(check(platform, at) for at in window_shards(context, platform))
        return dg.MaterializeResult(
            metadata={
                "targets": rows.num_rows,
                "ok": pc.sum(pc.equal(rows["health"], "ok")).as_py() or 0,
                "redirected": pc.sum(rows["is_redirected"]).as_py() or 0,
                "by_health": tables.count_table(rows, ["health", "reason"]),
            }
        )

    return target_health
