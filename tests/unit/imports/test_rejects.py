# ruff: noqa: PT012 - the block under test is a context manager
"""The rejects file: whole or not at all, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path

import polars as pl
import pytest

from transforms.imports.problems import ImportFileError
from transforms.imports.rows import REJECT_SCHEMA
from warehouse.imports.rejects import RejectsFile


def rows(*sources: str) -> pl.DataFrame:
    return pl.DataFrame(
        [(n, "invalid", "source_not_a_url", None, source, 'a "b", c') for n, source in enumerate(sources, 2)],
        schema=REJECT_SCHEMA,
        orient="row",
    )


def test_formulas_are_defused_and_cells_survive(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    sources = ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "plain", 'q"uote', "two\nlines", ""]
    with RejectsFile(path) as file:
        file.write(rows(*sources))
        file.write(rows())
        assert not path.exists()
    with path.open(newline="", encoding="utf-8") as opened:
        found = list(csv.reader(opened))
    assert found[0] == ["line", "result", "reason", "source", "target", "detail"]
    assert [row[3] for row in found[1:]] == [
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        "'\t=1",
        "' =1",
        "plain",
        'q"uote',
        "two\nlines",
        "",
    ]
    assert found[1] == ["2", "invalid", "source_not_a_url", "'=1+1", 'a "b", c', ""]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_an_error_leaves_the_earlier_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("earlier")
    with pytest.raises(RuntimeError, match="stop"), RejectsFile(path) as file:
        file.write(rows("x"))
        raise RuntimeError("stop")
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["r.csv"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "r.csv"):
        with (
            pytest.raises(ImportFileError, match=r"cannot be written: .*name another place with --rejects"),
            RejectsFile(path),
        ):
            pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / "part"

    def full(**_: object) -> tuple[int, str]:
        part.touch()
        return os.open("/dev/full", os.O_WRONLY), str(part)

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with (
        pytest.raises(ImportFileError, match=r"r\.csv cannot be written: No space left on device"),
        RejectsFile(tmp_path / "r.csv") as file,
    ):
        file.write(rows(*["x" * 400] * 1000))
        file.flush()
    assert os.listdir(tmp_path) == []


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
