"""`backlinks identities migrate`: the ledger's URLs under this code's version of the rules. Here: options, the progress bar,
the tables, and the order of the stores. Not here: the migration (`warehouse.ledger.identity_migration`), moving facts
(`warehouse.clickhouse.merges`).
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from orchestration.cli.console import PlainConsole, visible
from orchestration.settings import Settings
from warehouse.ledger import Ledger, migrate
from warehouse.ledger import identity_migration as identities
from warehouse.ledger.identity_migration import Outcome

app = typer.Typer(add_completion=False, no_args_is_help=True, help="URL identities and their version.")


@app.callback()
def _root() -> None:
    """Typer would make a single command the whole of it."""


@app.command("migrate")
def migrate_command(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would change, merge or be refused; write nothing")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="throw away an unfinished plan (not possible after the switch)")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="URLs a transaction")] = identities.BATCH,
) -> None:
    """Bring every URL to this code's rules of identity. Safe to stop at any time and run again: it goes on where it was."""
    settings = Settings()
    migrate(settings.ledger)
    console = PlainConsole()
    with Ledger(settings.ledger) as ledger:
        if dry_run:
            with _bar() as step:
                outcome = identities.preview(ledger, progress=step, batch=batch)
            show(outcome, console, done=False)
            return
        with _bar() as step:
            outcome = identities.migrate_identities(
                ledger,
                actor=getpass.getuser(),
                clock=lambda: settings.clock.now(),
                progress=step,
                batch=batch,
                restart=restart,
            )
        show(outcome, console, done=True)
        if identities.merged_edges(ledger).num_rows:
            _move_facts(ledger, settings, console)


def _move_facts(ledger: Ledger, settings: Settings, console: Console) -> None:
    from orchestration import resources
    from warehouse import clickhouse
    from warehouse.clickhouse.merges import move_facts

    merges = identities.merged_edges(ledger)
    client = clickhouse.connect(settings.clickhouse)
    try:
        clickhouse.ensure_schema(client, settings.clickhouse)
        moved = move_facts(client, merges)
        if moved.first is not None and moved.last is not None:
            span = (moved.first, moved.last + timedelta(minutes=settings.window_minutes))
            clickhouse.run_dbt(settings.clickhouse, span, work=resources.platform(settings).work_folder)
            console.print(
                f"ClickHouse: {moved.rows:,} observations of merged edges now lie with the edges that they became, whose history was "
                f"folded again. Materialise current_state for the windows {span[0]:%Y-%m-%d %H:%M} to {span[1]:%Y-%m-%d %H:%M} to "
                "bring their states over.",
                soft_wrap=True,
            )
    finally:
        client.close()
    identities.facts_moved(ledger, now=settings.clock.now())


def show(outcome: Outcome, console: Console, *, done: bool) -> None:
    """Counts, and a few of the URLs that change."""
    if outcome.from_version == outcome.to_version:
        console.print(f"All URL identities are of version {outcome.to_version}: nothing to do.")
        return
    will = "" if done else " (dry run: nothing was written)"
    table = Table(
        title=f"URL identities, version {outcome.from_version} to {outcome.to_version}{will}", title_justify="left"
    )
    table.add_column("URLs")
    table.add_column("count", justify="right")
    table.add_column("what it means")
    table.add_row("unchanged", f"{outcome.unchanged:,}", "same name, new hash")
    table.add_row("renamed", f"{outcome.renamed:,}", "new name; id and history stay")
    edges = f"; {outcome.edges_merged:,} edges became one with another" if done else ""
    table.add_row(
        "merged", f"{outcome.merged:,}", f"another URL has the name already; edges and history go over{edges}"
    )
    table.add_row(
        "refused", f"{outcome.refused:,}", "no identity any more; kept as it was, its edges are not checked any more"
    )
    console.print(table)
    if outcome.examples:
        shown = Table(title="For example", title_justify="left")
        for heading in ("", "was", "becomes, or why it is refused"):
            shown.add_column(heading, overflow="fold")
        shown.add_column("edges", justify="right")
        for each in outcome.examples:
            shown.add_row(
                each.verdict.replace("planned", "renamed"), visible(each.url), visible(each.became), f"{each.edges:,}"
            )
        console.print(shown)


@contextmanager
def _bar() -> Iterator[identities.Progress]:
    """A progress bar on stderr."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=PlainConsole(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        tasks: dict[str, object] = {}

        def step(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)  # type: ignore[arg-type]

        yield step
