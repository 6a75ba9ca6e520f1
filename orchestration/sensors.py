"""What starts because something else happened: a window is folded when its shards are done.

Here: the sensor. Not here: deliveries and digests (they read the ledger's rows).
"""

from datetime import timedelta

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from assets import current_state, link_manifests, redirect_checks, target_health
from orchestration.settings import Settings
from transforms.windows import Window

LOOK_BACK = timedelta(days=7)
GRACE = timedelta(hours=1)
"""A window that lacks a shard this long after its end is folded without it: those edges get evidence `none`."""
MOST_PER_TICK = 4


def windows_to_fold(
    shards_done: dict[str, int], folded: dict[str, int], *, settings: Settings
) -> list[tuple[Window, int]]:
    """Windows whose shards changed after they were last folded, oldest first, with the newest event id of their shards.

    `shards_done`: event id by key `shard|window`, of the asset that finished last; `folded`: event id by window key.
    """
    by_window: dict[str, dict[int, int]] = {}
    for partition, event in shards_done.items():
        shard, window_key = partition.split("|")
        by_window.setdefault(window_key, {})[int(shard)] = event
    now = settings.clock.now()
    found = []
    for key, events in by_window.items():
        window = Window.from_key(key, settings.window_length)
        complete = set(events) >= set(range(settings.shards))
        newest = max(events.values())
        if window.end < now - LOOK_BACK or newest <= folded.get(key, 0):
            continue
        if complete or now > window.end + GRACE:
            found.append((window, newest))
    return sorted(found)


def fold_sensor(settings: Settings, window_job: UnresolvedAssetJobDefinition) -> dg.SensorDefinition:
    @dg.sensor(
        name="fold_windows",
        job=window_job,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Folds a window (evidence, states, write-back) once all of its shards are parsed, and again when one changes.",
    )
    def fold_windows(context: dg.SensorEvaluationContext) -> list[dg.RunRequest]:
        def newest(key: dg.AssetKey) -> dict[str, int]:
            return dict(
                context.instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
            )

        stages = [newest(key) for key in (link_manifests.KEY, redirect_checks.KEY, target_health.KEY)]
        shards = set.intersection(*(set(stage) for stage in stages))
        done = {key: max(stage[key] for stage in stages) for key in shards}
        return [
            dg.RunRequest(run_key=f"{window.key}:{event}", partition_key=window.key)
            for window, event in windows_to_fold(done, newest(current_state.KEY), settings=settings)[:MOST_PER_TICK]
        ]

    return fold_windows
