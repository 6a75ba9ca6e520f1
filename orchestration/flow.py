"""Run windows in this process: what `backlinks run`, `check` and `demo` do, and what the tests drive.

The same jobs that the schedule starts, in one warm process, recorded in the same Dagster instance. Here: order and
progress. Not here: the stages.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

import crawl
from assets import due_sources, page_fetches
from assets.partition import WindowShard, shards_of
from assets.platform import Platform
from orchestration import resources
from orchestration.definitions import SHARD_JOB, WINDOW_JOB, build_defs
from orchestration.settings import Settings
from transforms.errors import PermanentError, TransientError
from transforms.windows import Window

Progress = Callable[[str], None]

_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class StageFailed(PermanentError):
    """A stage of the flow failed; the message is the cause's."""


class Interrupted(TransientError):
    """Ctrl-C or SIGTERM in the middle of a stage."""


@dataclass
class WindowReport:
    """What the stages said of one window: metadata by `stage` or `stage[shard]`, as plain values."""

    window: Window
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def total(self, stage: str, name: str) -> int:
        """Sum of a count over all shards of a stage."""
        return sum(
            int(values.get(name, 0))
            for key, values in self.stages.items()
            if key == stage or key.startswith(f"{stage}[")
        )


def dagster_home(settings: Settings) -> Path:
    """The instance's folder, with the checkout's `dagster.yaml` in it."""
    home = resources.ROOT / settings.stack.folder / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(resources.ROOT / "dagster.yaml", home / "dagster.yaml")
    return home


@contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The stack's Dagster instance, so that what runs here is seen in the UI."""
    os.environ["DAGSTER_HOME"] = str(dagster_home(settings))
    with dg.DagsterInstance.get() as opened:
        yield opened


def run_window(
    settings: Settings,
    window: Window,
    *,
    on: dg.DagsterInstance,
    platform: Platform | None = None,
    progress: Progress = lambda _: None,
    refetch: bool = False,
) -> WindowReport:
    """Every stage of a window: its shards side by side, then evidence, states and write-back. Raises `StageFailed`."""
    platform = platform or resources.platform(settings)
    shards = shards_of(platform, window)
    partitions = settings.model_copy(update={"shards_before": max(shards, settings.shards_before)})
    defs = build_defs(settings=partitions, platform=platform)
    report = WindowReport(window)
    progress(f"{window.key}: claim and crawl {shards} shards")
    claimed = _crawl_side_by_side(platform, window, shards, refetch=refetch)
    for shard in range(shards):
        progress(f"{window.key}: parse shard {shard + 1} of {shards}, check its targets")
        key = dg.MultiPartitionKey({"window": window.key, "shard": str(shard)})
        _collect(report, _execute(defs.resolve_job_def(SHARD_JOB), on, str(key)), f"[{shard}]")
        report.stages[f"due_sources[{shard}]"] = dict(claimed[shard])
    progress(f"{window.key}: evidence, states, write-back")
    _collect(report, _execute(defs.resolve_job_def(WINDOW_JOB), on, window.key), "")
    return report


def _crawl_side_by_side(platform: Platform, window: Window, count: int, *, refetch: bool) -> list[dict[str, int]]:
    """Claim and fetch every shard at once, each in a thread of its own. Returns what each claimed.

    Dagster's in-process runs must follow one another (their logging set-up is not thread-safe), but most of a crawl is
    waiting for origins' clocks. So the pages are fetched here; the runs that follow find them done and record them.
    """
    shards = [WindowShard(window, shard) for shard in range(count)]
    stops = [crawl.Stop() for _ in shards]

    def work(at: WindowShard, stop: crawl.Stop) -> dict[str, int]:
        counts = due_sources.claim(platform, at)
        page_fetches.fetch(platform, at, refetch=refetch, stop=stop)
        return counts

    with ThreadPoolExecutor(len(shards), thread_name_prefix="shard") as pool:
        futures = [pool.submit(work, at, stop) for at, stop in zip(shards, stops, strict=True)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for stop in stops:
                stop.request("interrupted")
            raise


def _execute(job: dg.JobDefinition, on: dg.DagsterInstance, partition_key: str) -> dg.ExecuteInProcessResult:
    result = job.execute_in_process(instance=on, partition_key=partition_key, run_config=_QUIET, raise_on_error=False)
    if not result.success:
        for event in result.all_events:
            if event.is_step_failure:
                failure = event.step_failure_data
                cause = failure.user_failure_data.description if failure.user_failure_data else None
                error = failure.error
                while error is not None and error.cause is not None:
                    error = error.cause
                text = cause or (error.message.strip().split(": ", 1)[-1] if error else "no message")
                if "ExecutionInterrupted" in text:
                    raise Interrupted("stopped; what is done stays done, run it again to go on")
                raise StageFailed(f"{event.step_key} of {partition_key}: {text} (run {result.run_id[:8]})")
        raise StageFailed(f"{job.name} of {partition_key} failed before its first stage (run {result.run_id[:8]})")
    return result


def _collect(report: WindowReport, result: dg.ExecuteInProcessResult, suffix: str) -> None:
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        stage = materialization.asset_key.path[-1]
        report.stages[f"{stage}{suffix}"] = {name: value.value for name, value in materialization.metadata.items()}
