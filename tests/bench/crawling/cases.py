"""What is measured: one function a case, each giving rows of the table. Here: which contenders meet on which web, and what
their figures mean. Not here: the contenders (`contenders`), the table (`tests.bench.crawl_bench`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.crawling.contenders import contend
from tests.bench.crawling.server import Server, Web


@dataclass(frozen=True)
class Row:
    """A line of the table. `cpu_ms` is the crawling process's, user + system, a page."""

    what: str
    cpu_ms: float | None = None
    rate: float | None = None
    peak_mb: float | None = None
    note: str = ""
    is_title: bool = False


@dataclass(frozen=True)
class Sizes:
    pages: int = 3000
    hosts: int = 64
    flat_pages: int = 100_000
    flight_pages: int = 4000


Rows = Iterator[Row]


def row(what: str, figures: dict[str, Any], note: str = "") -> Row:
    return Row(what, figures["cpu_ms"], figures["pages"] / figures["wall_s"], figures["peak_mb"], note)


def title(text: str) -> Row:
    return Row(text, is_title=True)


def times(other: dict[str, Any], ours: dict[str, Any], aim: str = "") -> str:
    return f"{other['cpu_ms'] / ours['cpu_ms']:.2f} x ours{aim}"


def keepalive(sizes: Sizes) -> Rows:
    """The same pages, connections kept, plain and TLS."""
    (floor,) = contend("floor", {"pages": sizes.pages})
    for tls in (False, True):
        yield title(f"{'TLS' if tls else 'plain HTTP'}, connections kept, all gates on")
        yield row("floor: gunzip + Lexbor, no network", floor)
        with Server(Web(sizes.hosts, is_raw=not tls)) as server:
            common = server.options | {"pages": sizes.pages, "in_flight": 64, "tls": tls}
            (ours,) = contend("ours", common)
            note = f"{ours['cpu_ms'] / floor['cpu_ms']:.2f} x the floor (aim 2.5)"
            yield row("ours", ours, f"{note}; {ours['bodies']} bodies, {ours['links']} links")
            for extract, name, aim in (
                ("selectolax", "Scrapy + selectolax", 2.5),
                ("links", "Scrapy + its LinkExtractor", 6),
            ):
                (scrapy,) = contend("scrapy", common | {"extract": extract})
                note = times(scrapy, ours, f" (aim {aim:g})")
                yield row(name, scrapy, f"{note}; {scrapy['bodies']} bodies, {scrapy['links']} links")


def tls(sizes: Sizes) -> Rows:
    yield title("a new TLS connection for every page")
    with Server(Web(sizes.hosts, close=True)) as server:
        common = server.options | {"pages": sizes.pages, "in_flight": 64, "tls": True}
        (ours,) = contend("ours", common)
        yield row("ours", ours)
        for extract, name in (("selectolax", "Scrapy + selectolax"), ("links", "Scrapy + its LinkExtractor")):
            (scrapy,) = contend("scrapy", common | {"extract": extract})
            yield row(name, scrapy, times(scrapy, ours, " (aim 2.5)"))


def unchanged(sizes: Sizes) -> Rows:
    yield title("70 % of the pages unchanged")
    with Server(Web(sizes.hosts, is_raw=True, etag_share=0.7)) as server:
        common = server.options | {"pages": sizes.pages, "in_flight": 64, "tls": False}
        (plain,) = contend("ours", common)
        (conditional,) = contend("ours", common | {"conditional": True})
        fewer = 100 * (1 - conditional["wire"] / plain["wire"])
        less = 100 * (1 - conditional["cpu_ms"] / plain["cpu_ms"])
        yield row("every body fetched", plain, f"{plain['wire'] / 1e6:.0f} MB of bodies")
        note = f"{conditional['wire'] / 1e6:.0f} MB: {fewer:.0f} % less (aim 65); CPU {less:.0f} % less (aim 50)"
        yield row("conditional requests", conditional, note)


# -- two processes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A run of one or two crawlers: what they, the server and everybody else on the machine used."""

    answers: list[dict[str, Any]]
    wall_s: float
    server_s: float
    machine_s: float

    @property
    def pages(self) -> int:
        return sum(answer["pages"] for answer in self.answers)

    @property
    def rate(self) -> float:
        return self.pages / self.wall_s

    @property
    def crawlers_s(self) -> float:
        return sum(answer["cpu_ms"] * answer["pages"] / 1000 for answer in self.answers)

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.crawlers_s / self.pages

    @property
    def cores(self) -> str:
        """Cores that were busy on average: the crawlers', the server's, everybody else's."""
        others = max(0.0, self.machine_s - self.crawlers_s - self.server_s)
        mine = f"crawlers {self.crawlers_s / self.wall_s:.2f} + server {self.server_s / self.wall_s:.2f}"
        return f"{mine} + others {others / self.wall_s:.2f} of {os.cpu_count()} cores"

    def row(self, what: str, note: str) -> Row:
        return Row(what, self.cpu_ms, self.rate, max(a["peak_mb"] for a in self.answers), f"{note}; {self.cores}")


def side(server: Server, *all_options: dict[str, Any]) -> Side:
    before = server.cpu_s, _machine_s(), time.perf_counter()
    answers = contend("ours", *all_options)
    # Starting up is in the machine's and the wall time of the parent: take the crawlers' own wall time, and scale.
    wall = max(answer["wall_s"] for answer in answers)
    share = wall / (time.perf_counter() - before[2])
    return Side(answers, wall, server.cpu_s - before[0], (_machine_s() - before[1]) * share)


def _machine_s() -> float:
    """Processor seconds that the whole machine has been busy for (proc(5): user, nice, system, irq, softirq, steal)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def processes(sizes: Sizes) -> Rows:
    """Two crawlers against one, each with its own pages of the same hosts. Once bound by waiting (each answer takes half
    a second and a crawler may have 32 requests under way), once by CPU."""
    slow = Web(sizes.hosts, kind="small", hold_s=0.25)
    for what, web, in_flight, pages in (
        ("bound by waiting: 0.5 s an answer, 32 in flight a process", slow, 32, max(256, sizes.pages // 4)),
        ("bound by CPU: the mix, answers at once, 64 in flight", Web(sizes.hosts, is_raw=True), 64, sizes.pages),
    ):
        yield title(f"two processes, {what}")
        with Server(web) as server:
            options = server.options | {"pages": pages, "in_flight": in_flight, "tls": False}
            one, two = side(server, options), side(server, options, options)
            yield one.row("one process", f"server {1000 * one.server_s / one.pages:.3f} ms CPU a page")
            cost = two.cpu_ms / one.cpu_ms
            yield two.row(
                "two processes", f"{two.rate / one.rate:.2f} x the pages (aim 1.6); {cost:.2f} x the CPU a page"
            )
            yield Row("  what limits two", note=_limit(one, two, web, in_flight))


def _limit(one: Side, two: Side, web: Web, in_flight: int) -> str:
    """What kept two crawlers from more, and what their CPU would allow with nobody else on the machine."""
    cores = os.cpu_count() or 1
    # One crawler fills one core; two have what the server leaves of all of them.
    best = min(2.0, (cores / (two.crawlers_s + two.server_s) * two.pages) * one.cpu_ms / 1000)
    if web.hold_s and two.rate > 0.85 * 2 * in_flight / (2 * web.hold_s):
        return f"their cap of {in_flight} requests under way each"
    if two.machine_s / two.wall_s > 0.85 * cores:
        return f"the {cores} cores, others' work on them included; by CPU a page alone {best:.2f} x could be had"
    return "neither the cap nor the cores: look at the crawler"


# -- memory --------------------------------------------------------------------------------------------------------------


def flight(sizes: Sizes) -> Rows:
    """500 exchanges under way at once, as the server counts them, half of each body already sent."""
    for is_tls in (False, True):
        yield title(
            f"500 exchanges in flight, 60 kB pages that take 2 s, 600 hosts, {'TLS' if is_tls else 'plain HTTP'}"
        )
        with Server(Web(600, kind="sixty", hold_s=1.0)) as server:
            options = server.options | {"pages": sizes.flight_pages, "in_flight": 500, "tls": is_tls}
            (ours,) = contend("ours", options)
            note = (
                f"peak {ours['peak_mb']:.0f} MB (aim 300), {ours['warm_mb']:.0f} before the first request; at most "
                f"{server.most_open} requests open at the server; parse workers are other processes and not counted"
            )
            yield row("ours", ours, note)


def flat(sizes: Sizes) -> Rows:
    """Memory over many pages."""
    pages = sizes.flat_pages
    yield title(f"{pages:,} small pages, 640 hosts, plain HTTP")
    with Server(Web(640, kind="small", is_raw=True)) as server:
        options = server.options | {"pages": pages, "in_flight": 100, "tls": False, "sample_every": pages // 10}
        options["lazy"] = True
        (ours,) = contend("ours", options)
    yield row("ours", ours, f"{ours['warm_mb']:.0f} MB before the first request; tasks are made as they are read")
    samples = ours["memory"]
    yield Row("  MB after every tenth of them", note=", ".join(f"{mb:.0f}" for _, mb in samples))
    second = samples[len(samples) // 2 :]
    yield Row("  growth over the second half", note=f"{slope_kb(second):+.1f} kB per 1,000 pages")


def slope_kb(samples: list[list[float]]) -> float:
    """Least squares: KiB per 1,000 pages of (pages, MiB)."""
    count = len(samples)
    if count < 2:
        return 0.0
    middle_x = sum(x for x, _ in samples) / count
    middle_y = sum(y for _, y in samples) / count
    over = sum((x - middle_x) * (y - middle_y) for x, y in samples)
    return 1024 * 1000 * over / sum((x - middle_x) ** 2 for x, _ in samples)


CASES: dict[str, Callable[[Sizes], Rows]] = {
    "keepalive": keepalive,
    "tls": tls,
    "unchanged": unchanged,
    "processes": processes,
    "flight": flight,
    "flat": flat,
}
