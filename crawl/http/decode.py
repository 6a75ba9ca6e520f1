"""Content-Encoding undone while the bytes stream in, never more than a bounded piece at a time. Here: gzip, deflate
(zlib and raw), br, zstd, stacked up to three deep, under caps of size and ratio. Not here: charsets, Transfer-Encoding.

Sources: RFC 9110 §8.4, RFC 1950-1952, RFC 7932, RFC 8878 with the 8 MiB window of RFC 9659.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli
import zstandard

from transforms.reasons import Reason

MAX_LAYERS = 3
_PIECE = 256 * 1024
_RATIO_FROM = 1024 * 1024
_ZSTD_SLICE = 256
"""zstd blocks expand 4 bytes to at most 128 KiB and its API has no output limit: such slices bound a piece to 8 MiB."""

_PIECES = 20_000
_BYTES_A_PIECE = 256
"""A body may come in so many pieces, and one more for so many bytes: each costs 4 µs wherever it came from, and a page of 10
MB in chunks of one byte cost 43 s of CPU. (A page written line by line comes in a few thousand.)"""
_WIRE_SLACK = 1024 * 1024
"""Compressed bytes beyond the cap of the decoded ones that are read: a stream of empty blocks never ends."""

_NO_ENCODING = {"identity", "", "none", "binary", "8bit", "utf-8", "utf8", "iso-8859-1", "text/html"}
"""`identity`, and what misconfigured servers write there over plain bodies. Any other unknown token is refused: reading
compressed bytes as a page without links would be a lie."""


class BodyProblem(Exception):
    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class _Layer(Protocol):
    def decode(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None:
        """Raises INCOMPLETE_BODY when the stream has not ended."""
        ...


class BodyDecoder:
    """Feed it wire bytes; it keeps the decoded ones up to `max_bytes` (then `truncated`)."""

    def __init__(self, content_encoding: list[str], max_bytes: int, max_ratio: float) -> None:
        tokens = [t.strip().lower() for value in content_encoding for t in value.split(",")]
        tokens = [t for t in tokens if t not in _NO_ENCODING]
        if len(tokens) > MAX_LAYERS:
            raise BodyProblem(
                Reason.BAD_ENCODING, f"{len(tokens)} stacked content encodings; at most {MAX_LAYERS} are undone."
            )
        self._layers: list[_Layer] = [_layer(token) for token in reversed(tokens)]
        self._max_bytes = max_bytes
        self._max_ratio = max_ratio
        self._body = bytearray()
        self._work = 0
        self._fed = 0
        self.wire_bytes = 0
        self.truncated = False

    @property
    def decoded_bytes(self) -> int:
        return len(self._body)

    def feed(self, data: bytes | bytearray) -> None:
        """Raises BodyProblem. Once `truncated` is set, there is no use in feeding more."""
        self.wire_bytes += len(data)
        self._fed += 1
        if self._fed > _PIECES + self.wire_bytes // _BYTES_A_PIECE:
            raise BodyProblem(
                Reason.PROTOCOL_ERROR,
                f"{self.wire_bytes} bytes came in {self._fed} pieces: more than are put together.",
            )
        if self.wire_bytes > self._max_bytes + _WIRE_SLACK:
            raise BodyProblem(
                Reason.BAD_ENCODING, f"{self.wire_bytes} compressed bytes unpack to only {self.decoded_bytes}."
            )
        if not self._layers:
            self._keep(data)
            return
        for piece in self._decode(data, 0):
            self._keep(piece)
            if self.truncated:
                return

    def _decode(self, data: bytes, depth: int) -> Iterator[bytes]:
        if depth == len(self._layers):
            yield data
            return
        for piece in self._layers[depth].decode(data):
            self._work += len(piece)
            if self._work > _RATIO_FROM and self._work > self._max_ratio * self.wire_bytes * len(self._layers):
                raise BodyProblem(
                    Reason.EXPANSION_RATIO,
                    f"{self.wire_bytes} bytes unpack to over {self._work}: beyond the ratio of {self._max_ratio:g}.",
                )
            yield from self._decode(piece, depth + 1)

    def _keep(self, piece: bytes) -> None:
        room = self._max_bytes - self.decoded_bytes
        if len(piece) > room:
            piece = piece[:room]
            self.truncated = True
        self._body += piece

    def finish(self) -> bytes:
        """The decoded body. Raises INCOMPLETE_BODY when a compressed stream ended early."""
        if not self.truncated and self.wire_bytes:
            for layer in self._layers:
                layer.finish()
        return self.body()

    def body(self) -> bytes:
        """What has been decoded so far."""
        return bytes(self._body)


def _layer(coding: str) -> _Layer:
    if coding in ("gzip", "x-gzip"):
        return _Gzip()
    if coding in ("deflate", "x-deflate"):
        return _Deflate()
    if coding == "br":
        return _Brotli()
    if coding == "zstd":
        return _Zstd()
    raise BodyProblem(Reason.BAD_ENCODING, f"Content-Encoding {coding[:40]!r} is not one that we asked for.")


def _inflate(inflater: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    try:
        while data and not inflater.eof:
            piece = inflater.decompress(data, _PIECE)
            data = inflater.unconsumed_tail
            if piece:
                yield piece
        # Input may be used up while output is still held back by max_length.
        while not inflater.eof:
            piece = inflater.decompress(b"", _PIECE)
            if not piece:
                break
            yield piece
    except zlib.error as e:
        raise BodyProblem(Reason.BAD_ENCODING, f"The compressed body does not decode: {e}.") from None


class _Gzip:
    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._members = 0

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:
                # Another member follows, or padding that every browser ignores.
                if not data.startswith(b"\x1f\x8b") or self._members > 10_000:
                    return
                self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
                self._members += 1
            yield from _inflate(self._inflater, data)
            data = self._inflater.unused_data if self._inflater.eof else b""

    def finish(self) -> None:
        _finish(self._inflater.eof)


class _Deflate:
    """`deflate` means zlib; many servers send it raw, and browsers read both."""

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._head = b""

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._inflater is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, b""
            is_zlib = data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        yield from _inflate(self._inflater, data)

    def finish(self) -> None:
        _finish(self._inflater is not None and self._inflater.eof)


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def decode(self, data: bytes) -> Iterator[bytes]:
        decoder = self._decoder
        if decoder.is_finished():
            return
        try:
            piece = decoder.process(data, output_buffer_limit=_PIECE)
            while True:
                if piece:
                    yield piece
                if decoder.is_finished() or decoder.can_accept_more_data():
                    return
                piece = decoder.process(b"", output_buffer_limit=_PIECE)
        except brotli.error as e:
            raise BodyProblem(Reason.BAD_ENCODING, f"The brotli body does not decode: {e}.") from None

    def finish(self) -> None:
        _finish(self._decoder.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=8 * 1024 * 1024)
        self._frame = self._decompressor.decompressobj()

    def decode(self, data: bytes) -> Iterator[bytes]:
        try:
            for at in range(0, len(data), _ZSTD_SLICE):
                piece = data[at : at + _ZSTD_SLICE]
                while piece:
                    if self._frame.eof:
                        self._frame = self._decompressor.decompressobj()
                    out = self._frame.decompress(piece)
                    if out:
                        yield out
                    piece = self._frame.unused_data if self._frame.eof else b""
        except zstandard.ZstdError as e:
            raise BodyProblem(Reason.BAD_ENCODING, f"The zstd body does not decode: {e}.") from None

    def finish(self) -> None:
        _finish(self._frame.eof)


def _finish(is_complete: bool) -> None:
    if not is_complete:
        raise BodyProblem(Reason.INCOMPLETE_BODY, "The compressed body ends before its end marker.")
