"""A file of links as blocks of lines, in bounded memory whatever it is. Here: opening, unpacking, decoding, splitting.
Not here: what the first bytes mean (`transforms.imports.sniff`), what a line holds (`transforms.imports.records`).
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from transforms.imports.problems import ImportFileError
from transforms.imports.records import MAX_LINE_CHARS, LineBlock
from transforms.imports.sniff import (
    HEAD_BYTES,
    TextEncoding,
    is_gzip,
    refuse_other_kinds,
    sniff_encoding,
)

READ_BYTES = 1 << 18
BLOCK_LINES = 10_000
BLOCK_CHARS = 4 << 20
"""A block ends at whichever comes first: a wide export stays as bounded as a narrow one."""


@dataclass(frozen=True)
class Opened:
    """What is known of a file after its head was read."""

    name: str
    size: int
    """Bytes on disk."""
    gzip: bool
    encoding: TextEncoding
    head: tuple[str, ...]
    """The first complete lines."""


class LineSource:
    """One pass over a file. Use as a context manager; `position` and `damage` may be read at any time.

    Raises `ImportFileError` on entry when the path is no readable, non-empty text file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._position = 0
        self.damage: str | None = None
        """Why the file ends before its end (a truncated gzip); rows up to there were read."""

    @property
    def position(self) -> int:
        """Bytes read from the disk, for a progress bar against `Opened.size`."""
        return self._position

    def __enter__(self) -> LineSource:
        path, name = self._path, str(self._path)
        try:
            # Not blocking: a named pipe without a writer must not hang the command.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
            self._file = os.fdopen(descriptor, "rb", buffering=0)
        except FileNotFoundError:
            raise ImportFileError(f"{name} does not exist: check the path.") from None
        except IsADirectoryError:
            raise ImportFileError(f"{name} is a directory: name the file in it.") from None
        except PermissionError:
            raise ImportFileError(f"{name} may not be read by this user: check its permissions.") from None
        except (OSError, ValueError) as error:
            raise ImportFileError(f"{name} cannot be opened: {error}.") from error
        try:
            status = os.fstat(self._file.fileno())
            if not stat.S_ISREG(status.st_mode):
                kind = (
                    "a directory: name the file in it"
                    if stat.S_ISDIR(status.st_mode)
                    else "not a regular file: save it to disk first"
                )
                raise ImportFileError(f"{name} is {kind}.")
            if status.st_size == 0:
                raise ImportFileError(f"{name} is empty: nothing to import.")
            self._size = status.st_size
            self._open_head(name)
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _open_head(self, name: str) -> None:
        start = self._read(READ_BYTES)
        gzip = is_gzip(start)
        if not gzip:
            refuse_other_kinds(start, name)
        self._bytes = self._unzip(start) if gzip else self._plain(start)
        head, ended = bytearray(), True
        for data in self._bytes:
            head += data
            if len(head) >= HEAD_BYTES:
                ended = False
                break
        if not head:
            problem = f"is damaged ({self.damage})" if self.damage else "is empty: nothing to import"
            raise ImportFileError(f"{name} {problem}.")
        self._head = bytes(head)
        del head
        if gzip:
            refuse_other_kinds(self._head, f"{name}, unpacked,")
        encoding = sniff_encoding(self._head, name)
        lines = _decoder(encoding).decode(self._head[encoding.bom :], False).split("\n")
        if not ended:
            if len(lines) == 1:
                raise ImportFileError(
                    f"{name} has no line end in its first {HEAD_BYTES >> 20} MiB: it is no table and no list of links."
                )
            lines.pop()
        self.opened = Opened(name, self._size, gzip, encoding, tuple(lines[:100]))

    def _read(self, size: int) -> bytes:
        assert self._file is not None
        try:
            data = self._file.read(size)
        except OSError as error:
            raise ImportFileError(
                f"{self._path} cannot be read beyond byte {self._position:,}: {error.strerror}."
            ) from error
        self._position += len(data)
        return data

    def _plain(self, start: bytes) -> Iterator[bytes]:
        data = start
        while data:
            yield data
            data = self._read(READ_BYTES)

    def _unzip(self, start: bytes) -> Iterator[bytes]:
        """All members of a gzip (RFC 1952 §2.2), in pieces of at most `READ_BYTES`; `damage` says what is broken."""
        data, member, unpacked = start, zlib.decompressobj(wbits=31), 0
        while True:
            try:
                piece = member.decompress(data, READ_BYTES)
            except zlib.error as error:
                near = self._position - len(data)
                self.damage = f"gzip is corrupt near byte {near:,} of the file, {unpacked:,} bytes unpacked: {error}"
                return
            if piece:
                unpacked += len(piece)
                yield piece
            data = member.unconsumed_tail
            if member.eof:
                data = (member.unused_data or self._read(READ_BYTES)).lstrip(b"\0")  # tapes pad with zeros
                while not data:
                    data = self._read(READ_BYTES)
                    if not data:
                        return
                    data = data.lstrip(b"\0")
                if not is_gzip(data[:3] if len(data) >= 3 else data + self._peek(3 - len(data))):
                    self.damage = (
                        f"bytes that are no gzip follow its end, at byte {self._position - len(data):,} of the file"
                    )
                    return
                member = zlib.decompressobj(wbits=31)
            elif not data:
                data = self._read(READ_BYTES)
                if not data and not piece:
                    self.damage = (
                        f"gzip is cut off after {self._position:,} bytes of the file, {unpacked:,} bytes unpacked"
                    )
                    return

    def _peek(self, size: int) -> bytes:
        assert self._file is not None
        at = self._file.tell()
        data = self._file.read(size)
        self._file.seek(at)
        return data

    def blocks(self) -> Iterator[LineBlock]:
        """All lines of the file, once; a line over `MAX_LINE_CHARS` is cut to its head and marked."""
        encoding = self.opened.encoding
        decoder = _decoder(encoding)
        first, lines, chars, long_lines = 1, list[str](), 0, set[int]()
        tail, skipping = "", False
        for text in self._texts(decoder, self._head[encoding.bom :]):
            parts = text.split("\n")
            if skipping:
                if len(parts) == 1:
                    continue  # still the same line: forget it
                parts[0] = tail
                skipping = False
                long_lines.add(len(lines))
            else:
                parts[0] = tail + parts[0]
            tail = parts.pop()
            for index, part in enumerate(parts):
                if len(part) > MAX_LINE_CHARS:
                    parts[index] = part[:1000]
                    long_lines.add(len(lines) + index)
            lines += parts
            chars += len(text)
            if len(tail) > MAX_LINE_CHARS:
                tail, skipping = tail[:1000], True
            if len(lines) >= BLOCK_LINES or (chars >= BLOCK_CHARS and lines):
                yield LineBlock(first, lines, frozenset(long_lines))
                first, lines, chars, long_lines = first + len(lines), [], 0, set()
        if tail or skipping:
            if skipping:
                long_lines.add(len(lines))
            lines.append(tail)
        if lines:
            yield LineBlock(first, lines, frozenset(long_lines))

    def _texts(self, decoder: io.IncrementalNewlineDecoder, start: bytes) -> Iterator[str]:
        if text := decoder.decode(start, False):
            yield text
        for data in self._bytes:
            if text := decoder.decode(data, False):
                yield text
        try:
            text = decoder.decode(b"", True)
        except UnicodeDecodeError:  # UTF-16 that ends in the middle of a character
            text = "�"
        if text:
            yield text


def _decoder(encoding: TextEncoding) -> io.IncrementalNewlineDecoder:
    """Bytes to text whose line ends are all `\\n`: files mix `\\r\\n`, `\\n` and the `\\r` of old Macintoshes."""
    return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding.codec)(encoding.errors), translate=True)
