"""What strangers write (anchor texts, URLs, titles) reaches terminals and Dagster's pages as text, never as a command."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from assets import tables
from orchestration import report
from orchestration.cli import fetch, parse, robots, url
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


@pytest.mark.parametrize("text", HOSTILE)
def test_what_single_commands_show_is_text(text: str, tmp_path: Path) -> None:
    """A stranger's title, anchor, rel and robots rule reach the terminal of whoever looks at his page."""
    (tmp_path / "page.html").write_text(
        f"<meta charset=utf-8><title>{text}</title><a href=x rel='{text}'>{text}</a>", encoding="utf-8"
    )
    (tmp_path / "robots.txt").write_text(f"User-agent: *\nDisallow: /{text}", encoding="utf-8")
    for command, arguments, times in (
        (parse.parse, [str(tmp_path / "page.html"), "--url", "http://a.test/"], 2),
        (robots.robots, [f"/{text}", "--file", str(tmp_path / "robots.txt")], 2),
        (url.url, [f"x:{text}"], 1),
        (fetch.fetch, [f"http://[::1]/{text}"], 1),
    ):
        app = typer.Typer()
        app.command()(command)
        shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "400"}).stdout
        assert shown.count(visible(text)) >= times, command
        assert "\x1b" not in shown
        assert "\x9b" not in shown


def test_a_terminal_without_unicode_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<meta charset=utf-8><title>\u65e5\u672c</title>", encoding="utf-8")
    command = [
        sys.executable,
        "-c",
        "from orchestration.cli import main; main()",
        "parse",
        "page.html",
        "--url",
        "http://a.test/",
    ]
    root = str(Path(__file__).resolve().parents[3])
    environment = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "latin-1"}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    assert (shown.returncode, b"\\u65e5\\u672c" in shown.stdout) == (0, True), shown.stderr
    answer = subprocess.run(
        [*command, "--json"], cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    assert json.loads(answer.stdout)["page"]["title"] == "\u65e5\u672c"
