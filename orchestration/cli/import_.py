"""`backlinks import FILE`: a CSV of backlinks into a project. Here: options, progress bar, the table at the end.
Not here: the import (`warehouse.imports`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from orchestration.cli.console import PlainConsole
from orchestration.settings import Settings
from transforms.errors import PermanentError
from transforms.imports.channels import parse_channel
from transforms.imports.problems import RowReason
from transforms.targets import parse_target
from warehouse.imports.reader import LineSource
from warehouse.imports.run import ImportOptions, ImportReport
from warehouse.imports.run import Progress as Step
from warehouse.imports.run import import_file as run_import
from warehouse.ledger import Ledger, migrate


class ImportIncomplete(PermanentError):
    """The file ended before its end; what came before is imported."""


class NothingImported(PermanentError):
    """Every row was invalid."""


def import_file(
    file: Annotated[Path, typer.Argument(help="CSV, TSV or list of URLs; gzip and UTF-16 are fine", metavar="FILE")],
    project: Annotated[str, typer.Option(help="project; made when it is not there")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="what is monitored: example.com, blog.example.com, https://example.com/shop/*, https://example.com/page; may "
            "be repeated",
            metavar="TARGET",
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="owner of the project (default: the setting)")] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", help="ahrefs, semrush, majestic, search_console, bing, moz, screaming_frog, generic or url_list"
        ),
    ] = None,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--tolerant", help="whether http/https, www., click parameters and a trailing slash count"
        ),
    ] = None,
    interval_hours: Annotated[
        float | None, typer.Option(help="hours between checks, at most 168 (new project: 24)")
    ] = None,
    due_now: Annotated[
        bool, typer.Option("--due-now/--spread", help="check at once, or spread over the interval")
    ] = False,
    alert: Annotated[
        list[str] | None,
        typer.Option(
            help="who is told of LOST, RECOVERED, changes: email:ADDRESS, webhook:URL or slack:env:NAME; may be repeated",
            metavar="CHANNEL",
        ),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(help="file for rows that are invalid or repeat another (default: FILE.rejects.csv here)"),
    ] = None,
) -> None:
    """Import a file of backlinks: every row ends accepted, duplicate or invalid, with its line number and a reason."""
    settings = Settings()
    options = ImportOptions(
        project=project,
        tenant=tenant or settings.tenant,
        targets=tuple(parse_target(each) for each in target or ()),
        format_name=format_name,
        strict=strict,
        interval=None if interval_hours is None else timedelta(hours=interval_hours),
        due_now=due_now,
        channels=tuple(parse_channel(each) for each in alert or ()),
        rejects=rejects or Path(f"{file.name}.rejects.csv"),
    )
    with LineSource(file):  # a file that cannot be read is said before anything is asked of a server
        pass
    migrate(settings.ledger)
    with Ledger(settings.ledger) as ledger:
        report = import_with_progress(ledger, file, options, settings)
    show(report, PlainConsole())
    if report.damage:
        raise ImportIncomplete(
            f"{file} is damaged: {report.damage}; the {report.counts.rows:,} rows before that are imported."
        )
    if report.counts.invalid == report.counts.rows:
        raise NothingImported(
            f"Not one of the {report.counts.rows:,} rows of {file} can be monitored: {options.rejects} says why."
        )


def import_with_progress(ledger: Ledger, file: Path, options: ImportOptions, settings: Settings) -> ImportReport:
    """The import with a progress bar on stderr."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows"), TextColumn("{task.fields[speed]:,.0f} rows/s"), TimeRemainingColumn(),
        console=PlainConsole(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(file.name, total=None, rows=0, speed=0.0)

        def step(now: Step) -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            bar.update(
                task, completed=now.bytes_read, total=now.bytes_total, rows=now.counts.rows,
                speed=now.counts.rows / elapsed if elapsed else 0.0,
            )  # fmt: skip

        def waiting() -> None:
            bar.console.print(f"Another import into project {options.project} is running: waiting for it to end.")

        return run_import(ledger, file, options, clock=settings.clock, progress=step, on_wait=waiting)


def show(report: ImportReport, console: Console) -> None:
    """What was found and what became of it."""
    counts, layout = report.counts, report.layout
    facts = Table(box=None, show_header=False, pad_edge=False)
    packed = ", gzip" if report.gzip else ""
    delimiter = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar", None: "one URL a line"}[layout.delimiter]
    facts.add_row("file", f"{layout.label} ({report.encoding}{packed}, {delimiter})")
    for note in layout.notes:
        facts.add_row("", note)
    facts.add_row("project", report.project.name)
    shown = [str(target) for target in report.targets[:8]]
    facts.add_row(
        "targets", ", ".join(shown) + (f" and {len(report.targets) - 8:,} more" if len(report.targets) > 8 else "")
    )
    if counts.assumed_https:
        facts.add_row("", f"{counts.assumed_https:,} addresses without a scheme were read as https")
    console.print(facts)
    table = Table()
    table.add_column("result")
    table.add_column("rows", justify="right")
    table.add_column("why")
    table.add_row("accepted", f"{counts.accepted:,}", "new links of the project" if counts.accepted else "")
    repeated = counts.duplicate - counts.already_known
    duplicates = [
        f"already_known {counts.already_known:,} (the project has the link; its history is kept)"
        if counts.already_known
        else "",
        f"repeated_in_file {repeated:,}" if repeated else "",
    ]
    table.add_row("duplicate", f"{counts.duplicate:,}", ", ".join(filter(None, duplicates)))
    invalid = {
        name: n
        for name, n in counts.reasons.items()
        if name not in (RowReason.ALREADY_KNOWN, RowReason.REPEATED_IN_FILE)
    }
    why = ", ".join(f"{name} {number:,}" for name, number in sorted(invalid.items(), key=lambda item: -item[1]))
    table.add_row("invalid", f"{counts.invalid:,}", why)
    speed = counts.rows / report.seconds if report.seconds else 0.0
    table.add_section()
    table.add_row("rows read", f"{counts.rows:,}", f"in {report.seconds:.1f} s, {speed:,.0f} rows/s")
    console.print(table)
    if report.rejects is not None and counts.rejects:
        console.print(f"Invalid or repeated: {counts.rejects:,} of the rows, see {report.rejects}", soft_wrap=True)
