"""The analytics store: facts in, states out. ClickHouse through its HTTP interface, whoever serves it.

Here: the connection, the fact tables, loaders and readers, and the call of dbt. Not here: the fold and the marts
(`dbt_project/`), the local server (`warehouse.local`), MySQL (`warehouse.ledger`).
"""

from warehouse.clickhouse.client import ClickHouseDown, ClickHouseRefused, connect, explained
from warehouse.clickhouse.dbt import (
    DbtFailed,
    DbtReport,
    dbt_arguments,
    dbt_environment,
    manifest_path,
    prepare_manifest,
    run_dbt,
)
from warehouse.clickhouse.load import LoadCounts, load_fetches, load_observations, load_target_health
from warehouse.clickhouse.read import (
    explain_edge,
    iter_edge_states,
    last_found_before,
    project_edges,
    read_edge_states,
    read_observations,
    target_health_as_of,
)
from warehouse.clickhouse.schema import FACTS, Fact, ensure_schema

__all__ = [
    "FACTS",
    "ClickHouseDown",
    "ClickHouseRefused",
    "DbtFailed",
    "DbtReport",
    "Fact",
    "LoadCounts",
    "connect",
    "dbt_arguments",
    "dbt_environment",
    "ensure_schema",
    "explain_edge",
    "explained",
    "iter_edge_states",
    "last_found_before",
    "load_fetches",
    "load_observations",
    "load_target_health",
    "manifest_path",
    "prepare_manifest",
    "project_edges",
    "read_edge_states",
    "read_observations",
    "run_dbt",
    "target_health_as_of",
]
