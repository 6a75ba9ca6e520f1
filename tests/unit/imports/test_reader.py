"""Reading hostile files in bounded memory. (Files are real; only the ledger is missing here.)"""

from __future__ import annotations

import gzip
import os
import stat
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.imports.problems import ImportFileError
from transforms.imports.records import MAX_LINE_CHARS
from warehouse.imports import reader
from warehouse.imports.reader import LineSource

TEXT = (
    "source_url\ttarget_url\r\nhttps://ä.example/\thttps://example.com/\r\n\r\nhttps://b.example/\thttps://example.com/"
)
LINES = [
    "source_url\ttarget_url",
    "https://ä.example/\thttps://example.com/",
    "",
    "https://b.example/\thttps://example.com/",
]


def lines(path: Path) -> tuple[list[str], set[int], str | None]:
    out, marked = list[str](), set[int]()
    with LineSource(path) as source:
        for block in source.blocks():
            assert block.first_line == len(out) + 1
            marked |= {len(out) + index for index in block.too_long}
            out += block.lines
        assert source.damage or source.position == path.stat().st_size
        return out, marked, source.damage


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "utf-32"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_encoding_packed_or_not(tmp_path: Path, codec: str, packed: bool) -> None:
    path = tmp_path / "f.csv"
    data = TEXT.encode(codec)
    path.write_bytes(gzip.compress(data) if packed else data)
    assert lines(path) == (LINES, set(), None)


@settings(max_examples=60, deadline=None)
@given(
    text=st.lists(st.sampled_from(["a", "b,", "ä", "€", "😀", "\n", "\r\n", "\r", "\x00"]), max_size=300).map(
        lambda parts: "h" + "".join(parts)
    ),
    codec=st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]),
    size=st.integers(1, 40),
)
def test_lines_do_not_depend_on_how_much_is_read_at_once(
    text: str, codec: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("reader") / "f.csv"
    path.write_bytes(text.encode(codec))
    patch = pytest.MonkeyPatch()
    patch.setattr(reader, "READ_BYTES", size)
    patch.setattr(reader, "HEAD_BYTES", 64)
    try:
        found = lines(path)[0]
    except ImportFileError as error:
        assert "no line end" in str(error)  # noqa: PT017 - the only refusal that such text may meet
        return
    finally:
        patch.undo()
    want = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert found == (want if want[-1] else want[:-1])


def test_old_macintosh_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(b"source,target\rhttps://a.example/,https://example.com/\r\n")
    assert lines(path)[0] == ["source,target", "https://a.example/,https://example.com/"]


def test_a_line_without_end_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"source_url,target_url\n" + b"https://a.example/,https://example.com/\n" * 40_000)
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b"\nhttps://b.example/,https://example.com/\n")
    tracemalloc.start()
    try:
        count, long_lines, last = 0, 0, ""
        with LineSource(path) as source:
            for block in source.blocks():
                count += len(block.lines)
                long_lines += len(block.too_long)
                last = block.lines[-1]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (count, long_lines, last) == (40_003, 1, "https://b.example/,https://example.com/")
    assert peak < 40 << 20


def test_long_lines_first_last_and_just_fitting(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    fits, long = "f" * MAX_LINE_CHARS, "l" * (MAX_LINE_CHARS + 1)
    path.write_text("\n".join(["a", fits, long, "b", long]))
    found, marked, _ = lines(path)
    assert [line[:1] for line in found] == ["a", "f", "l", "b", "l"]
    assert marked == {2, 4}
    assert found[1] == fits
    assert len(found[2]) == 1000


def test_truncated_gzip_keeps_what_came_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    body = b"source_url,target_url\n" + b"".join(
        b"https://a.example/%d,https://example.com/\n" % i for i in range(50_000)
    )
    packed = gzip.compress(body)
    path.write_bytes(packed[: len(packed) // 2])
    found, _, damage = lines(path)
    assert 10_000 < len(found) < 50_000
    assert damage is not None
    assert f"gzip is cut off after {len(packed) // 2:,} bytes of the file" in damage


def test_corrupt_gzip_and_trailing_bytes(tmp_path: Path) -> None:
    path = tmp_path / "f.csv.gz"
    body = b"source_url,target_url\n" + os.urandom(200_000).hex().encode() + b"\n"
    packed = bytearray(gzip.compress(body))
    packed[-6] ^= 0xFF  # its checksum
    path.write_bytes(packed)
    assert "gzip is corrupt near byte" in str(lines(path)[2])
    path.write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n") + b"\0" * 512)
    assert lines(path) == (["a", "b"], set(), None)
    path.write_bytes(gzip.compress(b"a\n") + b"rubbish")
    assert lines(path)[0] == ["a"]
    assert "follow its end" in str(lines(path)[2])


def test_utf16_that_ends_within_a_character(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(TEXT.encode("utf-16")[:-1])
    assert lines(path)[0][-1] == LINES[-1][:-1] + "�"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "does not exist: check the path"),
        ("empty.csv", b"", "is empty"),
        ("empty.csv.gz", gzip.compress(b""), "is empty"),
        ("cut.csv.gz", gzip.compress(b"hello, world")[:10], "is damaged (gzip is cut off"),
        ("book.xlsx", b"PK\x03\x04....", "Excel"),
        ("noise.bin", bytes(range(256)) * 100, "is not text"),
        ("one-line.txt", b"x" * (3 << 20), "no line end in its first 1 MiB"),
        ("zip-in.gz", gzip.compress(b"PK\x03\x04...."), "ZIP"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImportFileError) as caught, LineSource(path):
        pass
    assert name in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_directories_and_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in [
        (tmp_path, "is a directory"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "x\0y", "cannot be opened"),
    ]:
        with pytest.raises(ImportFileError, match=message), LineSource(path):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("x")
    path.chmod(stat.S_IWUSR)
    with pytest.raises(ImportFileError, match="may not be read"), LineSource(path):
        pass
