"""What strangers write (anchor texts, URLs, titles) reaches terminals and Dagster's pages as text, never as a command."""

from __future__ import annotations

import io

import polars as pl
import pytest

from assets import tables
from orchestration import report
from orchestration.cli.console import PlainConsole, visible

HOSTILE = [
    "[red]sale[/red]",
    "[/]",
    "[/bold]",
    "[link=//e.test]x",
    ":boom:",
    "\x1b[2Jgone",
    "\u202egnp.exe",
    "\x9b2J",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_shows_hostile_text_as_it_is(text: str) -> None:
    row = dict.fromkeys(report.COLUMNS)
    row |= {
        "source_url": f"http://a.test/{text}", "target_url": "http://t.test/", "state": "live", "reason": "link_found",
        "evidence": "found", "target_health": "ok", "anchor_text": text, "is_image_link": False, "follow": "follow",
    }  # fmt: skip
    out = io.StringIO()
    console = PlainConsole(file=out, width=400, force_terminal=True, color_system="truecolor")
    console.print(report.table(pl.DataFrame([row], infer_schema_length=None)))
    console.print(report.summary(pl.DataFrame([row], infer_schema_length=None)))
    console.print(text)
    assert out.getvalue().count(visible(text)) == 3
    assert "\x1b[2J" not in out.getvalue()


def test_a_markdown_cell_stays_one_cell_of_text() -> None:
    shown = tables.markdown(pl.DataFrame({"anchor": ["a|b\n<img src=x> [x](javascript:1)"]})).value
    assert shown.splitlines()[2] == r"| a\|b \<img src=x\> \[x\](javascript:1) |"
