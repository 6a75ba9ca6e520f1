"""Stage 4, `target_health`: does each monitored target page answer, and may it be indexed? Independent of the sources."""

import dagster as dg
import pyarrow as pa

from assets import tables
from assets.partition import WindowShard, window_shards
from assets.platform import Platform

KEY = dg.AssetKey(["backlinks", "target_health"])
