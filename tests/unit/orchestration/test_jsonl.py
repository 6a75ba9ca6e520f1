"""Lines in rounds: each line once, in order, under its own number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestration.cli.jsonl import LineError, read_rounds


def shown(requests: list) -> list[object]:  # type: ignore[type-arg]
    return [str(one) if isinstance(one, LineError) else one for one in requests]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_file_is_read_in_rounds_of_what_one_reading_gives(tmp_path: Path, newline: bytes) -> None:
    line = b'{"url": "%s"}' % (b"x" * 1000)
    lines = [line] * 200 + [b"no json", b""] + [line] * 199 + [b'{"last": 1}']
    (tmp_path / "in").write_bytes(newline.join(lines))
    rounds = [shown(one) for one in read_rounds(str(tmp_path / "in"), most=100)]
    assert [one for each in rounds for one in each] == [
        *[{"url": "x" * 1000}] * 200,
        "line 201 is not JSON: Expecting value: line 1 column 1 (char 0)",
        "line 202 is empty",
        *[{"url": "x" * 1000}] * 199,
        {"last": 1},
    ]
    assert len(rounds) > 2
    assert max(len(one) for one in rounds) < 200  # no more than a reading beyond what was asked for


def test_a_line_is_handed_on_when_it_is_whole_and_none_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    rounds = read_rounds(str(tmp_path / "pipe"), most=100)
    for text, expected in (
        (b'{"a": 1}\n', [{"a": 1}]),
        (b'{"b": 2}\n{"c": 3}\n', [{"b": 2}, {"c": 3}]),
        (b'{"d"\n', ["line 4 is not JSON: Expecting ':' delimiter: line 1 column 5 (char 4)"]),
    ):
        os.write(writer, text)
        assert shown(next(rounds)) == expected
    os.close(writer)
    assert list(rounds) == []
