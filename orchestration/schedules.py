"""When the flow runs by itself: at the start of each window and again while it lasts, so that confirmations and imports
that fall due within the window are taken in. Here: the schedule of the shard job. Not here: the window job, which a
sensor starts when the shards are done (`orchestration.sensors`)."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from orchestration.settings import Settings
from transforms.windows import Window

TICK_MINUTES = 15


def window_schedule(settings: Settings, shard_job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    @dg.schedule(
        name="windows",
        cron_schedule=f"*/{TICK_MINUTES} * * * *",
        execution_timezone="UTC",
        job=shard_job,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Every shard of the open window, at its start and every quarter of an hour while it lasts.",
    )
    def windows(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
        at = context.scheduled_execution_time
        window = Window.containing(at, settings.window_length)
        return [
            dg.RunRequest(
                run_key=f"{window.key}:{at:%H:%M}:{shard}",
                partition_key=dg.MultiPartitionKey({"window": window.key, "shard": str(shard)}),
            )
            for shard in range(settings.shards)
        ]

    return windows
