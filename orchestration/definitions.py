"""The code location: every asset, check, job, schedule and sensor, assembled once.

`build_defs(**overrides)` lets tests and commands hand in other settings or another platform instead of patching.
"""

from __future__ import annotations

import warnings

import dagster as dg

from assets import (
    current_state,
    dbt_models,
    due_sources,
    link_manifests,
    link_observations,
    page_fetches,
    redirect_checks,
    target_health,
)
from assets.platform import Platform
from orchestration import partitions, resources, schedules, sensors
from orchestration.settings import Settings

warnings.filterwarnings("ignore", category=dg.BetaWarning)  # backfill policies: used as they are, pinned

SHARD_JOB = "crawl_window_shard"
WINDOW_JOB = "fold_window"


def build_defs(*, settings: Settings | None = None, platform: Platform | None = None) -> dg.Definitions:
    """Everything Dagster shows and runs. `settings`: environment by default. `platform`: made from the settings."""
    settings = settings or Settings()
    platform = platform or resources.platform(settings)
    window_shard = partitions.window_shard_partitions(settings)
    window = partitions.window_partitions(settings)
    shard_assets = [
        stage.build(window_shard)
        for stage in (due_sources, page_fetches, link_manifests, redirect_checks, target_health)
    ]
    window_assets = [stage.build(window) for stage in (link_observations, current_state)]
    models = dbt_models.build(window, platform)
    shard_job = dg.define_asset_job(
        SHARD_JOB,
        selection=dg.AssetSelection.assets(*(a.key for a in shard_assets)),
        description="Claim, fetch and parse one shard of a window, and check its redirectors and targets.",
    )
    window_job = dg.define_asset_job(
        WINDOW_JOB,
        selection=dg.AssetSelection.assets(*(a.key for a in window_assets), *models.keys),
        description="Evidence, states and write-back of a window whose shards are parsed.",
    )
    return dg.Definitions(
        assets=[*shard_assets, *window_assets, models],
        jobs=[shard_job, window_job],
        schedules=[schedules.window_schedule(settings, shard_job)],
        sensors=[sensors.fold_sensor(settings, window_job)],
        resources={"platform": platform},
        executor=dg.in_process_executor,
    )


defs = build_defs()
