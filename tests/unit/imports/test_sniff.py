"""What the first bytes are; expected values are from the byte order marks' definitions (Unicode §23.8) and RFC 1952."""

from __future__ import annotations

import gzip

import pytest

from transforms.imports.problems import ImportFileError
from transforms.imports.sniff import is_gzip, refuse_other_kinds, sniff_encoding

TABLE = "source_url\ttarget_url\nhttps://ä.example/ü\thttps://example.com/\n"


@pytest.mark.parametrize(
    ("head", "codec", "bom"),
    [
        (b"\xef\xbb\xbf" + TABLE.encode(), "utf-8", 3),
        (b"\xff\xfe" + TABLE.encode("utf-16-le"), "utf-16-le", 2),
        (b"\xfe\xff" + TABLE.encode("utf-16-be"), "utf-16-be", 2),
        (b"\xff\xfe\x00\x00" + TABLE.encode("utf-32-le"), "utf-32-le", 4),
        (TABLE.encode("utf-16-le"), "utf-16-le", 0),
        (TABLE.encode("utf-16-be"), "utf-16-be", 0),
        (TABLE.encode(), "utf-8", 0),
        (TABLE.encode("cp1252"), "cp1252", 0),
        (b"plain ascii", "utf-8", 0),
        (TABLE.encode()[:-1] + "ü".encode()[:1], "utf-8", 0),  # cut inside a character
    ],
)
def test_encoding(head: bytes, codec: str, bom: int) -> None:
    found = sniff_encoding(head, "f.csv")
    assert (found.codec, found.bom) == (codec, bom)
    assert "https://example.com/" in head[found.bom :].decode(found.codec, found.errors) or head == b"plain ascii"


def test_a_few_broken_bytes_do_not_make_a_utf8_file_windows_1252() -> None:
    head = ("https://example.com/äöü\n" * 10).encode() + b"https://example.com/\xe4\n"
    assert sniff_encoding(head, "f.csv").codec == "utf-8"


def test_binary_is_refused() -> None:
    with pytest.raises(ImportFileError, match=r"f\.bin is not text"):
        sniff_encoding(bytes(range(256)) * 40, "f.bin")


def test_a_stray_zero_byte_is_a_rows_matter() -> None:
    assert (
        sniff_encoding(b"https://example.com/\x00a\n" * 3 + b"https://example.com/ordinary\n" * 200, "f.csv").codec
        == "utf-8"
    )


@pytest.mark.parametrize(
    ("head", "message"),
    [(b"PK\x03\x04rest", "Excel"), (b"%PDF-1.7", "PDF"), (b"PAR1xxxx", "Parquet"), (b"\x28\xb5\x2f\xfdxx", "zstd")],
)
def test_other_kinds_are_named(head: bytes, message: str) -> None:
    with pytest.raises(ImportFileError, match=message):
        refuse_other_kinds(head, "f")


def test_gzip() -> None:
    assert is_gzip(gzip.compress(b"x"))
    assert not is_gzip(b"\x1f\x8b")
