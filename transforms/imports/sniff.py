"""What the first bytes of an import file are. Here: gzip, byte order marks, encodings, other kinds of file.
Not here: delimiter and headings (`transforms.imports.layout`), reading (`warehouse.imports.reader`).
"""

from __future__ import annotations

from dataclasses import dataclass

from transforms.imports.problems import ImportFileError

HEAD_BYTES = 1 << 20
"""How much of the (unpacked) file decides."""

_BOMS: tuple[tuple[bytes, str, str], ...] = (  # longest first: UTF-32 LE starts with UTF-16 LE's mark
    (b"\xff\xfe\x00\x00", "utf-32-le", "UTF-32 LE"),
    (b"\x00\x00\xfe\xff", "utf-32-be", "UTF-32 BE"),
    (b"\xef\xbb\xbf", "utf-8", "UTF-8"),
    (b"\xff\xfe", "utf-16-le", "UTF-16 LE"),
    (b"\xfe\xff", "utf-16-be", "UTF-16 BE"),
)

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "an Excel workbook or a ZIP archive: save it as CSV, or unpack it, first"),
    (b"PK\x05\x06", "an empty ZIP archive: export the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save it as CSV first"),
    (b"%PDF-", "a PDF: export the table as CSV"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it, or use gzip, first"),
    (b"BZh", "bzip2-compressed: unpack it, or use gzip, first"),
    (b"\xfd7zXZ\x00", "xz-compressed: unpack it, or use gzip, first"),
    (b"PAR1", "a Parquet file: export the table as CSV"),
    (b"\x7fELF", "a program, not a table of links"),
    (b"\x89PNG", "a picture, not a table of links"),
    (b"\xff\xd8\xff", "a picture, not a table of links"),
)

_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\r\f\x0b") + b"\x7f"


@dataclass(frozen=True)
class TextEncoding:
    """How bytes become text."""

    codec: str
    """Python's codec, without a byte order mark of its own."""
    bom: int
    """Length of the byte order mark that comes first."""
    label: str
    """For a person."""

    @property
    def errors(self) -> str:
        """Handler that keeps undecodable input as lone surrogates, so that it is a row's matter and not the file's."""
        if self.codec.startswith("utf-16"):
            return "surrogatepass"
        return "replace" if self.codec.startswith("utf-32") else "surrogateescape"


def is_gzip(head: bytes) -> bool:
    """RFC 1952 §2.3.1: the two magic bytes and the only defined method."""
    return head[:3] == b"\x1f\x8b\x08"


def refuse_other_kinds(head: bytes, name: str) -> None:
    """Raise `ImportFileError` for a file that is well known to be something else."""
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise ImportFileError(f"{name} is {what}.")


def sniff_encoding(head: bytes, name: str) -> TextEncoding:
    """The encoding of a file that begins with `head` (unpacked). Raises `ImportFileError` when it is not text.

    Order: byte order mark, then zero bytes on one side of each pair (UTF-16 without a mark), then UTF-8 if what is not
    ASCII mostly fits UTF-8 (a few broken bytes are a row's matter), else Windows-1252.
    """
    for mark, codec, label in _BOMS:
        if head.startswith(mark):
            return TextEncoding(codec, len(mark), f"{label} with a byte order mark")
    pairs = len(head) // 2
    if pairs >= 2:
        even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
        if odd > 0.4 * pairs and even < 0.02 * pairs:
            return TextEncoding("utf-16-le", 0, "UTF-16 LE")
        if even > 0.4 * pairs and odd < 0.02 * pairs:
            return TextEncoding("utf-16-be", 0, "UTF-16 BE")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > 0.05 * len(head) and controls > 8:
        raise ImportFileError(
            f"{name} is not text ({controls:,} control bytes in its first {len(head):,}): export the table as CSV."
        )
    if head.isascii():
        return TextEncoding("utf-8", 0, "UTF-8")
    text = head.decode("utf-8", "surrogateescape")
    broken = sum(1 for c in text[:-4] if "\udc80" <= c <= "\udcff")  # a sequence may be cut by the end of the head
    multibyte = sum(1 for c in text if c > "\x7f") - broken
    if broken <= multibyte // 4:
        return TextEncoding("utf-8", 0, "UTF-8")
    return TextEncoding("cp1252", 0, "Windows-1252")
