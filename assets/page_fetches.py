"""Stage 2, `page_fetches`: fetch what the partition still lacks; one outcome row per source, with a reason code."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import crawl
from assets import due_sources, tables
from assets.partition import WindowShard, owns, window_shards
from assets.platform import Platform
from crawl.ports import FetchResult, FetchTask, Prior
from transforms.arrays import frame_of
from transforms.errors import TransientError
from transforms.fetches import latest_fetches
from transforms.reasons import Outcome
from transforms.schemas import DUE_SOURCES, PAGE_FETCHES
from warehouse.ledger import fetches as ledger_fetches
from warehouse.ledger.leases import Lease
from warehouse.snapshots import StoredSnapshot, object_key_of

KEY = dg.AssetKey(["backlinks", "page_fetches"])


class Stopped(TransientError):
    """A signal or a person stopped the crawl; what was fetched is committed."""


class FetchConfig(dg.Config):
    refetch: bool = False
    """Ask every source again, although the partition already holds its outcome."""


@dataclass
class PartitionSink:
    """Makes outcomes durable (`crawl.ports.FetchSink`): snapshots, then the Parquet part, then the ledger under the fence.

    Bodies are noted as pending before they are uploaded, so that an upload that was never committed can be found.
    The part comes before the ledger's commit, so that a crash between the two loses nothing: the next run finds the
    rows in the part and commits them to the ledger again (`reconcile`).
    """

    platform: Platform
    at: WindowShard
    lease: Lease

    def commit(self, results: Sequence[FetchResult]) -> None:
        bodies = {r.content_hash: r.body for r in results if r.body is not None and r.content_hash is not None}
        if bodies:
            pending = [
                StoredSnapshot(digest, object_key_of(digest), len(body), 0, True) for digest, body in bodies.items()
            ]
            ledger_fetches.reserve_snapshots(self.platform.ledger, pending, now=self.platform.clock.now())
        stored = self.platform.snapshots.put_many(list(bodies.values()))
        keys = {snapshot.content_hash: snapshot.object_key for snapshot in stored}
        for result in results:
            if result.object_key is None and result.content_hash is not None:
                result.object_key = keys.get(result.content_hash)
        table = tables.fetch_rows(results)
        first = min(results, key=lambda r: r.task.key)
        part = f"fence{self.lease.fence:06d}-{first.task.key}-{first.attempt}-{len(results)}"
        key = self.platform.datasets.write_part(PAGE_FETCHES, self.at.window, self.at.shard, table, part)
        try:
            self.reconcile(table, stored)
        except ledger_fetches.StaleFence:
            self.platform.objects.delete([key])  # the new owner fetches these again
            raise

    def reconcile(self, table: pa.Table, stored: Sequence[StoredSnapshot] = ()) -> None:
        ledger_fetches.commit_fetches(self.platform.ledger, table, stored, lease=self.lease)


def fetch(platform: Platform, at: WindowShard, *, refetch: bool, stop: crawl.Stop | None = None) -> pa.Table:
    """Fetch what the window x shard still lacks. Returns the partition's outcomes, one row per source."""
    due = platform.datasets.read(DUE_SOURCES, at.window, at.shard)
    with platform.lease(f"shard:{at.shard}", wait_s=900.0) as lease:
        # Read under the lease: what another run of the partition has just fetched is not asked for again.
        have = latest_fetches(platform.datasets.read(PAGE_FETCHES, at.window, at.shard))
        done = settled(platform, at, have)
        todo = due if refetch else due.filter(pc.invert(pc.is_in(due["source_url_id"], done["source_url_id"])))
        sink = PartitionSink(platform, at, lease)
        if done.num_rows and not refetch:
            sink.reconcile(done)
        if todo.num_rows:
            summary_of_crawl = crawl.run_batch(
                DueTasks(todo, unconditional=refetch),
                settings=platform.crawl,
                sink=sink,
                snapshots=platform.snapshots,
                origins=platform.origin_book(lease),
                clock=platform.clock,
                stop=stop,
                owns=owns(platform, at),
            )
            stopped_early(summary_of_crawl, f"the crawl of {at.key}")
    return latest_fetches(platform.datasets.read(PAGE_FETCHES, at.window, at.shard))


def settled(platform: Platform, at: WindowShard, outcomes: pa.Table) -> pa.Table:
    """The outcomes that are not asked for again. What was deferred is retried while its window is open; then it stays
    coverage debt of that window, so that materializing a past window again changes nothing."""
    if platform.clock.now() >= at.window.end:
        return outcomes
    return outcomes.filter(pc.not_equal(outcomes["outcome"], Outcome.DEFERRED.value))


def stopped_early(done: crawl.CrawlSummary, what: str) -> None:
    """Raises `Stopped` when a signal or a person ended the crawl before its end."""
    if done.stopped is not None:
        also = "" if done.error is None else f"; the last of them were not, because: {done.error}"
        raise Stopped(
            f"{what} was stopped ({done.stopped}): {done.committed} of {done.tasks} pages are committed, the next run "
            f"fetches the rest{also}"
        )


class DueTasks:
    """A due batch as tasks, each made when the crawl reads it: memory holds the batch as columns.

    Every host's most urgent page of each tenant comes first, then every second one: so all hosts are under way, and all
    tenants wait at a host that several of them want, however far the crawl has read.
    """

    def __init__(self, due: pa.Table, *, unconditional: bool) -> None:
        frame = frame_of(due)
        rank = pl.int_range(pl.len()).over("registrable_domain", "tenant_id")
        frame = frame.sort("priority", "due_at", "source_url_id", descending=[True, False, False])
        self._due = frame.with_columns(rank=rank).sort("rank", maintain_order=True).drop("rank")
        self._unconditional = unconditional

    def __len__(self) -> int:
        return self._due.height

    def __iter__(self) -> Iterator[FetchTask]:
        return (
            _task(row, unconditional=self._unconditional) for row in self._due.iter_rows(named=True, buffer_size=512)
        )


def _task(row: dict[str, Any], *, unconditional: bool) -> FetchTask:
    prior = None
    if not unconditional and row["prior_content_hash"] and row["prior_object_key"] and row["prior_document_url"]:
        headers = json.loads(row["prior_headers"] or "{}")
        prior = Prior(
            content_hash=row["prior_content_hash"],
            object_key=row["prior_object_key"],
            document_url=row["prior_document_url"],
            content_type=row["prior_content_type"],
            etag=row["prior_etag"],
            last_modified=row["prior_last_modified"],
            x_robots_tag=tuple(headers.get("x_robots_tag") or ()),
            link_header=tuple(headers.get("link_header") or ()),
            refresh_header=headers.get("refresh_header"),
        )
    return FetchTask(
        key=row["source_url_id"],
        url=row["source_url"],
        registrable_domain=row["registrable_domain"],
        job_id=row["fetch_job_id"],
        priority=row["priority"],
        due_at=row["due_at"],
        tenant=row["tenant_id"] or b"",
        tenant_weight=row["tenant_weight"] or 1,
        prior=prior,
    )


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=KEY,
        deps=[due_sources.KEY],
        partitions_def=partitions,
        group_name="crawl",
        kinds={"http", "parquet"},
        check_specs=[dg.AssetCheckSpec("every_source_has_an_outcome", asset=KEY)],
    )
    def page_fetches(
        context: dg.AssetExecutionContext, config: FetchConfig, platform: dg.ResourceParam[Platform]
    ) -> dg.MaterializeResult:
        """One outcome per source page: gates, robots, politeness, conditional GET, snapshot, reason code."""
        at = list(window_shards(context, platform))
        outcomes = pa.concat_tables(fetch(platform, each, refetch=config.refetch) for each in at)
        due = sum(platform.datasets.read(DUE_SOURCES, e.window, e.shard, ["source_url_id"]).num_rows for e in at)
        return dg.MaterializeResult(
            metadata=summary(outcomes),
            check_results=[
                dg.AssetCheckResult(
                    check_name="every_source_has_an_outcome",
                    passed=outcomes.num_rows == due,
                    metadata={"due": due, "outcomes": outcomes.num_rows},
                )
            ],
        )

    return page_fetches


def summary(outcomes: pa.Table) -> dict[str, dg.MetadataValue | int | float]:
    """What a person looks at: outcomes by reason, bytes, share of 304."""
    answered = outcomes.filter(
        pc.is_in(outcomes["outcome"], pa.array([Outcome.FETCHED, Outcome.NOT_MODIFIED], pa.string()))
    )
    not_modified = pc.sum(pc.equal(answered["outcome"], Outcome.NOT_MODIFIED.value)).as_py() or 0
    return {
        "sources": outcomes.num_rows,
        "wire_bytes": pc.sum(outcomes["wire_bytes"]).as_py() or 0,
        "body_bytes": pc.sum(outcomes["body_bytes"]).as_py() or 0,
        "not_modified": not_modified,
        "not_modified_share": round(not_modified / answered.num_rows, 3) if answered.num_rows else 0.0,
        "outcomes": tables.count_table(outcomes, ["outcome", "reason"]),
    }
