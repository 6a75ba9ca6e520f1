"""`backlinks status`: projects, what is due, the last windows, queues. Here: the tables. Not here: the queries."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table

from orchestration.cli.console import plain_console
from orchestration.settings import Settings


def status(windows: Annotated[int, typer.Option(min=1, help="how many windows to show")] = 12) -> None:
    """How things stand: states by project, checks due, coverage debt, the last windows, deliveries and leases."""
    import polars as pl

    from orchestration.cli.ready import require_stores
    from transforms.recheck import projected_coverage
    from warehouse.ledger import Ledger, lookups

    settings = Settings()
    require_stores(settings)
    with Ledger(settings.ledger) as ledger:
        hosts = lookups.busiest_hosts(
            ledger, gap_s=settings.crawl.origin_gap_s, in_flight=settings.crawl.origin_max_in_flight
        )
        found = lookups.status(ledger, now=settings.clock.now(), windows=windows)
    console = plain_console()
    if not found.projects.num_rows:
        console.print("No project yet: `backlinks import FILE --project NAME`, or `backlinks check FILE`.")
        return
    hidden = {"project_id", "tenant_id"}
    if all(found.projects["is_active"].to_pylist()):
        hidden.add("is_active")
    console.print(_table("projects", found.projects, hidden))
    console.print(_table("windows", found.windows, set()))
    console.print(_table("queues", found.queues, set()))
    short = projected_coverage(pl.DataFrame(pl.from_arrow(hosts))).filter("is_short")
    if short.height:
        console.print(_table("hosts whose permitted rate cannot reach their pages in 7 days", short.to_arrow(), set()))
    for lease in found.leases:
        console.print(f"{lease['name']} is owned by {lease['owner']} until {lease['leased_until']:%H:%M:%S} UTC")


def _table(title: str, rows: pa.Table, hidden: set[str]) -> Table:
    table = Table(title=title, title_justify="left")
    names = [name for name in rows.column_names if name not in hidden]
    for name in names:
        numeric = pa.types.is_integer(rows.schema.field(name).type)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
    for row in rows.to_pylist():
        table.add_row(*(_cell(row[name]) for name in names))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:%Y-%m-%d %H:%M}" if hasattr(value, "strftime") else str(value)
