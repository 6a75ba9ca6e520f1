"""Stage 6, the dbt models: evidence → states and transitions → marts, for one window.

The models' asset keys and dependencies come from dbt's manifest; the body calls dbt in this process (`dbtRunner`),
which is several times quicker than its command line. dbt's own tests run with the models: a failing one fails the stage,
so nothing is written back.
"""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, dbt_assets

from assets.partition import windows
from assets.platform import Platform
from warehouse import clickhouse

FOLD_LOCK = "fold"
"""One fold at a time, whoever starts it: incremental models of the same tables must not run side by side."""


class _Translator(DagsterDbtTranslator):
    """Asset keys of two levels, `marts/<model>`; sources are `backlinks/<asset>`, which is what the stages are called."""

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> dg.AssetKey:
        if dbt_resource_props["resource_type"] == "source":
            return super().get_asset_key(dbt_resource_props)
        return dg.AssetKey([dbt_resource_props["fqn"][1], dbt_resource_props["name"]])

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str:
        return str(dbt_resource_props["fqn"][1])


def build(partitions: dg.PartitionsDefinition, platform: Platform) -> dg.AssetsDefinition:
    manifest = clickhouse.prepare_manifest(platform.clickhouse_settings, platform.work_folder)

    @dbt_assets(
        manifest=manifest,
        partitions_def=partitions,
        name="dbt_models",
        backfill_policy=dg.BackfillPolicy.multi_run(),
        dagster_dbt_translator=_Translator(DagsterDbtTranslatorSettings(enable_asset_checks=False)),
    )
    def dbt_models(
        context: dg.AssetExecutionContext, platform: dg.ResourceParam[Platform]
    ) -> Iterator[dg.MaterializeResult]:
        """States and transitions of the window, folded in ClickHouse."""
        seconds: dict[str, float] = {}
        tests = 0
        with platform.lease(FOLD_LOCK, wait_s=900.0):
            for window in windows(context, platform):
                report = clickhouse.run_dbt(
                    platform.clickhouse_settings, window, work=platform.work_folder, command="build"
                )
                tests += report.tests_passed
                for model, took in report.models.items():
                    seconds[model] = seconds.get(model, 0.0) + took
        selected = context.selected_asset_keys
        order = TopologicalSorter({key: context.assets_def.asset_deps[key] & selected for key in selected})
        for key in order.static_order():
            yield dg.MaterializeResult(
                asset_key=key,
                metadata={"seconds": round(seconds.get(key.path[-1], 0.0), 3), "dbt_tests_passed": tests},
            )

    return dbt_models
