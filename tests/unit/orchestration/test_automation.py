"""The schedule and the sensor as the daemon evaluates them."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from orchestration.definitions import SHARD_JOB, WINDOW_JOB, build_defs
from orchestration.settings import Settings
from transforms.clock import FixedClock

AT = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
SETTINGS = Settings(shards=2, clock_now=AT, _env_file=None)
assert isinstance(SETTINGS.clock, FixedClock)


def test_the_schedule_asks_for_every_shard_of_the_open_window() -> None:
    repository = build_defs(settings=SETTINGS).get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=AT, repository_def=repository)
        requests = repository.get_schedule_def("windows").evaluate_tick(context).run_requests
    assert requests is not None
    assert [request.run_key for request in requests] == [f"2026-11-20-10:00:10:15:{shard}" for shard in range(2)]
    assert [request.partition_key for request in requests] == ["0|2026-11-20-10:00", "1|2026-11-20-10:00"]
    assert repository.has_job(SHARD_JOB)


def test_the_sensor_folds_a_window_once_all_of_its_shards_are_parsed() -> None:
    repository = build_defs(settings=SETTINGS).get_repository_def()
    sensor = repository.get_sensor_def("fold_windows")

    def asked(instance: dg.DagsterInstance) -> list[str | None]:
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        return [request.partition_key for request in sensor.evaluate_tick(context).run_requests or ()]

    def done(instance: dg.DagsterInstance, asset: str, partition: str) -> None:
        instance.report_runless_asset_event(dg.AssetMaterialization(["backlinks", asset], partition=partition))

    with dg.DagsterInstance.ephemeral() as instance:
        for shard in range(2):
            done(instance, "link_manifests", f"{shard}|2026-11-20-10:00")
            done(instance, "target_health", f"{shard}|2026-11-20-10:00")
        done(instance, "redirect_checks", "0|2026-11-20-10:00")
        assert asked(instance) == []
        done(instance, "redirect_checks", "1|2026-11-20-10:00")
        assert asked(instance) == ["2026-11-20-10:00"]
        done(instance, "current_state", "2026-11-20-10:00")
        assert asked(instance) == []
        done(instance, "link_manifests", "0|2026-11-20-10:00")
        assert asked(instance) == ["2026-11-20-10:00"]
    assert repository.has_job(WINDOW_JOB)
