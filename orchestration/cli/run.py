"""`backlinks run`: all that is due now, or one window. Here: options and the table at the end. Not here: the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from orchestration.cli.console import plain_console
from orchestration.settings import Settings
from transforms.errors import PermanentError
from transforms.windows import Window

if TYPE_CHECKING:
    from orchestration.flow import WindowReport


class BadWindow(PermanentError):
    """A window that cannot be understood or does not exist."""


def window_of(written: str | None, settings: Settings) -> Window:
    """A window from its key (`2026-12-01-10:00`), or the open one. Raises `BadWindow`."""
    if written is None:
        return Window.containing(settings.clock.now(), settings.window_length)
    try:
        window = Window.from_key(written.replace("T", "-").replace(" ", "-"), settings.window_length)
    except ValueError:
        raise BadWindow(f"--window {written!r} is not understood: write it like 2026-12-01-10:00 (UTC)") from None
    if window != Window.containing(window.start, settings.window_length):
        raise BadWindow(f"--window {written}: windows of {settings.window_minutes} minutes do not begin then")
    return window


def run(
    window: Annotated[
        str | None, typer.Option(help="a window's key, like 2026-12-01-10:00 (UTC); default: the open one")
    ] = None,
    refetch: Annotated[bool, typer.Option("--refetch", help="ask pages again that the window has already")] = False,
) -> None:
    """Run every stage of a window: claim, fetch, parse, match, fold, write back. Running it again only adds what is new."""
    from orchestration.cli.ready import require_stores

    settings = Settings()
    wanted = window_of(window, settings)
    require_stores(settings)
    from orchestration import flow  # Dagster takes seconds to import: not before it is known that the flow will run

    console = plain_console()
    with flow.instance(settings) as instance, console.status(f"window {wanted.key}") as status:
        report = flow.run_window(settings, wanted, on=instance, progress=status.update, refetch=refetch)
    console.print(summary(report))


def summary(report: WindowReport) -> Table:
    """What the window did, a line per stage."""
    table = Table("stage", "what", title=f"window {report.window.key}", title_justify="left")

    def counts(stage: str, *names: str) -> None:
        table.add_row(stage, ", ".join(f"{report.total(stage, name):,} {name.replace('_', ' ')}" for name in names))

    counts("due_sources", "sources", "edges", "new", "deferred")
    counts("page_fetches", "sources", "not_modified", "wire_bytes")
    counts("link_manifests", "pages", "links", "reused")
    counts("redirect_checks", "redirectors", "proven", "unchecked")
    counts("target_health", "targets", "ok")
    counts("link_observations", "found", "missing", "none", "discovered")
    counts("current_state", "new", "lost", "recovered", "changes", "alert_events", "deliveries", "outbox")
    return table
