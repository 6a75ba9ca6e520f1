"""The server of the scripted web: one trio process that answers for every host of the scenario on loopback addresses.

Here: listening, HTTP/1.1 (through h11), content encodings, validators, the request log, and the control door. Not here:
what pages say (`pages`) and how some of them misbehave (`behaviours`).

Control door: requests whose Host is `CONTROL_HOST` set the window and read the log. It answers on loopback only, as
everything here does, and exists for the demo and the tests.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import brotli
import h11
import trio
import zstandard

from orchestration.demo.scenario.model import WINDOWS, Host, Scenario, window_start
from orchestration.demo.web.behaviours import BEHAVIOURS, abort, gzip_bomb_bytes
from orchestration.demo.web.pages import PLAIN, Answer, Headers, answer, last_change
from transforms.errors import PermanentError

CONTROL_HOST = "scripted-web.invalid"
UNCACHED = frozenset({"challenge", "consent", "maintenance"})
"""Pages that stand in for another one carry no validators, as in life."""
CLIENT_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, ConnectionError)

Site = Callable[[str, str, int], Answer]
"""(host, path, window) -> what it says."""


class PortTaken(PermanentError):
    """The port that was asked for is in use."""


@dataclass
class LoggedRequest:
    """One request as the server saw it. `at` is CLOCK_MONOTONIC in seconds, comparable between processes; `status` is 0
    when the server misbehaved instead of answering."""

    number: int
    at: float
    window: int
    host: str
    path: str
    status: int
    conditional: bool
    user_agent: str
    accept_encoding: str


@lru_cache(maxsize=1024)
def encode(body: bytes, encoding: str) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(body, 6, mtime=0)
        case "br":
            return brotli.compress(body, quality=4)
        case "zstd":
            return zstandard.ZstdCompressor(level=3).compress(body)
    return body


@lru_cache(maxsize=1024)
def etag_of(body: bytes, headers: Headers = ()) -> str:
    """Of the whole representation: what its headers say of it belongs to it (RFC 9110 §8.8.1)."""
    return f'"{hashlib.sha256(body + repr(headers).encode()).hexdigest()[:20]}"'


def _unchanged(request: dict[str, str], etag: str | None, modified: str | None) -> bool:
    """Whether a conditional request is answered with 304 (RFC 9110 §13.2.2: If-None-Match goes before the date)."""
    if etag and "if-none-match" in request:
        return etag in [tag.strip().removeprefix("W/") for tag in request["if-none-match"].split(",")]
    if modified and "if-modified-since" in request:
        try:
            return parsedate_to_datetime(request["if-modified-since"]) >= parsedate_to_datetime(modified)
        except ValueError:
            return False
    return False


class Web:
    """What is served and what was asked. One per process."""

    def __init__(self, site: Site, hosts: dict[str, Host], scenario: Scenario | None, window: int = 0) -> None:
        self.site, self.hosts, self.scenario, self.window = site, hosts, scenario, window
        self.log: list[LoggedRequest] = []
        self._attempts: dict[tuple[str, str, int], int] = {}

    @classmethod
    def of_scenario(cls, scenario: Scenario, window: int = 0) -> Web:
        return cls(lambda host, path, at: answer(scenario, host, path, at), scenario.hosts, scenario, window)

    def warm(self) -> None:
        """Make and encode every page of every window now, so that no request waits for another one's compression and
        the log's times are those of the requests."""
        if self.scenario is None:
            return
        gzip_bomb_bytes()
        for name, path in self.scenario.pages:
            for window in range(WINDOWS):
                said = self.site(name, path, window)
                encode(said.body, self.hosts[name].encoding)
                etag_of(said.body, said.headers)

    def attempt(self, host: str, path: str) -> int:
        """How often this page has been asked for in this window, this time included."""
        key = (host, path, self.window)
        self._attempts[key] = self._attempts.get(key, 0) + 1
        return self._attempts[key]

    def validators(self, said: Answer, host: Host, path: str, number: int) -> tuple[str | None, str | None]:
        if said.status != 200 or said.do in UNCACHED:
            return None, None
        etag = etag_of(said.body, said.headers) if host.validators in ("etag", "both") else None
        if host.validators == "restless":
            etag = f'"{number:08x}"'
        modified = None
        if host.validators in ("modified", "both") and self.scenario is not None:
            changed = last_change(self.scenario, host.name, path, self.window)
            modified = format_datetime(window_start(changed), usegmt=True)
        return etag, modified

    def reply(self, host: str, path: str, request: dict[str, str]) -> tuple[Answer, Headers, bytes]:
        """Answer, headers and encoded body (empty for 304) of a well-behaved page. Logs the request."""
        said = self.site(host, path, self.window)
        entry = LoggedRequest(
            len(self.log),
            time.monotonic(),
            self.window,
            host,
            path,
            said.status,
            "if-none-match" in request or "if-modified-since" in request,
            request.get("user-agent", ""),
            request.get("accept-encoding", ""),
        )
        self.log.append(entry)
        manners = self.hosts.get(host)
        if manners is None:
            return said, said.headers, said.body
        etag, modified = self.validators(said, manners, path, entry.number)
        headers = list(said.headers)
        headers += [("ETag", etag)] if etag else []
        headers += [("Last-Modified", modified)] if modified else []
        if _unchanged(request, etag, modified):
            entry.status = 304
            return said, tuple(header for header in headers if header[0] != "Content-Type"), b""
        body = said.body
        accepted = [part.partition(";")[0].strip() for part in request.get("accept-encoding", "").split(",")]
        if body and manners.encoding != "identity" and manners.encoding in accepted:
            body = encode(body, manners.encoding)
            headers += [("Content-Encoding", manners.encoding), ("Vary", "Accept-Encoding")]
        return said, tuple(headers), body

    def control(self, method: str, path: str) -> tuple[int, bytes]:
        """The control door: GET /state, PUT /window/<k>, GET /log?after=<n> (JSON lines), DELETE /log."""
        match method, path.partition("?")[0].strip("/").split("/"):
            case "GET", ["state"]:
                return 200, json.dumps({"pid": os.getpid(), "window": self.window, "requests": len(self.log)}).encode()
            case "PUT", ["window", number] if number.isdigit() and int(number) < WINDOWS:
                self.window = int(number)
                return 200, b"{}"
            case "GET", ["log"]:
                after = int(path.partition("after=")[2] or 0)
                return 200, "".join(json.dumps(asdict(entry)) + "\n" for entry in self.log[after:]).encode()
            case "DELETE", ["log"]:
                self.log.clear()
                return 200, b"{}"
        return 400, b'{"error": "unknown control request"}'

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, kept alive as the host's manners say."""
        try:
            async with stream:
                connection = h11.Connection(h11.SERVER)
                while await self._exchange(stream, connection):
                    connection.start_next_cycle()
        except CLIENT_GONE:
            return
        except h11.RemoteProtocolError:  # not HTTP, a TLS hello for example: the connection ends without a word
            return

    async def _exchange(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        """One request and its answer. False: the connection is over."""
        request = None
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return False
        if request is None:
            return False
        fields = {name.decode().lower(): value.decode("latin-1") for name, value in request.headers}
        host = fields.get("host", "").rpartition(":")[0] or fields.get("host", "")
        path = request.target.decode("ascii", "replace")
        if host == CONTROL_HOST:
            status, body = self.control(request.method.decode(), path)
            await self._send(stream, connection, status, PLAIN, body)
            return connection.our_state is h11.DONE and connection.their_state is h11.DONE
        said, headers, body = self.reply(host.lower(), path, fields)
        status = self.log[-1].status
        if said.do == "reset_once" and self.attempt(host, path) == 1:
            self.log[-1].status = 0
            abort(stream)
            return False
        if said.do in BEHAVIOURS:
            self.log[-1].status = 0
            await BEHAVIOURS[said.do](stream, said)
            return False
        if host in self.hosts and not self.hosts[host].keep_alive:
            headers += (("Connection", "close"),)
        await self._send(stream, connection, status, headers, b"" if request.method == b"HEAD" else body)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _send(
        self, stream: trio.SocketStream, connection: h11.Connection, status: int, headers: Headers, body: bytes
    ) -> None:
        fields = [(name.encode(), value.encode()) for name, value in headers]
        if status not in (204, 304):
            fields.append((b"Content-Length", str(len(body)).encode()))
        head = connection.send(h11.Response(status_code=status, headers=fields, reason=b"")) or b""
        await stream.send_all(head)
        if body:
            await stream.send_all(connection.send(h11.Data(data=body)) or b"")
        await stream.send_all(connection.send(h11.EndOfMessage()) or b"")


async def listen(addresses: list[str], port: int) -> tuple[int, list[trio.SocketListener]]:
    """Listeners on every address at one port; port 0 picks one that is free on all. Raises `PortTaken`."""
    for _ in range(20):
        chosen = port
        listeners: list[trio.SocketListener] = []
        try:
            for address in addresses:
                listeners += await trio.open_tcp_listeners(chosen, host=address)
                chosen = listeners[0].socket.getsockname()[1]
            return chosen, listeners
        except OSError as error:
            for listener in listeners:
                await listener.aclose()
            if error.errno != errno.EADDRINUSE:
                raise PermanentError(f"cannot listen on {addresses[len(listeners)]}:{chosen}: {error}.") from error
            if port:
                raise PortTaken(f"port {port} is in use; choose another with --port, or 0 for any free one.") from error
    raise PortTaken("no port is free on all loopback addresses of the scripted web; stop some servers.")


def _announce(state: Path, told: dict[str, Any]) -> None:
    """Whole or not at all, so that whoever waits for the file can read it."""
    draft = state.with_suffix(".part")
    draft.write_text(json.dumps(told))
    draft.replace(state)


async def run(
    web: Web, addresses: dict[str, str], port: int, state: Path | None, *, until_stdin_closes: bool = False
) -> None:
    """Serve until SIGTERM, SIGINT or (if asked) the end of standard input. Writes `state` (JSON) when it answers; its
    owner removes the file."""
    chosen, listeners = await listen(sorted(set(addresses.values())), port)

    async with trio.open_nursery() as nursery:

        async def on_signal() -> None:
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        async def on_stdin() -> None:
            async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
                while await stdin.receive_some(1024):
                    pass
            nursery.cancel_scope.cancel()

        nursery.start_soon(on_signal)
        if until_stdin_closes:
            nursery.start_soon(on_stdin)
        nursery.start_soon(trio.serve_listeners, web.serve, listeners)
        if state is not None:
            _announce(state, {"pid": os.getpid(), "port": chosen, "addresses": addresses})
