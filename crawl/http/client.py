"""The HTTP/1.1 client: h11 over trio streams, idle connections kept per origin. Here: one GET on the wire under limits.
Not here: which URL, whether it may be asked, what the answer means.

Why h11 by hand and not an HTTP library: every limit sits where the bytes are (header size, first byte, slow drip,
decoded size), a connection goes only to an address that the gate checked, cancellation closes exactly one socket, raw
header bytes stay visible, and it costs least CPU of the pure choices (see tests/bench/crawl_bench.py).
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import h11
import trio

from crawl.egress.gate import Admission, ConnectFailed, EgressGate
from crawl.http.decode import BodyDecoder, BodyProblem
from crawl.http.exchange import ExchangeFailed, Limits, Request, Response
from transforms.reasons import Reason

_READ = 64 * 1024
LARGE_BODY = 1024 * 1024
"""Decoded bytes from which a body is one of the few large ones that may be read at once."""
_MAX_INFORMATIONAL = 16
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError, ssl.SSLError)


@dataclass(slots=True)
class _Connection:
    stream: trio.abc.Stream
    h11: h11.Connection
    address: str
    max_header_bytes: int
    idle_since: float = 0.0

    def looks_dead(self) -> bool:
        """An idle connection with bytes to read has been closed by the peer, or talks out of turn."""
        inner = self.stream.transport_stream if isinstance(self.stream, trio.SSLStream) else self.stream
        return isinstance(inner, trio.SocketStream) and inner.socket.is_readable()


class H11Client:
    """Implements `crawl.http.Exchanger`.

    At most `max_idle` connections are kept over all origins and none idle for more than `idle_s` seconds; the longest
    idle goes first. Of bodies beyond 1 MiB at most `large_bodies` are read at once, the others wait with what they have
    (within their total time), so that memory is `in flight` MiB and not ten times that.
    """

    def __init__(self, gate: EgressGate, *, max_idle: int = 1000, idle_s: float = 30.0, large_bodies: int = 32) -> None:
        self._gate = gate
        self._large = trio.Semaphore(large_bodies)
        self._max_idle = max_idle
        self._idle_s = idle_s
        self._idle: OrderedDict[int, tuple[str, _Connection]] = OrderedDict()
        self._by_origin: dict[str, list[int]] = {}
        self._serial = 0

    async def exchange(
        self, admission: Admission, request: Request, before_send: Callable[[], Awaitable[None]]
    ) -> Response:
        limits = request.limits
        connection = await self._take_idle(admission, limits)
        if connection is not None:
            try:
                return await self._converse(connection, admission, request, before_send, reused=True)
            except _StaleConnection:
                pass  # The peer closed it before it saw the request: ask once more on a new one.
        try:
            stream, address = await self._gate.connect(admission, min(limits.connect_s, limits.total_s))
        except ConnectFailed as e:
            gate = "tls" if e.reason is Reason.TLS_FAILED else "connect"
            raise ExchangeFailed(gate, e.reason, e.detail, e.address) from None
        connection = _Connection(
            stream,
            h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.max_header_bytes),
            address,
            limits.max_header_bytes,
        )
        return await self._converse(connection, admission, request, before_send, reused=False)

    async def _converse(
        self,
        connection: _Connection,
        admission: Admission,
        request: Request,
        before_send: Callable[[], Awaitable[None]],
        *,
        reused: bool,
    ) -> Response:
        keep = False
        conversation = _Conversation(connection, request, reused, self._large)
        try:
            await before_send()
            # Connecting has its own limit, and waiting in before_send is not the server's doing: time starts here.
            now = trio.current_time()
            with trio.CancelScope(deadline=now + min(request.limits.first_byte_s, request.limits.total_s)) as scope:
                await conversation.send(admission)
                await conversation.receive_head()
                scope.deadline = now + request.limits.total_s
                await conversation.receive_body()
            if scope.cancelled_caught:
                conversation.timed_out()
            response = conversation.response
            assert response is not None
            keep = conversation.reusable
            return response
        finally:
            conversation.let_go()
            if keep:
                await self._give_back(admission.target.origin, connection)
            else:
                await trio.aclose_forcefully(connection.stream)

    # -- idle connections -------------------------------------------------------------------------------------------

    async def _take_idle(self, admission: Admission, limits: Limits) -> _Connection | None:
        origin = admission.target.origin
        serials = self._by_origin.get(origin)
        while serials:
            serial = serials.pop()
            if not serials:
                del self._by_origin[origin]
            _, connection = self._idle.pop(serial)
            fresh = trio.current_time() - connection.idle_since <= self._idle_s
            if (
                fresh
                and connection.address in admission.addresses
                and connection.max_header_bytes == limits.max_header_bytes
                and not connection.looks_dead()
            ):
                return connection
            await trio.aclose_forcefully(connection.stream)
        return None

    async def _give_back(self, origin: str, connection: _Connection) -> None:
        connection.idle_since = trio.current_time()
        self._serial += 1
        self._idle[self._serial] = (origin, connection)
        self._by_origin.setdefault(origin, []).append(self._serial)
        while self._idle:
            serial, (old_origin, old) = next(iter(self._idle.items()))
            if len(self._idle) <= self._max_idle and connection.idle_since - old.idle_since <= self._idle_s:
                break
            self._forget(serial, old_origin)
            await trio.aclose_forcefully(old.stream)

    def _forget(self, serial: int, origin: str) -> None:
        del self._idle[serial]
        serials = self._by_origin[origin]
        serials.remove(serial)
        if not serials:
            del self._by_origin[origin]

    async def drop(self, origin: str) -> None:
        for serial in self._by_origin.pop(origin, []):
            _, connection = self._idle.pop(serial)
            await trio.aclose_forcefully(connection.stream)

    async def aclose(self) -> None:
        """Close every idle connection. Exchanges under way are closed by cancelling them."""
        for origin in list(self._by_origin):
            await self.drop(origin)


class _StaleConnection(Exception):
    """A kept connection ended before a single byte of the answer."""


class _Conversation:
    """One request and its answer on one connection."""

    def __init__(self, connection: _Connection, request: Request, reused: bool, large: trio.Semaphore) -> None:
        self._large = large
        self._is_large = False
        self._connection = connection
        self._request = request
        self._reused = reused
        self._decoder: BodyDecoder | None = None
        self._sent = False
        self._heard = False
        self.response: Response | None = None
        self.reusable = False

    async def send(self, admission: Admission) -> None:
        target = admission.target
        wire = self._connection.h11
        head = wire.send(
            h11.Request(
                method="GET", target=target.path, headers=[("Host", target.host_header), *self._request.headers]
            )
        )
        end = wire.send(h11.EndOfMessage())
        try:
            await self._connection.stream.send_all((head or b"") + (end or b""))
        except _BROKEN as e:
            raise self._broken(e) from None
        self._sent = True
        if self._request.on_sent is not None:
            self._request.on_sent()

    async def receive_head(self) -> None:
        for _ in range(_MAX_INFORMATIONAL):
            event = await self._next_event()
            if isinstance(event, h11.InformationalResponse):
                continue
            if not isinstance(event, h11.Response):
                raise self._failed(Reason.PROTOCOL_ERROR, "The connection ended without a response.")
            size = sum(len(name) + len(value) + 4 for name, value in event.headers)
            if size > self._request.limits.max_header_bytes:
                raise self._failed(Reason.HEADERS_TOO_LARGE, f"{size} bytes of headers.")
            headers = [(name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers]
            self.response = Response(event.status_code, self._connection.address, headers, reused=self._reused)
            return
        raise self._failed(Reason.PROTOCOL_ERROR, f"More than {_MAX_INFORMATIONAL} informational responses in a row.")

    async def receive_body(self) -> None:
        response = self.response
        assert response is not None
        limits = self._request.limits
        cap = limits.max_body_bytes
        if self._request.body_cap is not None:
            cap = min(cap, self._request.body_cap(response.status, response.get("content-type") or ""))
        try:
            decoder = self._decoder = BodyDecoder(response.get_all("content-encoding"), cap, limits.max_ratio)
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Data):
                    decoder.feed(bytes(event.data))
                    if decoder.truncated:
                        response.truncated = True
                        break
                    if decoder.decoded_bytes > LARGE_BODY and not self._is_large:
                        await self._large.acquire()
                        self._is_large = True
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    raise BodyProblem(Reason.INCOMPLETE_BODY, "The connection closed before the end of the body.")
            response.body = decoder.finish()
            response.wire_bytes = decoder.wire_bytes
        except BodyProblem as e:
            self._body_broke(e.reason, e.detail)
            return
        except ExchangeFailed as e:
            self._body_broke(e.reason, e.detail)
            return
        wire = self._connection.h11
        if (
            not response.truncated
            and wire.our_state is h11.DONE
            and wire.their_state is h11.DONE
            and not wire.trailing_data[0]
        ):
            wire.start_next_cycle()
            self.reusable = True

    def let_go(self) -> None:
        """The body is read, or given up."""
        if self._is_large:
            self._large.release()
            self._is_large = False

    def timed_out(self) -> None:
        """The deadline passed: before the head that is a failure, after it a broken body."""
        if self.response is None:
            if not self._sent:
                raise self._failed(Reason.TOTAL_TIMEOUT, "The request could not be sent in time.")
            raise self._failed(
                Reason.FIRST_BYTE_TIMEOUT, f"No complete response head within {self._request.limits.first_byte_s:g} s."
            )
        self._body_broke(Reason.TOTAL_TIMEOUT, f"The body was not complete within {self._request.limits.total_s:g} s.")

    def _body_broke(self, reason: Reason, detail: str) -> None:
        response = self.response
        assert response is not None
        if reason is Reason.PROTOCOL_ERROR and "without sending complete message body" in detail:
            reason, detail = Reason.INCOMPLETE_BODY, "The connection closed before the end of the body."
        response.problem, response.detail = reason, detail
        if self._decoder is not None:
            response.body = self._decoder.body()
            response.wire_bytes = self._decoder.wire_bytes

    async def _next_event(self) -> object:
        wire = self._connection.h11
        while True:
            try:
                event = wire.next_event()
            except h11.RemoteProtocolError as e:
                if e.error_status_hint == 431:
                    raise self._failed(
                        Reason.HEADERS_TOO_LARGE, f"More than {self._connection.max_header_bytes} bytes of headers."
                    ) from None
                raise self._failed(Reason.PROTOCOL_ERROR, f"Not valid HTTP/1.1: {e}.") from None
            if event is not h11.NEED_DATA:
                return event
            try:
                data = await self._connection.stream.receive_some(_READ)
            except _BROKEN as e:
                raise self._broken(e) from None
            if data:
                self._heard = True
            elif not self._heard:
                if self._reused:
                    raise _StaleConnection
                raise self._failed(Reason.CONNECTION_RESET, "The server closed the connection without an answer.")
            wire.receive_data(data)

    def _broken(self, cause: BaseException) -> Exception:
        if self._reused and not self._heard:
            return _StaleConnection()
        inner = cause.__cause__ or cause
        if isinstance(inner, ssl.SSLError):
            return self._failed(Reason.CONNECTION_RESET, f"TLS broke off: {inner.reason or inner}.")
        text = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner) or type(inner).__name__
        return self._failed(Reason.CONNECTION_RESET, f"The connection broke: {text}.")

    def _failed(self, reason: Reason, detail: str) -> ExchangeFailed:
        return ExchangeFailed("response", reason, detail, self._connection.address)
