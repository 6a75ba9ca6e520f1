"""One schema for each dataset that crosses a folder, written once, a line of meaning per column.

Here: the pyarrow schemas (`DATASETS` lists them). Parquet files are written with them, polars frames are cast to them,
the ClickHouse tables are checked against them. Not here: reading and writing (`warehouse.datasets`).
"""

from transforms.schemas.dataset import Dataset, column
from transforms.schemas.discoveries import DISCOVERED_EDGES
from transforms.schemas.evidence import EDGE_STATES, LINK_OBSERVATIONS, OCCURRENCES
from transforms.schemas.fetches import PAGE_FETCHES, TARGET_HEALTH
from transforms.schemas.manifests import LINK_MANIFESTS, PAGE_MANIFESTS
from transforms.schemas.redirects import LINK_REDIRECTS
from transforms.schemas.sources import DUE_SOURCES, EXPECTED_EDGES, TARGET_RULES

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        DUE_SOURCES, EXPECTED_EDGES, TARGET_RULES, PAGE_FETCHES, TARGET_HEALTH, PAGE_MANIFESTS, LINK_MANIFESTS,
        LINK_REDIRECTS, LINK_OBSERVATIONS, OCCURRENCES, EDGE_STATES, DISCOVERED_EDGES,
    )
}

__all__ = [
    "DATASETS", "DISCOVERED_EDGES", "DUE_SOURCES", "EDGE_STATES", "EXPECTED_EDGES", "LINK_MANIFESTS", "LINK_OBSERVATIONS", "LINK_REDIRECTS",
    "OCCURRENCES",
    "PAGE_FETCHES", "PAGE_MANIFESTS", "TARGET_HEALTH", "TARGET_RULES", "Dataset", "column",
]
