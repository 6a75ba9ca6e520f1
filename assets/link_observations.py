"""Stage 5, `link_observations`: manifests x expected edges x target rules → one evidence row per edge; new edges are
registered; everything is loaded into ClickHouse."""

from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

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
)
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.ledger import edges, projects
from warehouse.ledger.tables import EDGES, URLS

KEY = dg.AssetKey(["backlinks", "link_observations"])


def observe(platform: Platform, window: Window) -> tuple[pa.Table, dict[str, int]]:
    """Evidence of every expected edge of the window, shard by shard. Returns (observations, counts)."""
    store = platform.datasets
    parts = [LINK_OBSERVATIONS.empty()]
    counts: list[dict[str, int]] = []
    shards = sorted({key.rsplit("shard=", 1)[-1].split("/")[0] for key in store.part_keys(EXPECTED_EDGES, window)})
    for shard in map(int, shards):
        fetches = latest_fetches(store.read(PAGE_FETCHES, window, shard))
        clickhouse.load_fetches(platform.clickhouse, fetches, window)
        inputs: dict[str, Any] = {
            "window_start": window.start,
            "fetches": fetches,
            "pages": store.read(PAGE_MANIFESTS, window, shard),
            "links": store.read(LINK_MANIFESTS, window, shard),
            "rules": _of_living_projects(platform, store.read(TARGET_RULES, window, shard)),
            "due": store.read(DUE_SOURCES, window, shard),
            "link_redirects": store.read(LINK_REDIRECTS, window, shard),
        }
        expected = _of_living_projects(platform, store.read(EXPECTED_EDGES, window, shard))
        health = _health(platform, window, expected["target_url_id"])
        matched = matching.match_window(**inputs, expected=expected, target_health=health)
        found = _register(platform, matched.discovered)
        fresh = matching.observe_discovered(
            found, **inputs, target_health=_health(platform, window, found["target_url_id"])
        )
        parts += [matched.observations, fresh.observations]
        counts += [matched.counts, {"discovered": 0} | fresh.counts]
        store.write_part(OCCURRENCES, window, shard, pa.concat_tables([matched.occurrences, fresh.occurrences]), "all")
        store.write_part(
            LINK_OBSERVATIONS, window, shard, pa.concat_tables([matched.observations, fresh.observations]), "all"
        )
    observations = pa.concat_tables(parts)
    loaded = clickhouse.load_observations(platform.clickhouse, observations)
    return observations, tables.total([*counts, {"loaded_new": loaded.new, "loaded_corrected": loaded.corrected}])


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
