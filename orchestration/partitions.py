"""The two dimensions of a partition: window (UTC) x shard. Here: Dagster's definitions. Not here: their arithmetic
(`transforms.windows`)."""

from __future__ import annotations

from datetime import UTC

import dagster as dg

from orchestration.settings import Settings

_KEY_FORMAT = "%Y-%m-%d-%H:%M"


def window_partitions(settings: Settings) -> dg.TimeWindowPartitionsDefinition:
    """One partition per window. The current window is open: it exists from its start (`end_offset=1`)."""
    minutes = settings.window_minutes
    cron = f"*/{minutes} * * * *" if minutes < 60 else f"0 */{minutes // 60} * * *" if minutes < 1440 else "0 0 * * *"
    return dg.TimeWindowPartitionsDefinition(
        start=settings.first_window.replace(tzinfo=UTC),
        fmt=_KEY_FORMAT,
        cron_schedule=cron,
        timezone="UTC",
        end_offset=1,
    )


def window_shard_partitions(settings: Settings) -> dg.MultiPartitionsDefinition:
    return dg.MultiPartitionsDefinition(
        {
            "window": window_partitions(settings),
            "shard": dg.StaticPartitionsDefinition(
                [str(shard) for shard in range(max(settings.shards, settings.shards_before))]
            ),
        }
    )
