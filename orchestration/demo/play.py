"""The play: import the demo's files, run its windows over the scripted web, judge what was reported against the truth.

Here: the order of things and the settings they run with (databases, folders and a clock of the demo's own). Not here:
the script and its truth (`scenario`), the server (`web`), how it is shown (`orchestration.cli.demo`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.platform import Platform
from orchestration import flow, resources
from orchestration.demo.scenario import (
    WINDOWS,
    Comparison,
    ExportFile,
    Scenario,
    TargetRule,
    compare,
    compare_targets,
    load_scenario,
    window_start,
    write_exports,
)
from orchestration.demo.web import ScriptedWeb
from orchestration.settings import Settings
from transforms.imports.channels import parse_channel
from transforms.schemas import TARGET_HEALTH
from transforms.targets import parse_target
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.imports.run import ImportOptions, ImportReport, import_file
from warehouse.ledger import Ledger, due, migrate, projects
from warehouse.ledger.config import LedgerSettings
from warehouse.objects.config import ObjectStoreSettings

DATABASE = "backlinks_demo"
DEMO = "demo"
"""The demo's folder below the stack's."""
MINUTES_IN = timedelta(minutes=5)
"""The logical clock stands this far into each window."""


CHANNELS = ("webhook:http://127.0.0.1:9/hooks/backlinks", "email:links@acme-tools.test")
"""Where the demo's alerts would go; deliveries stay pending, nothing is sent."""


@dataclass
class Play:
    """A demo in its own folder: settings, web, scenario and what came of each window."""

    settings: Settings
    folder: Path
    scenario: Scenario
    web: ScriptedWeb
    imports: list[ImportReport] = field(default_factory=list)
    exports: dict[str, ExportFile] = field(default_factory=dict)
    windows: list[flow.WindowReport] = field(default_factory=list)

    @property
    def env_file(self) -> Path:
        return self.folder / "settings.env"

    def at(self, window: int) -> Settings:
        """The demo's settings in a window: its clock, and the names that resolve in it."""
        return self.settings.model_copy(
            update={
                "clock_now": window_start(window) + MINUTES_IN,
                "crawl": self.web.crawl_settings(window),
            }
        )


def demo_settings(settings: Settings, folder: Path, database: str = DATABASE) -> Settings:
    """The stack's servers, but databases, objects and Dagster instance of the demo's own, so that it may start afresh."""
    return settings.model_copy(
        update={
            "ledger": settings.ledger.model_copy(
                update={"database": database, "identity_database": f"{database}_identity"}
            ),
            "clickhouse": settings.clickhouse.model_copy(update={"database": database}),
            "objects": ObjectStoreSettings(url=str(folder / "objects")),
            "stack": settings.stack.model_copy(
                update={"folder": folder, "dagster_port": settings.stack.dagster_port + 1}
            ),
            "shards": 2,
            "tenant": "demo",
        }
    )


def start(settings: Settings, folder: Path, *, detach: bool, database: str = DATABASE) -> Play:
    """Everything of an earlier demo is removed, the databases are made, the web is started. The stores must be up."""
    stop_web(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = demo_settings(settings, folder, database)
    drop_databases(own.ledger, own.clickhouse)
    migrate(own.ledger)
    web = ScriptedWeb.start(folder / "web", detach=detach)
    play = Play(own, folder, load_scenario(), web)
    play.at(0).write_env(play.env_file)
    return play


def stop_web(folder: Path) -> bool:
    """End the web of an earlier demo in this folder. False: none runs."""
    return ScriptedWeb.end_earlier(folder / "web" / "web.json")


def drop_databases(ledger: LedgerSettings, olap: ClickHouseSettings) -> None:
    from warehouse.ledger.engine import connect

    connection = connect(ledger, database=None)
    try:
        cursor = connection.cursor()
        for database in (ledger.database, ledger.identity_database):
            cursor.execute(f"DROP DATABASE IF EXISTS `{database}`")  # a name that the settings' pattern admits
        cursor.close()
    finally:
        connection.close()
    client = clickhouse.connect(olap.model_copy(update={"database": "default"}))
    try:
        client.command(f"DROP DATABASE IF EXISTS {olap.database} SYNC")
    finally:
        client.close()


def import_files(play: Play) -> None:
    """Import each project's export, as a person would, with an alert rule on a webhook and an address."""
    play.exports = write_exports(play.folder / "files", play.scenario)
    with Ledger(play.settings.ledger) as ledger:
        for export in play.exports.values():
            options = ImportOptions(
                project=export.project.name,
                tenant=play.settings.tenant,
                targets=tuple(parse_target(_spelling(target)) for target in export.targets),
                channels=tuple(parse_channel(each) for each in CHANNELS),
                due_now=True,
                rejects=play.folder / "files" / f"{export.path.name}.rejects.csv",
            )
            play.imports.append(import_file(ledger, export.path, options, clock=play.at(0).clock))


def _spelling(rule: TargetRule) -> str:
    return f"{rule.value}*" if rule.scope == "url_prefix" else rule.value


def run_windows(
    play: Play, *, on: dg.DagsterInstance, progress: Callable[[str], None], windows: range = range(WINDOWS)
) -> Iterator[flow.WindowReport]:
    """Run the windows of the logical clock; every edge is due in each, but no confirmation before its time."""
    for number in windows:
        settings = play.at(number)
        settings.write_env(play.env_file)
        play.web.set_window(number)
        platform = resources.platform(settings)
        try:
            for project in projects.list_projects(platform.ledger, tenant_id=platform.tenant_id):
                due.make_due(platform.ledger, project.id, now=settings.clock.now())
            report = flow.run_window(
                settings,
                Window(window_start(number), settings.window_length),
                on=on,
                platform=platform,
                progress=progress,
            )
        finally:
            platform.close()
        play.windows.append(report)
        yield report


def judge(play: Play, platform: Platform, windows: range = range(WINDOWS)) -> Comparison:
    """What the stores hold of these windows against the truth."""
    return compare(play.scenario, edge_rows(play, platform, windows), windows).merge(
        compare_targets(play.scenario, target_rows(play, platform, windows), windows)
    )


def edge_rows(play: Play, platform: Platform, windows: range) -> Iterator[dict[str, Any]]:
    """Each observation of these windows with the state after it, from ClickHouse."""
    keys = {project.name: project.key for project in play.scenario.projects.values()}
    names = {p.id: keys[p.name] for p in projects.list_projects(platform.ledger, tenant_id=platform.tenant_id)}
    for number in windows:
        window = Window(window_start(number), platform.window_length)
        states = {
            row["observation_id"]: row for row in clickhouse.read_edge_states(platform.clickhouse, window).to_pylist()
        }
        for row in clickhouse.read_observations(platform.clickhouse, window).to_pylist():
            yield {**row, **states[row["observation_id"]], "window": number, "project": names[row["project_id"]]}


def target_rows(play: Play, platform: Platform, windows: range) -> Iterator[dict[str, Any]]:
    for number in windows:
        table: pa.Table = platform.datasets.read(TARGET_HEALTH, Window(window_start(number), platform.window_length))
        for row in table.to_pylist():
            yield {**row, "window": number}
