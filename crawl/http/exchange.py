"""The small interface between the crawler and its HTTP client. Here: values and the protocol. Not here: sockets.

A client is replaced by writing one class with `exchange` and `aclose`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from crawl.egress.gate import Admission
from transforms.reasons import Reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes of one exchange. `max_ratio` (decoded over wire) is looked at above 1 MiB decoded."""

    connect_s: float = 10.0
    first_byte_s: float = 20.0
    total_s: float = 60.0
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = 10 * 1024 * 1024
    max_ratio: float = 200.0


@dataclass(frozen=True, slots=True)
class Request:
    """A GET. `headers` come after Host. `body_cap(status, content type)` says how many decoded bytes are worth reading:
    beyond it the body is cut, marked truncated, and the connection is not used again."""

    headers: tuple[tuple[str, str], ...]
    limits: Limits
    body_cap: Callable[[int, str], int] | None = None
    on_sent: Callable[[], None] | None = None
    """Called when the request's bytes are out: on a busy machine that is later than `before_send`."""


@dataclass(slots=True)
class Response:
    """What one hop answered. Header names are lower case, values latin-1 text, order and repeats kept.

    `problem` is set when the body broke after the status was known (INCOMPLETE_BODY, BAD_ENCODING, EXPANSION_RATIO,
    TOTAL_TIMEOUT, CONNECTION_RESET, PROTOCOL_ERROR): then `body` is what had arrived and is no evidence.
    """

    status: int
    address: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    wire_bytes: int = 0
    truncated: bool = False
    problem: Reason | None = None
    detail: str = ""
    reused: bool = False

    def get(self, name: str) -> str | None:
        """First value of a header (lower-case name)."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def get_all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class ExchangeFailed(Exception):
    """No status came back. `gate` is connect, tls or response."""

    def __init__(self, gate: str, reason: Reason, detail: str, address: str | None = None) -> None:
        super().__init__(detail)
        self.gate = gate
        self.reason = reason
        self.detail = detail
        self.address = address


class Exchanger(Protocol):
    async def exchange(
        self, admission: Admission, request: Request, before_send: Callable[[], Awaitable[None]]
    ) -> Response:
        """One GET of the admitted URL at one of its checked addresses.

        `before_send` is awaited once the connection stands, right before the request is written (and again if a kept
        connection turned out dead and a new one is used): an exception from it sends nothing and passes through.
        Raises `ExchangeFailed`. Cancellation closes the socket.
        """
        ...

    async def aclose(self) -> None:
        """Close every idle connection."""
        ...
