"""`backlinks check FILE`: import, verify every link now, show the table. Here: the order of these. Not here: any of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.console import plain_console
from orchestration.report import Output
from orchestration.settings import Settings


def check(
    file: Annotated[Path, typer.Argument(help="a CSV of backlinks (any export), or a list of URLs", metavar="FILE")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="what is monitored: example.com, https://example.com/shop/*, …; may be repeated", metavar="TARGET"
        ),
    ] = None,
    project: Annotated[str | None, typer.Option(help="project (default: the file's name)")] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--tolerant", help="whether http/https, www., click parameters and a trailing slash count"
        ),
    ] = None,
    refetch: Annotated[
        bool, typer.Option("--refetch", help="ask pages again that were checked within this window")
    ] = False,
    output: Annotated[
        Output | None, typer.Option(help="form of the report (default: by the suffix of --to, else a table)")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="file for the report: .csv, .json, .parquet or .txt")] = None,
    limit: Annotated[int, typer.Option(help="rows of the terminal's table")] = 50,
) -> None:
    """Import a file, verify every link of it now, and show state, reason, follow, anchor, statuses and health of each."""
    from orchestration import report, resources
    from orchestration.cli.import_ import import_with_progress, show
    from orchestration.cli.ready import start_stores
    from transforms.targets import parse_target
    from transforms.windows import Window
    from warehouse.imports.reader import LineSource
    from warehouse.imports.run import ImportOptions
    from warehouse.ledger import due

    settings = Settings()
    form = report.form_of(output, to)
    console = plain_console(stderr=to is None and form is not Output.TABLE)
    options = ImportOptions(
        project=project or file.stem,
        tenant=settings.tenant,
        targets=tuple(parse_target(each) for each in target or ()),
        strict=strict,
        due_now=True,
        rejects=Path(f"{file.name}.rejects.csv"),
    )
    with LineSource(file):  # a file that cannot be read is said before anything is started
        pass
    start_stores(settings)
    platform = resources.platform(settings)
    try:
        imported = import_with_progress(platform.ledger, file, options, settings)
        show(imported, console)
        due.make_due(platform.ledger, imported.project.id, now=settings.clock.now())
        from orchestration import flow  # Dagster takes seconds to import: not before it is known that the flow will run

        window = Window.containing(settings.clock.now(), settings.window_length)
        with flow.instance(settings) as instance, console.status(f"window {window.key}") as status:
            flow.run_window(settings, window, on=instance, platform=platform, progress=status.update, refetch=refetch)
        rows = report.edges(platform, imported.project.id)
    finally:
        platform.close()
    report.write(rows, form, to, console=console, limit=limit)
    oldest = rows["last_checked_at"].min()
    if isinstance(oldest, datetime) and (age := settings.clock.now() - oldest) > timedelta(minutes=10):
        minutes = age.total_seconds() / 60
        console.print(
            f"The oldest result is {minutes:.0f} min old: a page is asked once a window; --refetch asks again."
        )
