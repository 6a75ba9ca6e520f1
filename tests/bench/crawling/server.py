"""The web that is crawled: a process that serves prepared bytes. Here: two servers. `raw` is an epoll loop that does
nothing but find the path and hand the kernel bytes made beforehand, so that it takes as little of a small machine's cores
as possible; `asyncio` also speaks TLS, answers slowly, and closes connections. Not here: pages (`pages`).
"""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import select
import socket
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.bench.crawling.pages import address_of, make_pages, page_of

ROBOTS = b"User-agent: *\nDisallow: /private/\n"
ROBOTS_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(ROBOTS) + ROBOTS
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n'
REQUESTS, OPEN, MOST_OPEN = range(3)


@dataclass(frozen=True)
class Web:
    """How the web behaves: `hold_s` before the head and half of the body, and again before the rest; `etag_share` of the
    pages are unchanged; `close`: a new connection for every page."""

    hosts: int
    kind: str = "mix"
    is_raw: bool = False
    etag_share: float = 0.0
    hold_s: float = 0.0
    close: bool = False

    def responses(self) -> list[tuple[bytes, bytes]]:
        """(identity, gzip) of each variant, head included."""
        head = b'HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: "v1"\r\n'
        if self.close:
            head += b"Connection: close\r\n"
        made = []
        for page in make_pages(self.kind):
            zipped = gzip.compress(page, 6)
            made.append((
                head + b"Content-Length: %d\r\n\r\n" % len(page) + page,
                head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(zipped) + zipped,
            ))  # fmt: skip
        return made

    def answer(self, head: bytes, responses: list[tuple[bytes, bytes]]) -> bytes:
        path = head.split(b" ", 2)[1]
        if path == b"/robots.txt":
            return ROBOTS_ANSWER
        number = int(path[6:])
        if number % 10 < self.etag_share * 10 and b"if-none-match" in head.lower():
            return NOT_MODIFIED
        variant, zipped = page_of(number)
        return responses[variant][zipped]


# -- raw -----------------------------------------------------------------------------------------------------------------


def serve_raw(web: Web, ready: Any, counts: Any) -> None:
    """One thread, one epoll; never blocks on a client that reads slowly."""
    poll = select.epoll()
    listeners: dict[int, socket.socket] = {}
    clients: dict[int, socket.socket] = {}
    waiting: dict[int, memoryview] = {}
    responses, port = web.responses(), 0
    for host in range(web.hosts):
        listener = socket.create_server((address_of(host), port), backlog=512)
        listener.setblocking(False)
        port = listener.getsockname()[1]
        listeners[listener.fileno()] = listener
        poll.register(listener.fileno(), select.EPOLLIN)
    ready.send((port, 0, ""))

    def close(number: int) -> None:
        waiting.pop(number, None)
        clients.pop(number).close()

    while True:
        for number, event in poll.poll():
            if number in listeners:
                client, _ = listeners[number].accept()
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLIN)
                continue
            client = clients[number]
            try:
                if event & select.EPOLLIN:
                    head = client.recv(65536)
                    if not head:
                        close(number)
                        continue
                    counts[REQUESTS] += 1
                    rest = memoryview(web.answer(head, responses))  # a GET without a body arrives whole on loopback
                elif number in waiting:
                    rest = waiting.pop(number)
                else:
                    close(number)
                    continue
                rest = rest[client.send(rest) :]
            except BlockingIOError:
                pass
            except OSError:
                close(number)
                continue
            if rest:
                waiting[number] = rest
                poll.modify(number, select.EPOLLOUT)
            elif event & select.EPOLLOUT:
                poll.modify(number, select.EPOLLIN)


# -- asyncio -------------------------------------------------------------------------------------------------------------


class _Protocol(asyncio.Protocol):
    web: Web
    responses: list[tuple[bytes, bytes]]
    counts: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
            answer = self.web.answer(head, self.responses)
            self.counts[REQUESTS] += 1
            self.counts[OPEN] += 1
            self.counts[MOST_OPEN] = max(self.counts[MOST_OPEN], self.counts[OPEN])
            if self.web.hold_s and answer is not ROBOTS_ANSWER:
                asyncio.get_running_loop().call_later(self.web.hold_s, self.half, answer)
            else:
                self.rest(answer)

    def half(self, answer: bytes) -> None:
        middle = len(answer) // 2
        self.transport.write(answer[:middle])
        asyncio.get_running_loop().call_later(self.web.hold_s, self.rest, answer[middle:])

    def rest(self, answer: bytes) -> None:
        self.counts[OPEN] -= 1
        self.transport.write(answer)
        if self.web.close and answer is not ROBOTS_ANSWER:
            self.transport.close()


def serve_asyncio(web: Web, ready: Any, counts: Any, folder: str) -> None:
    """Plain HTTP at one port of every address, TLS at another."""
    bound = {"web": web, "responses": web.responses(), "counts": counts}
    protocol = type("Bound", (_Protocol,), bound)
    ca = trustme.CA()
    addresses = [address_of(host) for host in range(web.hosts)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("*.bench.test", *addresses).configure_cert(context)
    ca_file = os.path.join(folder, "ca.pem")
    ca.cert_pem.write_to_path(ca_file)

    async def main() -> None:
        loop, ports = asyncio.get_running_loop(), []
        for tls in (None, context):
            port = 0
            for address in addresses:
                server = await loop.create_server(protocol, address, port, ssl=tls, backlog=1024)
                port = server.sockets[0].getsockname()[1]
            ports.append(port)
        ready.send((*ports, ca_file))
        await asyncio.Event().wait()

    asyncio.run(main())


# -- the process ---------------------------------------------------------------------------------------------------------


class Server:
    """The server process, as a context manager. `cpu_s` is what it has used, `most_open` the most requests that it had
    taken and not yet answered in full at once."""

    def __init__(self, web: Web) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="crawl-bench-")
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._counts = context.Array("q", 3, lock=False)
        target, more = (serve_raw, ()) if web.is_raw else (serve_asyncio, (self._folder.name,))
        self._process = context.Process(target=target, args=(web, theirs, self._counts, *more), daemon=True)
        self._process.start()
        if not ours.poll(60):
            raise RuntimeError("The benchmark server did not start within 60 s.")
        self.port, self.tls_port, self.ca_file = ours.recv()
        self.web = web

    @property
    def options(self) -> dict[str, object]:
        """What a contender must know."""
        return {
            "hosts": self.web.hosts,
            "kind": self.web.kind,
            "port": self.port,
            "tls_port": self.tls_port,
            "ca_file": self.ca_file,
        }

    @property
    def most_open(self) -> int:
        return int(self._counts[MOST_OPEN])

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(10)
        self._folder.cleanup()
