"""Partitions as the stages see them. Here: Dagster's keys to windows and shards, and back; how many shards a window has.
Not here: their definitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import dagster as dg

from assets.platform import Platform
from transforms.urls import identify
from transforms.windows import Window, shard_of_domain
from warehouse.objects import ObjectMissing


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


def shards_of(platform: Platform, window: Window) -> int:
    """How many shards a window is split into: what the setting said when the window was first claimed.

    Kept beside the window's files, so that a changed setting moves no source of a begun window to another shard, where
    it would be fetched and matched again. The setting counts for the windows that begin after the change.
    """
    key = f"windows/{window.path}.json"
    try:
        stored = platform.objects.get(key)
    except ObjectMissing:
        platform.objects.put_if_absent(key, json.dumps({"shards": platform.shards}).encode())
        stored = platform.objects.get(key)  # another shard may have been first
    return int(json.loads(stored)["shards"])


def owns(platform: Platform, at: WindowShard) -> Callable[[str], bool]:
    """Does the shard keep an origin's clock? A hop to an origin of another shard asks the ledger for a slot."""
    shards = shards_of(platform, at.window)
    return lambda origin: shard_of_domain(identify(f"{origin}/").site or "", shards) == at.shard
