"""Partitions as the stages see them. Here: Dagster's keys to windows and shards, and back. Not here: their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from assets.platform import Platform
from transforms.windows import Window


@dataclass(frozen=True)
class WindowShard:
    window: Window
    shard: int

    @property
    def key(self) -> dg.MultiPartitionKey:
        return dg.MultiPartitionKey({"window": self.window.key, "shard": str(self.shard)})


def window_shards(context: dg.AssetExecutionContext, platform: Platform) -> Iterator[WindowShard]:
    """Each window x shard of the run, a range run included. Dagster orders the dimensions of a key by name."""
    for key in context.partition_keys:
        shard, window = key.split("|")
        yield WindowShard(platform.window(window), int(shard))


def windows(context: dg.AssetExecutionContext, platform: Platform) -> Iterator[Window]:
    """Each window of the run, oldest first."""
    yield from sorted(platform.window(key) for key in context.partition_keys)
