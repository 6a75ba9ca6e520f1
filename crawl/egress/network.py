"""The only place of the crawler that opens a socket. Here: TCP to an address, nothing else. Not here: names, TLS,
policy.

`CountingNetwork` wraps another network and counts: the proof that a refused URL opened no socket.
"""

from __future__ import annotations

import socket
from typing import Protocol

import trio


class Network(Protocol):
    async def connect(self, address: str, port: int) -> trio.abc.Stream:
        """A connected TCP stream to `address`, which is an IP address, never a name. Raises OSError."""
        ...


class TrioNetwork:
    """TCP through trio; TCP_NODELAY is set by `trio.SocketStream`."""

    async def connect(self, address: str, port: int) -> trio.abc.Stream:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            await sock.connect((address, port))
            return trio.SocketStream(sock)
        except BaseException:
            sock.close()
            raise


class CountingNetwork:
    """Passes connections on and remembers each (address, port) that was tried, in order."""

    def __init__(self, inner: Network | None = None) -> None:
        self._inner = inner or TrioNetwork()
        self.opened: list[tuple[str, int]] = []

    async def connect(self, address: str, port: int) -> trio.abc.Stream:
        self.opened.append((address, port))
        return await self._inner.connect(address, port)
