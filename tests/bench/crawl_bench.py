"""CPU per page of the crawler against tuned Scrapy and against the floor, on the same pages in one run.

    python -m tests.bench.crawl_bench [--pages 3000] [--hosts 64] [--only keepalive,tls,unchanged,flight,processes]

Here: a local multi-host server in a process of its own, one process per contender (its user + system CPU is what
counts), and the table of ratios. Not here: pass or fail; the figures are for a person.

The mix is 12 / 60 / 250 kB pages (45 / 45 / 10 %), half gzip, half identity. Ours runs with every gate on (addresses,
robots.txt of each host, frontier, limits, hashing) and a sink that extracts links with Lexbor; only the gap is 0, as
Scrapy's delay is.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import multiprocessing
import os
import random
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SIZES = ((12_000, 45), (60_000, 45), (250_000, 10))
VARIANTS = 20


# -- pages -------------------------------------------------------------------------------------------------------------


def make_pages() -> list[bytes]:
    """20 deterministic pages of the mix; about a link every 320 bytes, as on real pages."""
    rng = random.Random(7)
    words = [f"word{n:03d}" for n in range(400)]
    sizes = [size for size, share in SIZES for _ in range(share * VARIANTS // 100)]
    pages = []
    for number, size in enumerate(sizes):
        parts = [f"<!doctype html><html lang=en><head><title>Page {number}</title></head><body><main>"]
        length = len(parts[0])
        while length < size:
            text = " ".join(rng.choices(words, k=30))
            link = f'<a href="/page/{rng.randrange(9999)}" rel="{rng.choice(["", "nofollow"])}">{rng.choice(words)}</a>'
            part = f'<p class="c{rng.randrange(9)}">{text} {link}</p>\n'
            parts.append(part)
            length += len(part)
        pages.append(("".join(parts) + "</main></body></html>").encode())
    return pages


def page_of(number: int) -> tuple[int, bool]:
    """Which variant a URL's number is, and whether it is sent as gzip."""
    return (number * 7919) % VARIANTS, number % 2 == 0


# -- the server --------------------------------------------------------------------------------------------------------


class _Server(asyncio.Protocol):
    responses: list[tuple[bytes, bytes]]
    etag_share: float
    hold_s: float

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            if path == b"/robots.txt":
                body = b"User-agent: *\nDisallow: /private/\n"
                self.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                continue
            number = int(path.rsplit(b"/", 1)[1])
            if number % 10 < self.etag_share * 10 and b"if-none-match" in head.lower():
                self.write(b'HTTP/1.1 304 Not Modified\r\nETag: "v1"\r\n\r\n')
                continue
            variant, zipped = page_of(number)
            self.write(self.responses[variant][zipped])
            if b"Connection: close" in head or b"connection: close" in head:
                self.transport.close()

    def write(self, data: bytes) -> None:
        if self.hold_s:
            asyncio.get_running_loop().call_later(self.hold_s, self.transport.write, data)
        else:
            self.transport.write(data)


def serve(hosts: int, ready: Any, folder: str, etag_share: float, hold_s: float, close: bool) -> None:
    """Runs in its own process: plain HTTP and TLS on `hosts` loopback addresses."""
    import trustme

    head = b'HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: "v1"\r\n'
    if close:
        head += b"Connection: close\r\n"
    responses = []
    for page in make_pages():
        zipped = gzip.compress(page, 6)
        responses.append(
            (
                head + b"Content-Length: %d\r\n\r\n" % len(page) + page,
                head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(zipped) + zipped,
            )
        )
    protocol = type("Bound", (_Server,), {"responses": responses, "etag_share": etag_share, "hold_s": hold_s})
    if close:
        original = protocol.write

        def write_and_close(self: Any, data: bytes) -> None:
            original(self, data)
            if not self.hold_s:
                self.transport.close()

        protocol.write = write_and_close  # type: ignore[method-assign]
    ca = trustme.CA()
    addresses = [f"127.1.{n // 250}.{n % 250 + 1}" for n in range(hosts)]
    cert = ca.issue_cert("*.bench.test", *addresses)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    ca_file = os.path.join(folder, "ca.pem")
    ca.cert_pem.write_to_path(ca_file)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ports = []
        for tls in (None, context):
            port = 0
            for address in addresses:
                server = await loop.create_server(protocol, address, port, ssl=tls, backlog=1024)
                port = server.sockets[0].getsockname()[1]
            ports.append(port)
        ready.send((ports, ca_file))
        await asyncio.Event().wait()

    asyncio.run(main())


class Server:
    """The server process, as a context manager."""

    def __init__(self, hosts: int, *, etag_share: float = 0.0, hold_s: float = 0.0, close: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="crawl-bench-")
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(
            target=serve, args=(hosts, theirs, self._folder.name, etag_share, hold_s, close), daemon=True
        )
        self._process.start()
        if not ours.poll(60):
            raise RuntimeError("The benchmark server did not start.")
        (self.port, self.tls_port), self.ca_file = ours.recv()
        self.hosts = hosts

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(10)
        self._folder.cleanup()


# -- contenders: each runs alone in a process and prints one JSON line -------------------------------------------------


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _report(began_cpu: float, began: float, pages: int, **more: object) -> None:
    cpu, wall = _cpu() - began_cpu, time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps({"cpu_ms": 1000 * cpu / pages, "wall_s": wall, "pages": pages, "peak_mb": peak, **more}), flush=True
    )


def links_of(body: bytes) -> int:
    from selectolax.lexbor import LexborHTMLParser

    return sum(1 for node in LexborHTMLParser(body).css("a[href]") if node.attributes.get("href"))


def run_floor(options: dict[str, Any]) -> None:
    pages = [(page, gzip.compress(page, 6)) for page in make_pages()]
    count = options["pages"]
    began_cpu, began = _cpu(), time.perf_counter()
    links = 0
    for number in range(count):
        variant, zipped = page_of(number)
        body = gzip.decompress(pages[variant][1]) if zipped else pages[variant][0]
        links += links_of(body)
    _report(began_cpu, began, count, links=links)


def run_ours(options: dict[str, Any]) -> None:
    from crawl import run_batch
    from crawl.config import CrawlSettings
    from crawl.memory import MemoryOrigins, MemorySnapshots
    from crawl.ports import FetchResult, FetchTask, Prior
    from transforms.clock import WallClock

    hosts, count, tls = options["hosts"], options["pages"], options["tls"]
    port = options["tls_port"] if tls else options["port"]
    scheme = "https" if tls else "http"
    names = [f"h{n}.bench.test" for n in range(hosts)]
    settings = CrawlSettings(
        origin_gap_s=0.0,
        max_in_flight=options["in_flight"],
        test_hosts={name: f"127.1.{n // 250}.{n % 250 + 1}:{port}" for n, name in enumerate(names)},
        test_ca_file=options["ca_file"],
        commit_batch=200,
    )

    class Sink:
        links = 0
        bodies = 0
        failed = 0

        def commit(self, results: Sequence[FetchResult]) -> None:
            for result in results:
                if result.body is not None:
                    self.bodies += 1
                    self.links += links_of(result.body)
                elif result.outcome != "not_modified":
                    self.failed += 1

    # Imports and tables are not what is measured: one page warms everything up.
    hashes = [hashlib.sha256(page).digest() for page in make_pages()] if options["conditional"] else []
    keys = {digest.hex() for digest in hashes}

    def prior(number: int, url: str) -> Prior | None:
        if not hashes:
            return None
        digest = hashes[page_of(number)[0]]
        return Prior(digest, digest.hex(), url, "text/html", '"v1"')

    urls = [f"{scheme}://{names[number % hosts]}/page/{number}" for number in range(count)]
    tasks = [FetchTask(number, url, "bench.test", prior=prior(number, url)) for number, url in enumerate(urls)]
    snapshots, clock = MemorySnapshots(keys), WallClock()
    run_batch(tasks[:1], settings=settings, sink=Sink(), snapshots=snapshots, origins=MemoryOrigins(), clock=clock)
    sink = Sink()
    began_cpu, began = _cpu(), time.perf_counter()
    summary = run_batch(tasks, settings=settings, sink=sink, snapshots=snapshots, origins=MemoryOrigins(), clock=clock)
    _report(began_cpu, began, count, links=sink.links, bodies=sink.bodies, failed=sink.failed, wire=summary.wire_bytes)


def run_scrapy(options: dict[str, Any]) -> None:
    import logging

    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor

    logging.disable(logging.CRITICAL)
    hosts, count, tls = options["hosts"], options["pages"], options["tls"]
    port = options["tls_port"] if tls else options["port"]
    scheme = "https" if tls else "http"
    seen = {"links": 0, "bodies": 0}
    extractor = LinkExtractor()
    began: list[float] = []

    class Bench(scrapy.Spider):
        name = "bench"

        async def start(self) -> Any:
            began.extend((_cpu(), time.perf_counter()))
            for number in range(count):
                host = number % hosts
                url = f"{scheme}://127.1.{host // 250}.{host % 250 + 1}:{port}/page/{number}"
                yield scrapy.Request(url, callback=self.parse, dont_filter=True)

        def parse(self, response: Any, **_: Any) -> None:
            seen["bodies"] += 1
            if options["extract"] == "selectolax":
                seen["links"] += links_of(response.body)
            else:
                seen["links"] += len(extractor.extract_links(response))

    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": 64,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "ROBOTSTXT_OBEY": False,
            "COOKIES_ENABLED": False,
            "RETRY_ENABLED": False,
            "REDIRECT_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_ENABLED": False,
            "REACTOR_THREADPOOL_MAXSIZE": 20,
            "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
            "EXTENSIONS": {
                "scrapy.extensions.corestats.CoreStats": None,
                "scrapy.extensions.memusage.MemoryUsage": None,
                "scrapy.extensions.logstats.LogStats": None,
            },
        }
    )
    process.crawl(Bench)
    process.start()
    _report(began[0], began[1], count, **seen)


CONTENDERS: dict[str, Callable[[dict[str, Any]], None]] = {"floor": run_floor, "ours": run_ours, "scrapy": run_scrapy}


def contend(name: str, **options: object) -> dict[str, Any]:
    """Run a contender alone in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.crawl_bench", "--contender", name, json.dumps(options)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# -- the table ---------------------------------------------------------------------------------------------------------


def show(title: str, rows: list[tuple[str, dict[str, Any]]], base: float) -> None:
    print(f"\n{title}")
    print(f"  {'':<34}{'CPU ms/page':>12}{'vs ours':>9}{'pages/s':>9}{'peak MB':>9}  pages, links")
    for name, row in rows:
        ratio = row["cpu_ms"] / base
        rate = row["pages"] / row["wall_s"]
        print(
            f"  {name:<34}{row['cpu_ms']:>12.3f}{ratio:>8.2f}x{rate:>9.0f}{row['peak_mb']:>9.0f}"
            f"  {row.get('bodies', row['pages'])}, {row.get('links', '-')}"
        )


def bench_keepalive(pages: int, hosts: int) -> None:
    with Server(hosts) as server:
        common = {"hosts": hosts, "port": server.port, "tls_port": server.tls_port, "ca_file": server.ca_file}
        common |= {"pages": pages, "in_flight": 64, "conditional": False}
        for tls in (False, True):
            floor = contend("floor", pages=pages)
            ours = contend("ours", tls=tls, **common)
            parsel = contend("scrapy", tls=tls, extract="links", **common)
            fast = contend("scrapy", tls=tls, extract="selectolax", **common)
            show(
                f"Keep-alive, {'TLS' if tls else 'plain HTTP'}, {hosts} hosts, all gates on",
                [
                    ("floor (gunzip + Lexbor)", floor),
                    ("ours", ours),
                    ("Scrapy + selectolax", fast),
                    ("Scrapy + its LinkExtractor", parsel),
                ],
                ours["cpu_ms"],
            )
            print(f"  ours is {ours['cpu_ms'] / floor['cpu_ms']:.2f} x the floor")


def bench_tls(pages: int, hosts: int) -> None:
    with Server(hosts, close=True) as server:
        common = {"hosts": hosts, "port": server.port, "tls_port": server.tls_port, "ca_file": server.ca_file}
        common |= {"pages": pages, "in_flight": 64, "conditional": False, "tls": True}
        ours = contend("ours", **common)
        fast = contend("scrapy", extract="selectolax", **common)
        parsel = contend("scrapy", extract="links", **common)
        rows = [("ours", ours), ("Scrapy + selectolax", fast), ("Scrapy + its LinkExtractor", parsel)]
        show("A new TLS connection for every page", rows, ours["cpu_ms"])


def bench_unchanged(pages: int, hosts: int) -> None:
    with Server(hosts, etag_share=0.7) as server:
        common = {"hosts": hosts, "port": server.port, "tls_port": server.tls_port, "ca_file": server.ca_file}
        common |= {"pages": pages, "in_flight": 64, "tls": False}
        plain = contend("ours", conditional=False, **common)
        conditional = contend("ours", conditional=True, **common)
        show(
            "70 % of the pages unchanged",
            [("every body fetched", plain), ("conditional requests", conditional)],
            conditional["cpu_ms"],
        )
        print(
            f"  body bytes fall by {100 * (1 - conditional['wire'] / plain['wire']):.0f} %, "
            f"CPU per page by {100 * (1 - conditional['cpu_ms'] / plain['cpu_ms']):.0f} %"
        )


def bench_flight(pages: int, hosts: int) -> None:
    """500 exchanges in flight: 600 hosts that answer after a second; then many pages, for growth."""
    with Server(600, hold_s=0.5) as server:
        common = {"hosts": 600, "port": server.port, "tls_port": server.tls_port, "ca_file": server.ca_file}
        few = contend("ours", pages=3000, in_flight=500, conditional=False, tls=False, **common)
        print(
            f"\n500 exchanges in flight: peak {few['peak_mb']:.0f} MB over {few['pages']} pages ({few['wall_s']:.0f} s)"
        )
    with Server(hosts) as server:
        common = {"hosts": hosts, "port": server.port, "tls_port": server.tls_port, "ca_file": server.ca_file}
        for count in (pages, pages * 5):
            row = contend("ours", pages=count, in_flight=64, conditional=False, tls=False, **common)
            print(f"{count:>7} pages: peak {row['peak_mb']:.0f} MB, {row['cpu_ms']:.3f} ms CPU a page")


def bench_processes(pages: int, hosts: int) -> None:
    with Server(hosts) as server, Server(hosts, etag_share=0.0) as second:
        both = [
            {"hosts": hosts, "port": s.port, "tls_port": s.tls_port, "ca_file": s.ca_file, "pages": pages}
            | {"in_flight": 64, "conditional": False, "tls": False}
            for s in (server, second)
        ]
        one = contend("ours", **both[0])
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.bench.crawl_bench", "--contender", "ours", json.dumps(options)],
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).resolve().parents[2],
            )
            for options in both
        ]
        rows = [json.loads(child.communicate()[0].strip().splitlines()[-1]) for child in children]
        rate = sum(row["pages"] / row["wall_s"] for row in rows)
        alone = one["pages"] / one["wall_s"]
        cpu = sum(row["cpu_ms"] for row in rows) / len(rows)
        print(f"\nTwo processes: {rate:.0f} pages/s against {alone:.0f} of one: {rate / alone:.2f} x")
        print(
            f"  (CPU a page {one['cpu_ms']:.3f} ms alone, {cpu:.3f} ms side by side; {os.cpu_count()} cores, of which the"
        )
        print("  servers and whatever else runs here take their part)")


BENCHES = {
    "keepalive": bench_keepalive,
    "tls": bench_tls,
    "unchanged": bench_unchanged,
    "flight": bench_flight,
    "processes": bench_processes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--only", default=",".join(BENCHES))
    parser.add_argument("--contender", nargs=2, metavar=("NAME", "OPTIONS"))
    arguments = parser.parse_args()
    if arguments.contender:
        CONTENDERS[arguments.contender[0]](json.loads(arguments.contender[1]))
        return
    print(
        f"{arguments.pages} pages of {', '.join(f'{size // 1000} kB ({share} %)' for size, share in SIZES)}, half gzip;"
    )
    print(f"CPU is user + system of the crawling process. {socket.gethostname()}, {os.cpu_count()} cores.")
    for name in arguments.only.split(","):
        BENCHES[name](arguments.pages, arguments.hosts)


if __name__ == "__main__":
    main()
