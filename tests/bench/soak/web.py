"""The web of a soak: ordinary pages, and by chance every way of failing that a crawler meets. Here: the server, and what
it saw. Not here: what the crawler must make of it (`verdict`).
"""

from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import random
import time
import zlib
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.soak.scene import TARGET, host_name, origin_of
from tests.fixtures.hostile import HANDLERS, HTML, HostileServer, Talk

FAULTS = (
    (0.03, "/reset"),
    (0.015, "/silent"),
    (0.015, "/drip"),
    (0.01, "/drip-head"),
    (0.02, "/half-body"),
    (0.02, "/half-chunked"),
    (0.02, "/not-http"),
    (0.01, "/bomb-gzip"),
    (0.02, "/close"),
    (0.03, "500"),
    (0.01, "503"),
    (0.01, "429"),
    (0.02, "404"),
    (0.04, "redirect"),
    (0.04, "hop"),
)
ROBOTS_503 = 0.05


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request whose head has arrived: wall clock of this machine, in seconds since 1970."""

    at: float
    path: str


class SoakWeb(HostileServer):
    """Serves `www.s<n>.test`, `/page/N`. Half of the pages never change and answer 304; the others are new each time.
    Every page names itself, so that a body stored under another page's name would be seen."""

    def __init__(self, hosts: int, rng: random.Random) -> None:
        super().__init__(names=tuple(host_name(host) for host in range(hosts)))
        self.hosts = hosts
        self.rng = rng
        self.is_calm = False
        self.arrivals: dict[str, list[Arrival]] = defaultdict(list)
        """By origin, `scheme://host`."""
        self.faults: Counter[str] = Counter()
        self.requests_seen = 0

    async def _answer(self, talk: Talk) -> None:
        host, path = talk.seen.host, talk.seen.path
        scheme = "https" if talk.seen.tls else "http"
        self.arrivals[f"{scheme}://{host}"].append(Arrival(time.time(), path))
        self.requests_seen += 1
        self.log.clear()
        if path == "/robots.txt":
            if not self.is_calm and self.rng.random() < ROBOTS_503:
                self.faults["robots 503"] += 1
                await talk.respond(b"", "503 Busy", b"")
            else:
                await talk.respond(b"User-agent: *\nDisallow: /private\n", headers=b"Content-Type: text/plain\r\n")
            return
        fault = None if self.is_calm else self._fault()
        if fault is None:
            await self._page(talk)
        else:
            self.faults[fault] += 1
            await self._misbehave(fault, talk)

    def _fault(self) -> str | None:
        roll = self.rng.random()
        for share, name in FAULTS:
            if roll < share:
                return name
            roll -= share
        return None

    async def _page(self, talk: Talk) -> None:
        name = talk.seen.host + talk.seen.path
        number = zlib.crc32(name.encode())
        is_static = number % 2 == 0
        headers = HTML
        if is_static:
            headers += b'ETag: "%08x"\r\n' % number
            if talk.seen.headers.get("if-none-match") == f'"{number:08x}"':
                await talk.send(b'HTTP/1.1 304 Not Modified\r\nETag: "%08x"\r\n\r\n' % number)
                return
        body = page(name, "" if is_static else str(self.requests_seen))
        if number % 3 == 0:
            body, headers = gzip.compress(body, 1), headers + b"Content-Encoding: gzip\r\n"
        await talk.respond(body, headers=headers)

    async def _misbehave(self, name: str, talk: Talk) -> None:
        path = talk.seen.path.split("?")[0]
        if name in HANDLERS:
            await HANDLERS[name](talk)
        elif name == "redirect":
            await talk.respond(b"", "302 Found", b"Location: %s?again\r\n" % path.encode())
        elif name == "hop":
            to = f"{origin_of(self.rng.randrange(self.hosts))}/hop/from/{talk.seen.host}"
            await talk.respond(b"", "301 Moved", b"Location: %s\r\n" % to.encode())
        elif name == "404":
            await talk.respond(page("gone", ""), "404 Not Found")
        else:
            await talk.respond(b"", f"{name} Oops", b"Retry-After: 2\r\n")


def serve(hosts: int, seed: int, folder: str, pipe: Any, totals: Any) -> None:
    """The web in a process of its own: until it is told `calm`, then `end`, when it hands over what it saw."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # what it measures are arrivals, not its own turn on busy cores
    web = SoakWeb(hosts, random.Random(seed))
    web.start(Path(folder))
    pipe.send((web.port, web.ca_file))
    word = None
    while word != "end":
        if pipe.poll(0.5):
            word = pipe.recv()
            web.is_calm = True
        totals[0], totals[1] = web.requests_seen, sum(web.faults.values())
    web.stop()
    (Path(folder) / "seen.pickle").write_bytes(pickle.dumps((dict(web.arrivals), web.faults)))


class WebProcess:
    def __init__(self, hosts: int, seed: int, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = folder
        self._pipe, theirs = context.Pipe()
        self._totals = context.Array("q", 2, lock=False)
        self._process = context.Process(
            target=serve, args=(hosts, seed, str(folder), theirs, self._totals), daemon=True
        )
        self._process.start()
        if not self._pipe.poll(120):
            raise RuntimeError("The soak's web did not start within 120 s.")
        self.port, self.ca_file = self._pipe.recv()

    @property
    def requests_seen(self) -> int:
        return int(self._totals[0])

    @property
    def answered_badly(self) -> int:
        return int(self._totals[1])

    def calm(self) -> None:
        self._pipe.send("calm")

    def end(self) -> tuple[dict[str, list[Arrival]], Counter[str]]:
        """What it saw: arrivals by origin, faults by kind."""
        self._pipe.send("end")
        self._process.join(60)
        seen: tuple[dict[str, list[Arrival]], Counter[str]] = pickle.loads((self._folder / "seen.pickle").read_bytes())
        return seen

    def kill(self) -> None:
        self._process.kill()


def page(name: str, version: str) -> bytes:
    """The page that `name` (host and path) shows."""
    words = " ".join(f"word{(zlib.crc32(name.encode()) + 7 * n) % 997}" for n in range(200))
    return (
        f"<!doctype html><html><head><title>Page</title></head><body><p>This is {name} {version}.</p><p>{words} "
        f"<a href='{TARGET}'>link</a></p></body></html>"
    ).encode()


def names_itself(body: bytes, name: str) -> bool:
    """Is it the body that the page `name` (host and path) shows?"""
    return f"<p>This is {name} ".encode() in body
