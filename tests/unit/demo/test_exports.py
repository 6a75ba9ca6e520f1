"""The import files look like what the tools export, and say what an import of them must report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from orchestration.demo.scenario import load_scenario, write_exports
from orchestration.demo.scenario.exports import AHREFS_COLUMNS, JUNK_AFTER

SCENARIO = load_scenario()


def test_ahrefs_file(tmp_path: Path) -> None:
    export = write_exports(tmp_path)["acme"]
    raw = export.path.read_bytes()
    assert raw.startswith(b'\xff\xfe"\x00R\x00')
    rows = list(csv.DictReader(io.StringIO(raw.decode("utf-16"), newline=""), delimiter="\t"))
    assert tuple(rows[0]) == AHREFS_COLUMNS
    assert len(rows) == export.rows == 99
    assert (export.accepted, export.duplicate, export.invalid) == (93, 2, 4)
    assert rows[0]["Referring page URL"] == "http://gardening-weekly.test/best-trowels"
    assert rows[0]["Target URL"] == "http://acme-tools.test/trowels"
    assert rows[0]["Anchor"] == "Acme hand trowel"
    assert [row["Referring page URL"] for row in rows[JUNK_AFTER : JUNK_AFTER + 6]] == [
        junk["source"] for junk in SCENARIO.projects["acme"].junk
    ]
    japanese = next(row for row in rows if "niwa-techo" in row["Referring page URL"])
    assert (japanese["Anchor"], japanese["Language"]) == ("剪定ばさみ", "ja")
    image = next(row for row in rows if "picture-plots" in row["Referring page URL"])
    assert (image["Type"], image["Anchor"]) == ("image", "A green wheelbarrow")


def test_generic_file(tmp_path: Path) -> None:
    export = write_exports(tmp_path)["blueriver"]
    rows = list(csv.DictReader(io.StringIO(export.path.read_text(encoding="utf-8"))))
    assert len(rows) == export.rows == 16
    assert (export.accepted, export.duplicate, export.invalid) == (12, 1, 3)
    assert {rule.scope for rule in export.targets} == {"exact_url", "url_prefix", "subdomain"}
    assert ("http://etl-stories.test/river", "http://blueriver.test/docs/quickstart?lang=en") in {
        (row["source_url"], row["target_url"]) for row in rows
    }


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    first = {key: export.path.read_bytes() for key, export in write_exports(tmp_path / "a").items()}
    second = {key: export.path.read_bytes() for key, export in write_exports(tmp_path / "b").items()}
    assert first == second
