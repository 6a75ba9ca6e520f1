"""The report's forms: which one a file gets, what a spreadsheet is spared, and the hint of a second look."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from orchestration import report
from orchestration.cli.console import PlainConsole
from orchestration.report import CannotWrite, Output, form_of

LOOK = datetime(2026, 12, 1, 11, 40, tzinfo=UTC)
LONG = "http://xn--e1aybc.test/" + "a" * 2025
"""2,048 characters and a host that is spelled with other letters."""


def links(**changes: Any) -> pl.DataFrame:
    row = dict.fromkeys(report.COLUMNS) | {
        "source_url": LONG, "target_url": "http://t.test/", "state": "unknown", "reason": "link_absent",
        "evidence": "missing", "target_health": "ok", "misses": 1, "is_image_link": False, "second_look_at": LOOK,
    } | changes  # fmt: skip
    return pl.DataFrame([row], infer_schema_length=None, schema_overrides={"second_look_at": pl.Datetime("us", "UTC")})


def written(frame: pl.DataFrame, form: Output, to: Path | None) -> str:
    out = io.StringIO()
    report.write(frame, form, to, console=PlainConsole(file=out, width=120), limit=50)
    return out.getvalue()


@pytest.mark.parametrize(
    ("output", "name", "form"),
    [
        (None, None, Output.TABLE), (Output.CSV, None, Output.CSV), (None, "r.csv", Output.CSV), (None, "r.JSON", Output.JSON),
        (None, "r.parquet", Output.PARQUET), (None, "r.txt", Output.TABLE), (Output.TABLE, "r.csv", Output.TABLE),
        (Output.JSON, "r.csv", Output.JSON),
    ],
)  # fmt: skip
def test_a_file_gets_the_form_that_its_name_says(
    tmp_path: Path, output: Output | None, name: str | None, form: Output
) -> None:
    assert form_of(output, None if name is None else tmp_path / name) is form


@pytest.mark.parametrize(
    ("output", "to", "says"),
    [(Output.PARQUET, None, "--to"), (None, "report", "--output"), (None, "nowhere/r.csv", "nowhere")],
)
def test_what_cannot_be_written_is_said_before_anything_is_done(
    tmp_path: Path, output: Output | None, to: str | None, says: str
) -> None:
    with pytest.raises(CannotWrite, match=says):
        form_of(output, None if to is None else tmp_path / to)


def test_a_first_miss_says_when_it_is_looked_at_again(tmp_path: Path) -> None:
    shown = written(links(), Output.TABLE, None)
    assert "missed once, second look due 11:40 UTC" in shown
    assert "1 link missed once. A loss needs a second look, due from 2026-12-01 11:40 UTC on" in shown
    assert shown.count("a") >= LONG.count("a")  # folded, not cut
    said = written(links(), Output.CSV, tmp_path / "r.csv")
    assert f"1 link written as csv: {tmp_path / 'r.csv'}" in said
    (row,) = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert row["second_look_at"].startswith("2026-12-01T11:40")
    assert report.waiting(links(second_look_at=None)) is None


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        ('=HYPERLINK("http://e.test","x")', '\'=HYPERLINK("http://e.test","x")'), ("+1", "'+1"), ("@SUM(A1)", "'@SUM(A1)"),
        ("＝1+1", "'＝1+1"), ("\x1b[2J=1", "�[2J=1"), ("a\x9bm", "a�m"), ("عربي\u202e", "عربي\u202e"), ("<b>|x", "<b>|x"),
    ],
)  # fmt: skip
def test_a_spreadsheet_runs_nothing_and_json_holds_what_was_said(tmp_path: Path, said: str, cell: str) -> None:
    frame = links(anchor_text=said)
    written(frame, Output.CSV, tmp_path / "r.csv")
    with open(tmp_path / "r.csv", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["anchor_text"] == cell
    written(frame, Output.JSON, tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())[0]["anchor_text"] == said
