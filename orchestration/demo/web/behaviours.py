"""How a server of the scripted web misbehaves on the wire: each behaviour by its name in `scenario.toml`.

A behaviour gets the raw stream after a request was read and ends the connection itself. Here: bytes and waiting. Not
here: what well-behaved pages say (`pages`) and how they are sent (`server`).
"""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Awaitable, Callable
from functools import lru_cache

import trio

from orchestration.demo.web.pages import Answer

PATIENCE_S = 30.0
"""How long a slow server holds a connection that nobody closes."""
BOMB_BYTES = 32 * 1024 * 1024
"""Decoded size of the gzip bomb (about a thousandth of that on the wire)."""
HEADER_BOMB_LINES = 1024
ENDLESS_CHUNKS = 16_384
"""Chunks of 64 KiB: a gigabyte passes for endless, and cannot fill anybody's disk by accident."""

Behaviour = Callable[[trio.SocketStream, Answer], Awaitable[None]]


def head(answer: Answer, *extra: str) -> bytes:
    """Status line and headers of an answer as bytes, with more header lines."""
    lines = [f"HTTP/1.1 {answer.status} OK", *(f"{name}: {value}" for name, value in answer.headers), *extra]
    return "\r\n".join([*lines, "", ""]).encode()


def abort(stream: trio.SocketStream) -> None:
    """Close with a TCP reset instead of an orderly end."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def _until_closed(stream: trio.SocketStream) -> None:
    with trio.move_on_after(PATIENCE_S):
        while await stream.receive_some(1024):
            pass


async def slow_first_byte(stream: trio.SocketStream, answer: Answer) -> None:
    await _until_closed(stream)


async def drip(stream: trio.SocketStream, answer: Answer) -> None:
    """A byte every 50 ms: each read is quick, and the whole would take many minutes."""
    await stream.send_all(head(answer, f"Content-Length: {len(answer.body)}"))
    with trio.move_on_after(PATIENCE_S):
        for index in range(len(answer.body)):
            await stream.send_all(answer.body[index : index + 1])
            await trio.sleep(0.05)


async def endless(stream: trio.SocketStream, answer: Answer) -> None:
    """The page's beginning, then paragraphs without end; the scripted links stand at the end that never comes."""
    start = answer.body.partition(b"<article>")[0] + b"<article>"
    chunk = b"<p>And another thing, which we shall come back to presently, when there is time.</p>\n" * 780
    await stream.send_all(head(answer, "Transfer-Encoding: chunked"))
    await stream.send_all(b"%x\r\n%b\r\n" % (len(start), start))
    for _ in range(ENDLESS_CHUNKS):
        await stream.send_all(b"%x\r\n%b\r\n" % (len(chunk), chunk))


@lru_cache(maxsize=1)
def gzip_bomb_bytes() -> bytes:
    return gzip.compress(b"<p>" + b" " * BOMB_BYTES, 9, mtime=0)


async def gzip_bomb(stream: trio.SocketStream, answer: Answer) -> None:
    bomb = gzip_bomb_bytes()
    await stream.send_all(
        head(answer, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}", "Connection: close") + bomb
    )


async def header_bomb(stream: trio.SocketStream, answer: Answer) -> None:
    for index in range(HEADER_BOMB_LINES):
        line = f"X-Trace-{index:04}: {'f00dbeef' * 127}\r\n".encode()
        await stream.send_all((b"HTTP/1.1 200 OK\r\n" if index == 0 else b"") + line)
    await stream.send_all(b"Content-Length: 0\r\n\r\n")


async def not_gzip(stream: trio.SocketStream, answer: Answer) -> None:
    await stream.send_all(head(answer, "Content-Encoding: gzip", f"Content-Length: {len(answer.body)}") + answer.body)


async def short_body(stream: trio.SocketStream, answer: Answer) -> None:
    """Content-Length for the whole page, a third of it, and an orderly end."""
    await stream.send_all(head(answer, f"Content-Length: {len(answer.body)}") + answer.body[: len(answer.body) // 3])


async def reset(stream: trio.SocketStream, answer: Answer) -> None:
    abort(stream)


async def reset_midway(stream: trio.SocketStream, answer: Answer) -> None:
    await stream.send_all(head(answer, f"Content-Length: {len(answer.body)}") + answer.body[: len(answer.body) // 3])
    await trio.sleep(0.05)  # let the client take what was sent before the reset throws it away
    abort(stream)


BEHAVIOURS: dict[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        slow_first_byte,
        drip,
        endless,
        gzip_bomb,
        header_bomb,
        not_gzip,
        short_body,
        reset,
        reset_midway,
    )
}
