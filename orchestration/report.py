"""The table that link managers read: one row per edge of a project, from the ledger and ClickHouse. Here: its columns and
its forms (terminal, CSV, JSON, Parquet). Not here: when it is made (`backlinks check`)."""

from __future__ import annotations

import io
import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from assets.platform import Platform
from orchestration import redirects
from orchestration.cli.console import WIDTH_WITHOUT_TERMINAL, PlainConsole
from transforms.arrays import frame_of
from transforms.errors import PermanentError
from transforms.reasons import Reason
from transforms.windows import Window
from warehouse import clickhouse
from warehouse.ledger import lookups

COLUMNS = (
    "source_url", "target_url", "state", "evidence", "reason", "follow", "rel", "anchor_text", "is_image_link", "placement",
    "link_count", "source_status", "source_redirects_to", "source_indexable", "source_canonical", "target_health",
    "target_status", "target_redirects_to", "target_indexable", "first_seen_at", "last_seen_live_at", "last_checked_at",
    "lost_at", "misses", "second_look_at", "next_check_at", "link_redirects",
)  # fmt: skip

_WORST_FIRST = ["lost", "unknown", "live"]


class Output(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class CannotWrite(PermanentError):
    """The report's file cannot be written."""


def form_of(output: Output | None, to: Path | None) -> Output:
    """In which form a report goes where: as asked, else by the file's suffix, else a table. Raises `CannotWrite` for what
    cannot work, before anything is done for it."""
    if to is None:
        if output is Output.PARQUET:
            raise CannotWrite("--output parquet needs --to FILE")
        return output or Output.TABLE
    if not to.parent.is_dir():
        raise CannotWrite(f"the report cannot be written to {to}: there is no folder {to.parent}")
    if output is None:
        suffixes = {f".{form.value}": form for form in Output if form is not Output.TABLE} | {".txt": Output.TABLE}
        if to.suffix.lower() not in suffixes:
            raise CannotWrite(
                f"--to {to}: add --output csv, json, parquet or table, or name the file .csv, .json, .parquet or .txt"
            )
        return suffixes[to.suffix.lower()]
    return output


def edges(platform: Platform, project_id: bytes) -> pl.DataFrame:
    """`COLUMNS` of every edge of the project, worst first; an edge that was never observed says `not_fetched`."""
    known = pl.DataFrame()
    after = 0
    pages = []
    while (page := lookups.edge_list(platform.ledger, project_id, after_id=after)).num_rows:
        pages.append(frame_of(page))
        after = page["backlink_id"][-1].as_py()
    if not pages:
        return pl.DataFrame({name: [] for name in COLUMNS})
    known = pl.concat(pages)
    newest = frame_of(clickhouse.project_edges(platform.clickhouse, project_id))
    observed = newest.select(
        "backlink_id", "source_is_redirected", "source_final_url", "source_canonical_url", "target_is_redirected",
        "target_final_url",
    )  # fmt: skip
    return (
        known.join(observed, on="backlink_id", how="left")
        .join(_link_redirects(platform, newest), on="backlink_id", how="left")
        .with_columns(
            evidence=pl.col("evidence").fill_null("none"),
            reason=pl.col("reason").fill_null(Reason.NOT_FETCHED.value),
            rel=pl.concat_str(
                [
                    pl.when(pl.col(f"rel_{name}")).then(pl.lit(f"{name} ")).otherwise(pl.lit(""))
                    for name in ("nofollow", "ugc", "sponsored")
                ]
            ).str.strip_chars_end(),
            source_status="source_http_status",
            target_status="target_http_status",
            source_redirects_to=pl.when("source_is_redirected").then("source_final_url"),
            target_redirects_to=pl.when("target_is_redirected").then("target_final_url"),
            source_canonical="source_canonical_url",
            second_look_at="confirm_not_before",
        )
        .sort(
            pl.col("state").replace_strict(_WORST_FIRST, range(3), default=3),
            "misses",
            "source_url",
            "target_url",
            descending=[False, True, False, False],
        )
        .select(COLUMNS)
    )


def _link_redirects(platform: Platform, newest: pl.DataFrame) -> pl.DataFrame:
    """`link_redirects` of the edges whose newest evidence stands on a check of the source's own redirector."""
    through = newest.filter(pl.col("evidence_reason").is_in(redirects.THROUGH_REDIRECTS))
    found: dict[int, str] = {}
    windows: dict[Window, list[int]] = {}
    for source, checked_at in through.select("source_url_id", "checked_at").iter_rows():
        windows.setdefault(Window.containing(checked_at, platform.window_length), []).append(source)
    for window, sources in windows.items():
        found |= redirects.by_edge(redirects.checks(platform, window, sources))
    return pl.DataFrame(
        {"backlink_id": list(found), "link_redirects": list(found.values())},
        schema={"backlink_id": pl.UInt64, "link_redirects": pl.String},
    )


def write(report: pl.DataFrame, form: Output, to: Path | None, *, console: Console, limit: int) -> None:
    """Show the report, or write it to a file and say so. CSV and JSON go to stdout without `to`."""
    if to is None and form is Output.TABLE:
        console.print(summary(report))
        console.print(table(report.head(limit)))
        if report.height > limit:
            console.print(f"{report.height - limit:,} more: --limit, or --to FILE.csv (.json, .parquet)")
    elif to is None:
        sys.stdout.write(_text(report, form))
    else:
        try:
            if form is Output.PARQUET:
                report.write_parquet(to)
            else:
                to.write_text(_text(report, form), "utf-8")
        except OSError as error:
            raise CannotWrite(f"the report cannot be written to {to}: {error.strerror or error}") from error
        console.print(summary(report))
        console.print(f"{_links(report.height)} written as {form.value}: {to}", soft_wrap=True)
    if waits := waiting(report):
        console.print(waits, soft_wrap=True)


def _text(report: pl.DataFrame, form: Output) -> str:
    if form is Output.JSON:
        return report.write_json() + "\n"
    if form is Output.CSV:
        return _safe_cells(report).write_csv()
    out = io.StringIO()
    PlainConsole(file=out, width=WIDTH_WITHOUT_TERMINAL).print(table(report))
    return out.getvalue()


def waiting(report: pl.DataFrame) -> str | None:
    """A sentence about the links that were missed once; None when there are none."""
    times = report["second_look_at"].drop_nulls()
    if not times.len():
        return None
    first = times.min()
    assert isinstance(first, datetime)
    return (
        f"{_links(times.len())} missed once. A loss needs a second look, due from {first:%Y-%m-%d %H:%M} UTC on: `backlinks run` then, "
        "or let the schedule do it."
    )


def summary(report: pl.DataFrame) -> Table:
    """How many edges are in which state, and why."""
    table = Table("state", "last evidence", "reason", title=_links(report.height), title_justify="left")
    table.add_column("links", justify="right")
    counts = report.group_by("state", "evidence", "reason").len().sort("len", descending=True)
    for state, evidence, reason, number in counts.iter_rows():
        table.add_row(state, evidence, reason, f"{number:,}", style=_COLOURS.get(state))
    return table


_COLOURS = {"lost": "red", "live": None, "unknown": "yellow"}


def table(report: pl.DataFrame) -> Table:
    """The rows for a terminal of 120 columns, no cell cut; what does not fit (first seen, canonicals, …) is in the other
    outputs. A link is two lines: its source, its target; each redirect is one more."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left", show_lines=False)
    for heading in ("link", "state", "follow", "anchor", "source", "target", "last seen"):
        is_long = heading in ("link", "anchor")
        shown.add_column(heading, no_wrap=not is_long, max_width=None if heading == "link" else 20, overflow="fold")
    for row in report.iter_rows(named=True):
        link = [_short(row["source_url"]), f"→{_short(row['target_url'])}"]
        if row["source_redirects_to"]:
            link.append(f"source redirects to {_short(row['source_redirects_to'])}")
        if row["link_redirects"]:
            link.append(f"link redirects: {row['link_redirects'].replace('http://', '').replace('https://', '')}")
        if row["target_redirects_to"]:
            link.append(f"target redirects to {_short(row['target_redirects_to'])}")
        if row["second_look_at"]:
            link.append(f"missed once, second look due {row['second_look_at']:%H:%M} UTC")
        indexable = {True: "", False: "noindex", None: ""}[row["source_indexable"]]
        shown.add_row(
            "\n".join(link), f"{row['state']}\n{row['reason']}", (row["follow"] or "").replace("nofollow_", "no: "),
            _anchor(row), f"{row['source_status'] or ''}\n{indexable}", f"{row['target_health']}\n{row['target_status'] or ''}",
            _day(row["last_seen_live_at"]), style=_COLOURS.get(row["state"]),
        )  # fmt: skip
    return shown


def _safe_cells(report: pl.DataFrame) -> pl.DataFrame:
    """What pages say, for a spreadsheet and a terminal: a cell that would run as a formula gets a quote in front (OWASP:
    CSV injection), a control character shows as U+FFFD. JSON and Parquet hold what was said, unchanged."""
    text = pl.col(pl.String).str.replace_all(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd")
    return report.with_columns(
        pl.when(text.str.contains(r"^[=+\-@\t\r\n＝＋－＠]")).then("'" + text).otherwise(text).name.keep()
    )


def _links(number: int) -> str:
    return f"{number:,} link{'' if number == 1 else 's'}"


def _anchor(row: dict[str, Any]) -> str:
    return ("▣ " if row["is_image_link"] else "") + (row["anchor_text"] or "")


def _short(url: str) -> str:
    return url.removeprefix("https://").removeprefix("http://")


def _day(at: object) -> str:
    return "" if at is None else str(at)[:10]
