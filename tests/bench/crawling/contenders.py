"""Who is measured. Each runs alone in a fresh interpreter, warms up, says so, waits until it is told to go, and prints one
JSON object: CPU of its process (user + system), wall time, memory. Here: the floor, ours, Scrapy. Not here: comparing.

    python -m tests.bench.crawling.contenders NAME OPTIONS-AS-JSON
"""

from __future__ import annotations

import gzip
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.crawling.pages import address_of, make_pages, page_of

Options = dict[str, Any]


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def go(options: Options) -> tuple[float, float]:
    """Warm now. Returns (CPU, wall) when it was told to go."""
    if options.get("waits", True):
        print("ready", flush=True)
        sys.stdin.readline()
    return cpu(), time.perf_counter()


def report(began: tuple[float, float], pages: int, **more: object) -> None:
    used, wall = cpu() - began[0], time.perf_counter() - began[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps({"cpu_ms": 1000 * used / pages, "wall_s": wall, "pages": pages, "peak_mb": peak, **more}), flush=True
    )


def links_of(body: bytes) -> int:
    from selectolax.lexbor import LexborHTMLParser

    return sum(1 for node in LexborHTMLParser(body).css("a[href]") if node.attributes.get("href"))


def run_floor(options: Options) -> None:
    """Gunzip and Lexbor on the same bytes, no network."""
    pages = [(page, gzip.compress(page, 6)) for page in make_pages()]
    count, links = options["pages"], 0
    began = go(options)
    for number in range(count):
        variant, zipped = page_of(number)
        links += links_of(gzip.decompress(pages[variant][1]) if zipped else pages[variant][0])
    report(began, count, links=links)


def run_ours(options: Options) -> None:
    """`crawl.run_batch` with every gate on: addresses, robots.txt of each host, frontier, limits, hashing; a sink that
    extracts links. Only the gap is 0, as Scrapy's delay is."""
    from crawl import run_batch
    from crawl.config import CrawlSettings
    from crawl.memory import MemoryOrigins, MemorySnapshots
    from crawl.ports import FetchResult, FetchTask, Prior
    from transforms.clock import WallClock

    hosts, count, tls = options["hosts"], options["pages"], options["tls"]
    port = options["tls_port"] if tls else options["port"]
    names = [f"h{n}.bench.test" for n in range(hosts)]
    settings = CrawlSettings(
        origin_gap_s=0.0,
        max_in_flight=options["in_flight"],
        test_hosts={name: f"{address_of(n)}:{port}" for n, name in enumerate(names)},
        test_ca_file=options["ca_file"] or None,
        commit_batch=200,
    )
    every = options.get("sample_every", 0)

    class Sink:
        links = bodies = done = 0
        failed = 0
        memory: list[tuple[int, float]]

        def __init__(self) -> None:
            self.memory = []

        def commit(self, results: Sequence[FetchResult]) -> None:
            for result in results:
                if result.body is not None:
                    self.bodies += 1
                    self.links += links_of(result.body)
                elif result.outcome != "not_modified":
                    self.failed += 1
            before, self.done = self.done, self.done + len(results)
            if every and self.done // every > before // every:
                self.memory.append((self.done, round(rss_mb(), 1)))

    hashes = [hashlib.sha256(page).digest() for page in make_pages(options["kind"])]
    is_conditional = options.get("conditional", False)

    def prior(number: int, url: str) -> Prior | None:
        if not is_conditional:
            return None
        digest = hashes[page_of(number)[0]]
        return Prior(digest, digest.hex(), url, "text/html", '"v1"')

    def task(number: int) -> FetchTask:
        url = f"{'https' if tls else 'http'}://{names[number % hosts]}/page/{number}"
        return FetchTask(number, url, "bench.test", prior=prior(number, url))

    tasks: Iterable[FetchTask] = map(task, range(count))
    if not options.get("lazy"):
        tasks = list(tasks)
    snapshots, clock = MemorySnapshots({digest.hex() for digest in hashes}), WallClock()
    # Imports and tables are not what is measured: one page warms everything up.
    run_batch([task(0)], settings=settings, sink=Sink(), snapshots=snapshots, origins=MemoryOrigins(), clock=clock)
    sink, warm_mb = Sink(), rss_mb()
    began = go(options)
    summary = run_batch(tasks, settings=settings, sink=sink, snapshots=snapshots, origins=MemoryOrigins(), clock=clock)
    report(
        began,
        count,
        links=sink.links,
        bodies=sink.bodies,
        failed=sink.failed,
        wire=summary.wire_bytes,
        warm_mb=warm_mb,
        memory=sink.memory,
    )


def run_scrapy(options: Options) -> None:
    """Scrapy tuned for speed: 64 concurrent, no delay, no robots, no cookies, no logging; `extract` says by which
    extractor."""
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
    began: list[tuple[float, float]] = []

    class Bench(scrapy.Spider):
        name = "bench"

        async def start(self) -> Any:
            began.append(go(options))
            for number in range(count):
                url = f"{scheme}://{address_of(number % hosts)}:{port}/page/{number}"
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
    report(began[0], count, **seen)


CONTENDERS: dict[str, Callable[[Options], None]] = {"floor": run_floor, "ours": run_ours, "scrapy": run_scrapy}


def contend(name: str, *all_options: Options) -> list[dict[str, Any]]:
    """Run a contender alone, or several copies that begin together: one answer for each of the options."""
    children = []
    for options in all_options:
        command = [sys.executable, "-m", "tests.bench.crawling.contenders", name, json.dumps(options)]
        children.append(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).resolve().parents[3],
            )
        )
    try:
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                raise RuntimeError(f"{name} failed: {child.communicate()[1][-2000:]}")
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        answers = []
        for child in children:
            out, problem = child.communicate()
            if child.returncode or not out.strip():
                raise RuntimeError(f"{name} failed: {problem[-2000:]}")
            answers.append(json.loads(out.strip().splitlines()[-1]))
        return answers
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()


if __name__ == "__main__":
    CONTENDERS[sys.argv[1]](json.loads(sys.argv[2]))
