"""Stage 5, `link_observations`: manifests x expected edges x target rules → one evidence row per edge; new edges are
registered; everything is loaded into ClickHouse."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa

from assets import due_sources, link_manifests, page_fetches, tables, target_health
from assets.partition import windows
from assets.platform import Platform
from transforms import matching
from transforms.fetches import latest_fetches
from transforms.schemas import (
    EXPECTED_EDGES,
    LINK_MANIFESTS,
    LINK_OBSERVATIONS,
    OCCURRENCES,
    PAGE_FETCHES,
    PAGE_MANIFESTS,
    TARGET_HEALTH,
    TARGET_RULES,
)
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.ledger import edges

KEY = dg.AssetKey(["backlinks", "link_observations"])
