"""Content encodings both ways, streaming: lz4 (frames), zstd, gzip, deflate, br. Not here: negotiation (`app`)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import brotli
import lz4.frame
import zstandard

#: Best first: what a client that takes several is given.
PREFERRED = ("zstd", "lz4", "br", "gzip", "deflate")
_PIECE = 1 << 18


class Encoder(Protocol):
    def add(self, data: bytes) -> bytes: ...

    def finish(self) -> bytes: ...


class _Lz4Encoder:
    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def add(self, data: bytes) -> bytes:
        head = b"" if self._begun else self._frame.begin()
        self._begun = True
        return bytes(head + self._frame.compress(data))

    def finish(self) -> bytes:
        head = b"" if self._begun else self._frame.begin()
        return bytes(head + self._frame.flush())


@dataclass(frozen=True)
class _ObjectEncoder:
    """zlib, zstandard and brotli compressors, which differ only in names."""

    compress: Callable[[bytes], bytes]
    flush: Callable[[], bytes]

    def add(self, data: bytes) -> bytes:
        return self.compress(data)

    def finish(self) -> bytes:
        return self.flush()


def encoder(name: str) -> Encoder:
    """A fresh compressor for the encoding `name`, one of `PREFERRED`."""
    if name == "lz4":
        return _Lz4Encoder()
    if name == "zstd":
        zstd = zstandard.ZstdCompressor(level=1).compressobj()
        return _ObjectEncoder(zstd.compress, zstd.flush)
    if name == "br":
        br = brotli.Compressor(quality=1)
        return _ObjectEncoder(br.process, br.finish)
    z = zlib.compressobj(level=1, wbits=31 if name == "gzip" else 15)
    return _ObjectEncoder(z.compress, z.flush)


class BadEncoding(Exception):
    """The body is not what its Content-Encoding says."""


class Decoder:
    """Decompresses a body that arrives in pieces; what it hands out comes in pieces of at most about 1 MiB."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._decoder = self._fresh()
        self._any = False

    def _fresh(self) -> Any:
        if self.name == "lz4":
            return lz4.frame.LZ4FrameDecompressor()
        if self.name == "zstd":
            return zstandard.ZstdDecompressor().decompressobj()
        if self.name == "br":
            return brotli.Decompressor()
        return zlib.decompressobj(wbits=47 if self.name == "gzip" else 15)

    def add(self, data: bytes) -> Iterator[bytes]:
        """Decompressed pieces of `data`. Raises `BadEncoding`."""
        self._any = self._any or bool(data)
        try:
            yield from self._add(data)
        except (zlib.error, zstandard.ZstdError, brotli.error, RuntimeError) as error:
            raise BadEncoding(f"the request body is not valid {self.name}: {error}") from error

    def _add(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self.name in ("gzip", "deflate"):
                piece = self._decoder.decompress(data, _PIECE)
                data = self._decoder.unconsumed_tail
                if self._decoder.eof:
                    data = self._decoder.unused_data
            elif self.name == "lz4":
                piece = self._decoder.decompress(data, _PIECE)
                data = b""
                while not self._decoder.eof and not self._decoder.needs_input:
                    if piece:
                        yield piece
                    piece = self._decoder.decompress(b"", _PIECE)
                if self._decoder.eof:
                    data = self._decoder.unused_data or b""
            else:
                head, data = data[: _PIECE // 16], data[_PIECE // 16 :]
                piece = self._decoder.process(head) if self.name == "br" else self._decoder.decompress(head)
                if self.name == "zstd" and self._decoder.eof:
                    data = self._decoder.unused_data + data
            if piece:
                yield piece
            if data and self._ended():
                self._decoder = self._fresh()  # several frames or members in one body are one stream

    def _ended(self) -> bool:
        return bool(self._decoder.is_finished() if self.name == "br" else self._decoder.eof)

    def finish(self) -> None:
        """Raises `BadEncoding` if the body stopped in the middle of a frame."""
        if self._any and not self._ended():
            raise BadEncoding(f"the request body ends in the middle of its {self.name} data")
