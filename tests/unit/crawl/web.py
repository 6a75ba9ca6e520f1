"""A web in memory, behind the crawler's HTTP interface, for tests on trio's mock clock. Here: an `Exchanger` that
answers after some virtual seconds and remembers when each request started. Not here: sockets
(tests/fixtures/hostile.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from itertools import pairwise

import trio

from crawl.egress import Admission
from crawl.http import Request, Response

Answer = Callable[[str, int], Response]
"""URL and how often it has been asked before, to the response."""

PAGE = b"<html><body><p>Hello</p></body></html>"


def page(status: int = 200, body: bytes = PAGE, **headers: str) -> Response:
    found = [("content-type", "text/html"), *((name.replace("_", "-"), value) for name, value in headers.items())]
    return Response(status, "127.0.0.1", found, body, len(body))


class MemoryWeb:
    """Answers robots.txt with 404 unless `answer` says otherwise."""

    def __init__(self, answer: Answer | None = None, latency_s: float = 0.2, connect_s: float = 0.0) -> None:
        self._answer = answer or (lambda url, n: page())
        self._latency_s = latency_s
        self._connect_s = connect_s
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.asked: dict[str, int] = defaultdict(int)
        self.log: list[tuple[float, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def exchange(
        self, admission: Admission, request: Request, before_send: Callable[[], Awaitable[None]]
    ) -> Response:
        target = admission.target
        await trio.sleep(self._connect_s)
        await before_send()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.starts[target.origin].append(trio.current_time())
        self.log.append((trio.current_time(), target.url))
        try:
            await trio.sleep(self._latency_s)
        finally:
            self.in_flight -= 1
        seen = self.asked[target.url]
        self.asked[target.url] += 1
        if target.path == "/robots.txt" and self._answer(target.url, seen).body == PAGE:
            return page(404)
        return self._answer(target.url, seen)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def closest(self) -> float:
        """The least distance between two starts at one origin."""
        gaps = [b - a for starts in self.starts.values() for a, b in pairwise(starts)]
        return min(gaps, default=float("inf"))
