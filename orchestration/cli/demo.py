"""`backlinks demo`: the whole flow on a scripted web, judged against its ground truth. Here: how it is shown. Not here:
the play (`orchestration.demo.play`)."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from orchestration.cli.console import wide_console
from orchestration.settings import Settings
from transforms.errors import PermanentError

if TYPE_CHECKING:  # Dagster takes seconds to import: not before the demo runs
    from orchestration.demo.play import Play
    from orchestration.flow import WindowReport


class DemoDisagrees(PermanentError):
    """What was reported is not what is true."""


def demo(
    ui: Annotated[
        bool, typer.Option("--ui/--no-ui", help="start Dagster's webserver and daemon on the demo at the end")
    ] = True,
) -> None:
    """Import two files, run seven windows over 71 scripted hosts, compare every state and event with the truth."""
    from orchestration import flow, resources
    from orchestration.cli.stack import dagster_processes, end_demo, progress
    from orchestration.demo import play as plays
    from orchestration.demo.scenario import WINDOWS
    from warehouse.local import stack
    from warehouse.local.paths import StackFolder

    console = wide_console()
    settings = Settings()
    began = time.monotonic()
    folder = StackFolder.of(settings.stack).root / plays.DEMO
    console.rule("[bold]1  the stores")
    with progress() as report:
        stack.up(settings.stack, settings.ledger, settings.clickhouse, parts=["mysql", "clickhouse"], report=report)
        end_demo(StackFolder.of(settings.stack), timeout_s=settings.stack.stop_timeout_s, report=report)
    ready = time.monotonic()
    play = plays.start(settings, folder, detach=True)
    console.rule(f"[bold]2  a web of {len(play.scenario.hosts)} hosts, two customers, two files")
    plays.import_files(play)
    console.print(_imports(play))
    console.rule(f"[bold]3  {WINDOWS} windows, two logical hours apart")
    with flow.instance(play.settings) as instance, console.status("window 0") as status:
        table = _windows_table()
        for window in plays.run_windows(play, on=instance, progress=status.update):
            _add_window(table, len(play.windows) - 1, window)
            console.print(f"  {window.window.key}: {window.total('page_fetches', 'sources')} pages, "
                          f"{window.total('current_state', 'alert_events')} alerts")  # fmt: skip
    console.print(table)
    console.rule("[bold]4  the verdict")
    platform = resources.platform(play.at(WINDOWS - 1))
    try:
        verdict = plays.judge(play, platform)
        console.print(_changes(plays.edge_rows(play, platform, range(WINDOWS))))
    finally:
        platform.close()
    console.print(verdict.events_table())
    console.print(verdict.aspects_table())
    if not verdict.ok:
        console.print(verdict.differences_table())
    if ui:
        with progress() as report:
            stack.up(
                play.settings.stack, settings.ledger, settings.clickhouse,
                processes=dagster_processes(play.settings, environment={"BACKLINKS_ENV_FILE": str(play.env_file)}),
                parts=["dagster-webserver", "dagster-daemon"], report=report,
            )  # fmt: skip
    total, stores = time.monotonic() - began, ready - began
    _where_next(console, play, ui, total, stores)
    if not verdict.ok:
        raise DemoDisagrees(
            f"{len(verdict.differences)} of {sum(verdict.judged.values())} judgements differ from the ground truth, "
            f"{len(verdict.false_losses)} of them false losses"
        )


def _imports(play: Play) -> Table:
    table = Table("project", "file", "format", title="Imported", title_justify="left")
    for heading in ("rows", "accepted", "duplicate", "invalid"):
        table.add_column(heading, justify="right")
    for export, report in zip(play.exports.values(), play.imports, strict=True):
        counts = report.counts
        table.add_row(
            report.project.name, export.path.name, f"{report.layout.label}, {report.encoding}",
            *(str(number) for number in (counts.rows, counts.accepted, counts.duplicate, counts.invalid)),
        )  # fmt: skip
    return table


def _windows_table() -> Table:
    table = Table(title="What each window did", title_justify="left")
    table.add_column("window", no_wrap=True)  # its number and hour: with them the table fits 120 columns
    for heading in (
        "pages",
        "304",
        "kB",
        "edges",
        "found",
        "missing",
        "none",
        "new\nedges",
        "NEW",
        "LOST",
        "RECOVERED",
        "changes",
        "alerts",
    ):
        table.add_column(heading, justify="right", overflow="fold")
    return table


def _add_window(table: Table, number: int, window: WindowReport) -> None:
    pages = window.total("page_fetches", "sources")
    table.add_row(
        f"{number} {window.window.start:%H:%M}",
        str(pages),
        str(window.total("page_fetches", "not_modified")),
        f"{window.total('page_fetches', 'wire_bytes') / 1000:,.0f}",
        *(str(window.total("link_observations", name)) for name in ("edges", "found", "missing", "none", "discovered")),
        *(str(window.total("current_state", name)) for name in ("new", "lost", "recovered", "changes", "alert_events")),
    )


def _changes(rows: Iterable[dict[str, Any]]) -> Table:
    """Every event but NEW, and every property change: what a link manager reads first."""
    table = Table(title="What changed", title_justify="left")
    for heading in ("window", "project", "source", "target", "event", "why"):
        table.add_column(heading, no_wrap=heading not in ("source", "target"), overflow="fold")  # no URL is cut
    colours = {"lost": "red", "recovered": "green"}
    told = [row for row in rows if row["event"] in colours or row["changes"]]
    for row in sorted(told, key=lambda row: (row["window"], row["project"], row["source_url"])):
        event = row["event"].upper() if row["event"] in colours else "\n".join(row["changes"])
        table.add_row(
            str(row["window"]), row["project"], row["source_url"].removeprefix("http://"),
            row["target_url"].removeprefix("http://"), event, row["evidence_reason"], style=colours.get(row["event"]),
        )  # fmt: skip
    return table


def _where_next(console: Console, play: Play, ui: bool, total: float, stores: float) -> None:
    """Commands stand alone on their lines, in no box and unwrapped: what is copied from the terminal can be pasted."""
    env_file = play.env_file
    if env_file.is_relative_to(Path.cwd()):
        env_file = env_file.relative_to(Path.cwd())
    command = f"BACKLINKS_ENV_FILE={shlex.quote(str(env_file))} .venv/bin/backlinks"
    edge = next(edge for edge in play.scenario.edges if any(truth.event == "lost" for truth in edge.truth.values()))
    console.rule("[bold]where to look next")
    console.print(
        f"{total:.0f} s in all, {stores:.0f} s of them for the stores (the first time they are downloaded).\n"
    )
    for title, line in (
        *([("Dagster", f"http://127.0.0.1:{play.settings.stack.dagster_port}/asset-groups")] if ui else []),
        ("The evidence of a lost link", f"{command} explain {shlex.quote(edge.source)} {shlex.quote(edge.target)}"),
        ("How things stand", f"{command} status"),
        ("SQL", _curl(play)),
        (
            "Parquet, snapshots (zstd), and the files that were imported",
            f"ls {env_file.parent}/objects/* {env_file.parent}/files",
        ),
        ("Your own file (without the demo's settings)", ".venv/bin/backlinks check FILE --target example.com"),
        ("Stop", "make down"),
    ):
        console.print(f"[dim]{title}[/]")
        console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)


def _curl(play: Play) -> str:
    """A query that can be pasted. The local stack's password is no secret: it guards a loopback port."""
    olap = play.settings.clickhouse
    address = f"http://127.0.0.1:{olap.port}/?database={olap.database}"
    query = "SELECT window_start, transition, reason, source_url, target_url FROM transitions ORDER BY window_start FORMAT PrettyCompact"
    return f"curl -u {olap.user}:{olap.password.get_secret_value()} '{address}' -d '{query}'"
