"""`backlinks stack up|down|status|logs`. Here: options, progress, tables, and how Dagster's two processes are started.
Not here: supervision and the stores (`warehouse.local`).
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orchestration.settings import Settings
from warehouse.local import stack
from warehouse.local.errors import StackError
from warehouse.local.paths import StackFolder, explained, project_root
from warehouse.local.processes import Process, Report

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The local stack: everything on this machine.")

PARTS = ("mysql", "clickhouse", "dagster-webserver", "dagster-daemon")
_Parts = Annotated[list[str] | None, typer.Argument(help=f"only these of: {', '.join(PARTS)}", metavar="[PART]...")]


@app.command()
def up(parts: _Parts = None) -> None:
    """Start what is not running and wait until it answers. Safe to run again, also after a crash or a reboot."""
    settings, names = Settings(), _checked(parts)
    StackFolder.of(settings.stack).create()
    with progress() as report:
        rows = stack.up(
            settings.stack, settings.ledger, settings.clickhouse,
            processes=dagster_processes(settings), parts=names, report=report,
        )  # fmt: skip
    _show(rows)
    if any(row.name == "dagster-webserver" and row.state == "up" for row in rows):
        print(f"Dagster: http://127.0.0.1:{settings.stack.dagster_port}")


@app.command()
def down(parts: _Parts = None) -> None:
    """Stop everything that `up` started. The data stays."""
    settings = Settings()
    folder = StackFolder.of(settings.stack)
    names = _checked(parts)
    if not folder.run.is_dir():
        print("Nothing was running.")
        return
    with progress() as report, stack.exclusive(folder, settings.stack.start_timeout_s + 60):
        stopped = stack.down(folder, timeout_s=settings.stack.stop_timeout_s, names=names, report=report)
        if names is None and end_demo(folder, timeout_s=settings.stack.stop_timeout_s, report=report):
            stopped.append("the demo")
    print(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was running.")


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="one JSON list instead of a table")] = False) -> None:
    """How every part is. Exit code 3 unless all of them answer."""
    settings = Settings()
    rows = stack.status(
        settings.stack, settings.ledger, settings.clickhouse, processes=dagster_processes(settings, prepare=False)
    )
    if as_json:
        print(json.dumps([vars(row) for row in rows]))
    else:
        _show(rows)
    if any(row.state in ("down", "not answering") for row in rows):
        raise typer.Exit(3)


@app.command()
def logs(
    part: Annotated[str, typer.Argument(help=f"one of: {', '.join(PARTS)}")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="how many of the last lines")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on as the log grows, until Ctrl-C")] = False,
) -> None:
    """The end of a part's log."""
    _checked([part])
    log = StackFolder.of(Settings().stack).log(part)
    if not log.is_file():
        raise StackError(f"{part} has no log yet ({log}); start it with `backlinks stack up {part}`.")
    with open(log, encoding="utf-8", errors="replace") as stream:
        for line in deque(stream, maxlen=lines):
            print(line, end="")
        while follow:
            line = stream.readline()
            if line:
                print(line, end="", flush=True)
            else:
                time.sleep(0.25)


def end_demo(folder: StackFolder, *, timeout_s: float, report: Report) -> bool:
    """Stop what `backlinks demo` left running (its web, its Dagster). True if there was anything."""
    from orchestration.demo.play import DEMO, stop_web

    web = stop_web(folder.root / DEMO)
    return bool(stack.down(StackFolder(folder.root / DEMO), timeout_s=timeout_s, report=report)) or web


def dagster_processes(
    settings: Settings, *, prepare: bool = True, environment: Mapping[str, str] | None = None
) -> list[Process]:
    """Dagster's webserver and daemon over this checkout's workspace, with their instance in the stack folder.

    `environment`: variables besides, e.g. the env file that the code location reads its settings from.
    """
    root = project_root()
    home = StackFolder.of(settings.stack).root / "dagster"
    if prepare:
        with explained(f"the Dagster instance {home}"):
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(root / "dagster.yaml", home / "dagster.yaml")
    port = settings.stack.dagster_port
    env = {
        "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1", "PYTHONUNBUFFERED": "1", **(environment or {})
    }  # fmt: skip
    programs = Path(sys.executable).parent
    workspace = str(root / "workspace.yaml")
    return [
        Process(
            name="dagster-webserver",
            argv=(str(programs / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port), "-w", workspace),
            env=env, folder=root, health=_webserver_answers(port), port=port,
            port_setting="BACKLINKS_STACK__DAGSTER_PORT",
        ),
        Process(
            name="dagster-daemon",
            argv=(str(programs / "dagster-daemon"), "run", "-w", workspace),
            env=env, folder=root, health=_daemon_beats(home),
        ),
    ]  # fmt: skip


def _webserver_answers(port: int) -> Callable[[], str | None]:
    def check() -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/server_info")
            answer = connection.getresponse()
            text = answer.read(4096).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            return getattr(error, "strerror", None) or str(error) or type(error).__name__
        finally:
            connection.close()
        return None if answer.status == 200 and "dagster_webserver_version" in text else f"status {answer.status}"

    return check


def _daemon_beats(home: Path) -> Callable[[], str | None]:
    """The daemon has no port: it is well when its heartbeats in the instance are fresh."""

    def check() -> str | None:
        from dagster import DagsterInstance
        from dagster._daemon.controller import get_daemon_statuses

        before = os.environ.get("DAGSTER_HOME")
        os.environ["DAGSTER_HOME"] = str(home)
        try:
            with DagsterInstance.get() as instance:
                statuses = get_daemon_statuses(instance, instance.get_required_daemon_types(), ignore_errors=True)
        finally:
            os.environ.pop("DAGSTER_HOME") if before is None else os.environ.update(DAGSTER_HOME=before)
        late = sorted(name for name, found in statuses.items() if not found.healthy)
        return f"no heartbeat of {', '.join(late)}" if late else None

    return check


@contextmanager
def progress() -> Iterator[Report]:
    """A line per part while something is going on (shown after a moment; on a terminal it moves)."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[part]:<18}"),
        TextColumn("{task.description:<48}"),
        BarColumn(20),
        TimeElapsedColumn(),
    )
    tasks = {}
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def report(part: str, message: str, fraction: float | None = None) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(message, total=None, part=part)
            bar.update(
                tasks[part], description=message, total=None if fraction is None else 1.0, completed=fraction or 0.0
            )

        yield report


def _show(rows: list[stack.PartStatus]) -> None:
    colours = {"up": "green", "elsewhere": "cyan", "down": "yellow", "not answering": "red"}
    table = Table("part", "state", "port", "pid", "log", box=None, header_style="bold")
    for row in rows:
        state = f"[{colours[row.state]}]{row.state}[/]" + (f" ({row.detail})" if row.detail else "")
        table.add_row(row.name, state, str(row.port or ""), str(row.pid or ""), row.log)
    # As wide as its longest row: a path that is cut cannot be opened. A narrow terminal wraps the line itself.
    console = Console()
    width = Console(width=10_000).measure(table).maximum
    Console(width=max(console.width, width)).print(table)


def _checked(parts: list[str] | None) -> list[str] | None:
    unknown = [part for part in parts or [] if part not in PARTS]
    if unknown:
        raise StackError(f"The stack has no part {unknown[0]!r}; it has {', '.join(PARTS)}.")
    return parts or None
