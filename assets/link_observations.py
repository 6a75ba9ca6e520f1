"""Stage 5, `link_observations`: manifests x expected edges x target rules → one evidence row per edge; new edges are
registered; everything is loaded into ClickHouse."""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from assets import due_sources, link_manifests, redirect_checks, tables, target_health
from assets.partition import windows
from assets.platform import Platform
from transforms import matching
from transforms.fetches import latest_fetches
from transforms.schemas import (
    DUE_SOURCES,
    EXPECTED_EDGES,
    LINK_MANIFESTS,
    LINK_OBSERVATIONS,
    LINK_REDIRECTS,
    OCCURRENCES,
    PAGE_FETCHES,
    PAGE_MANIFESTS,
    TARGET_RULES,
    Dataset,
)
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.ledger import edges, projects
from warehouse.ledger.tables import EDGES, URLS

KEY = dg.AssetKey(["backlinks", "link_observations"])


BATCH_ROWS = 500_000
"""Expected edges plus links that are read and matched at once, whatever a shard holds."""

_SEEN = pa.schema([LINK_OBSERVATIONS.schema.field(name) for name in ("observation_id", "evidence", "evidence_reason")])


def observe(platform: Platform, window: Window) -> tuple[pa.Table, dict[str, int]]:
    """Evidence of every expected edge of the window, in batches of sources. Returns (observation_id, evidence and reason of
    every edge; counts)."""
    store = platform.datasets
    seen = [_SEEN.empty_table()]
    counts: list[dict[str, int]] = []
    shards = sorted({key.rsplit("shard=", 1)[-1].split("/")[0] for key in store.part_keys(EXPECTED_EDGES, window)})
    for shard in map(int, shards):
        written: set[str] = set()
        for number, batch in enumerate(_batches(platform, window, shard)):
            observations, occurrences, count = _observe_batch(platform, window, shard, batch)
            for dataset, rows in ((OCCURRENCES, occurrences), (LINK_OBSERVATIONS, observations)):
                written.add(store.write_part(dataset, window, shard, rows, f"batch-{number:04}"))
            loaded = clickhouse.load_observations(platform.clickhouse, observations)
            seen.append(observations.select(_SEEN.names))
            counts.append(count | {"loaded_new": loaded.new, "loaded_corrected": loaded.corrected})
        # An earlier run may have cut its rows otherwise.
        there = {key for dataset in (OCCURRENCES, LINK_OBSERVATIONS) for key in store.part_keys(dataset, window, shard)}
        platform.objects.delete(there - written)
    return pa.concat_tables(seen), tables.total(counts)


def _batches(platform: Platform, window: Window, shard: int) -> list[pads.Expression | None]:
    """Ranges of sources, as filters; None is all of them."""
    edges_of, links_of = (
        platform.datasets.read(dataset, window, shard, columns=["source_url_id"])["source_url_id"]
        for dataset in (EXPECTED_EDGES, LINK_MANIFESTS)
    )
    field = pads.field("source_url_id")
    filters: list[pads.Expression | None] = []
    for low, high in matching.source_ranges(edges_of, links_of, BATCH_ROWS):
        bounds = [field >= pa.scalar(low, pa.uint64())] if low is not None else []
        bounds += [field < pa.scalar(high, pa.uint64())] if high is not None else []
        filters.append(reduce(and_, bounds) if bounds else None)
    return filters


def _observe_batch(
    platform: Platform, window: Window, shard: int, only: pads.Expression | None
) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """(observations, occurrences, counts) of some sources; what they show that is new is registered and observed too."""

    def read(dataset: Dataset, columns: Sequence[str] | None = None) -> pa.Table:
        return platform.datasets.read(dataset, window, shard, columns=columns, filters=only)

    fetches = latest_fetches(read(PAGE_FETCHES))
    clickhouse.load_fetches(platform.clickhouse, fetches, window)
    inputs: dict[str, Any] = {
        "window_start": window.start,
        "fetches": fetches,
        "pages": read(PAGE_MANIFESTS),
        "links": read(LINK_MANIFESTS, matching.LINK_COLUMNS),
        "rules": _of_living_projects(platform, platform.datasets.read(TARGET_RULES, window, shard)),
        "due": read(DUE_SOURCES),
        "link_redirects": read(LINK_REDIRECTS),
    }
    expected = _of_living_projects(platform, read(EXPECTED_EDGES))
    health = _health(platform, window, expected["target_url_id"])
    matched = matching.match_window(**inputs, expected=expected, target_health=health)
    found = _register(platform, matched.discovered)
    fresh = matching.observe_discovered(
        found, **inputs, target_health=_health(platform, window, found["target_url_id"])
    )
    return (
        pa.concat_tables([matched.observations, fresh.observations]),
        pa.concat_tables([matched.occurrences, fresh.occurrences]),
        tables.total([matched.counts, {"discovered": 0} | fresh.counts]),
    )


def _health(platform: Platform, window: Window, target_url_ids: pa.ChunkedArray) -> pa.Table:
    """What was known of the targets when the window ended: this window's check, else an earlier one's."""
    return clickhouse.target_health_as_of(platform.clickhouse, target_url_ids, window.end)


def _of_living_projects(platform: Platform, rows: pa.Table) -> pa.Table:
    """The rows whose project was not deleted since they were made: nothing of a deleted project comes back."""
    living = pa.array([project.id for project in projects.list_projects(platform.ledger)], pa.binary(16))
    return rows.filter(pc.is_in(rows["project_id"], living))


def _register(platform: Platform, discovered: pa.Table) -> pa.Table:
    """New edges into the ledger; the same rows with `target_url_id` and `backlink_id`. Registering again changes nothing."""
    discovered = _of_living_projects(platform, discovered)  # matching takes a while
    urls = edges.register_urls(
        platform.ledger,
        pa.table(
            {
                "url": discovered["target_url"],
                "url_hash": discovered["target_url_hash"],
                "host": discovered["target_host"],
                "registrable_domain": discovered["target_registrable_domain"],
                "public_suffix": pa.nulls(discovered.num_rows, pa.string()),
            },
            schema=URLS.schema,
        ),
    )
    registered = edges.register_edges(
        platform.ledger,
        pa.table(
            {
                "project_id": discovered["project_id"],
                "source_url_id": discovered["source_url_id"],
                "target_url_id": urls["url_id"],
                "any_target": pa.repeat(pa.scalar(False), discovered.num_rows),
            },
            schema=EDGES.schema,
        ),
        source="crawler",
        now=platform.clock.now(),
    )
    return discovered.append_column("target_url_id", urls["url_id"]).append_column(
        "backlink_id", registered["backlink_id"]
    )


def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=KEY, backfill_policy=dg.BackfillPolicy.multi_run(),
        deps=[due_sources.KEY, link_manifests.KEY, redirect_checks.KEY, target_health.KEY],
        partitions_def=partitions,
        group_name="evidence", kinds={"polars", "clickhouse"},
        check_specs=[dg.AssetCheckSpec("one_row_per_edge", asset=KEY, blocking=True)],
    )  # fmt: skip
    def link_observations(
        context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]
    ) -> dg.MaterializeResult:
        """One evidence row per edge: found, missing or none, always with a reason and what it stands on."""
        observed, counts = zip(*(observe(platform, window) for window in windows(context, platform)), strict=True)
        rows = pa.concat_tables(observed)
        totals = tables.total(list(counts))
        ids = pc.count_distinct(rows["observation_id"]).as_py()
        return dg.MaterializeResult(
            check_results=[
                dg.AssetCheckResult(
                    check_name="one_row_per_edge",
                    passed=ids == rows.num_rows == totals["edges"],
                    metadata={"edges": totals["edges"], "rows": rows.num_rows, "distinct": ids},
                )
            ],
            metadata={
                **{name: number for name, number in totals.items() if not name.startswith("reason:")},
                "found_share": round(
                    (pc.sum(pc.equal(rows["evidence"], "found")).as_py() or 0) / max(rows.num_rows, 1), 3
                ),
                "evidence": tables.count_table(rows, ["evidence", "evidence_reason"]),
            },
        )

    return link_observations
