"""Claim and fetch of one partition on a real ledger and a local web: shares of tenants, suppressions, fences, slots."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assets import due_sources, page_fetches
from assets.page_fetches import DueTasks, PartitionSink
from assets.partition import WindowShard
from assets.platform import Platform
from crawl.config import CrawlSettings
from crawl.ports import FetchResult, FetchTask
from tests.service.ledger import data
from transforms.clock import WallClock
from transforms.reasons import Outcome, Reason
from transforms.schemas import DUE_SOURCES, PAGE_FETCHES
from transforms.windows import Window
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger import Ledger, StaleFence, leases
from warehouse.ledger.origins import suppress
from warehouse.objects.config import ObjectStoreSettings

pytestmark = pytest.mark.service


class Web(ThreadingHTTPServer):
    """Answers every path with a page, robots.txt with 404, and remembers (host, path)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str]] = []
        self.redirects: dict[str, str] = {}
        self.broken: set[str] = set()

    def pages(self) -> list[str]:
        return [path for _, path in self.asked if path != "/robots.txt"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web

    def do_GET(self) -> None:
        self.server.asked.append((self.headers["Host"], self.path))
        location = self.server.redirects.get(self.path)
        status = (
            404 if self.path == "/robots.txt" else 302 if location else 500 if self.path in self.server.broken else 200
        )
        body = b"" if status != 200 else f"<html><body><p>This is {self.path}</p></body></html>".encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def new_platform(fresh_ledger: Ledger, tmp_path: Path, web: Web) -> Iterator[Callable[..., Platform]]:
    made: list[Platform] = []

    def make(**crawl: object) -> Platform:
        settings = {"origin_gap_s": 0.0, "test_hosts": {"*.example": f"127.0.0.1:{web.server_address[1]}"}} | crawl
        made.append(
            Platform(
                ledger_settings=fresh_ledger.settings,
                clickhouse_settings=ClickHouseSettings(),
                object_settings=ObjectStoreSettings(url=str(tmp_path / "objects")),
                crawl=CrawlSettings(**settings),  # type: ignore[arg-type]
                clock=WallClock(),
                root=tmp_path,
                work_folder=tmp_path / "work",
                shards=1,
                window_length=timedelta(hours=1),
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def scene(platform: Platform, urls: list[str], *, weight: int | None = None) -> bytes:
    """A tenant with a project whose edges stand on these pages, due now. Returns the tenant."""
    now = platform.clock.now()
    made = data.scene(platform.ledger, sources=0, now=now)
    (target,) = data.url_ids(platform.ledger, [f"https://target-{made.tenant.hex()[:8]}.com/"])
    data.register(made, [(source, target) for source in data.url_ids(platform.ledger, urls)], now=now)
    if weight is not None:
        with platform.ledger.transaction() as tx:
            tx.execute(
                "INSERT INTO tenant_crawl_limits (tenant_id, daily_page_check_limit, scheduler_weight) "
                "VALUES (%(tenant)s, 10000, %(weight)s)",
                {"tenant": made.tenant, "weight": weight},
            )
    return made.tenant


def now_partition(platform: Platform) -> WindowShard:
    return WindowShard(Window.containing(platform.clock.now()), 0)


def test_two_tenants_share_a_slow_host_by_their_weights(new_platform: Callable[..., Platform], web: Web) -> None:
    """One host, more pages than the window has time for: three to one, counted by who pays for a page."""
    platform = new_platform(origin_gap_s=0.05, window_budget_s=1.8)
    shared = [f"http://slow.example/both/{n}" for n in range(8)]
    heavy = scene(platform, [*(f"http://slow.example/heavy/{n}" for n in range(40)), *shared], weight=3)
    light = scene(platform, [*(f"http://slow.example/light/{n}" for n in range(40)), *shared], weight=1)
    at = now_partition(platform)
    due_sources.claim(platform, at)
    due = platform.datasets.read(DUE_SOURCES, at.window, at.shard).to_pylist()
    assert len(due) == 88
    assert {(row["tenant_id"], row["tenant_weight"]) for row in due} == {(heavy, 3), (light, 1)}
    payer = {row["source_url_id"]: row["tenant_id"] for row in due}
    assert Counter(payer.values())[heavy] == 48, "the light one has paid more for its weight"
    rows = page_fetches.fetch(platform, at, refetch=False).to_pylist()
    fetched = Counter(payer[row["source_url_id"]] for row in rows if row["outcome"] == "fetched")
    assert {row["reason"] for row in rows} == {"ok", "window_budget"}
    assert len(web.pages()) == fetched.total() >= 8
    # To a page of the ideal, and the turn that went to robots.txt.
    assert abs(fetched[light] - fetched.total() / 4) <= 2
    # Where nobody else waits, a weight keeps nobody back.
    again = new_platform()
    rows = page_fetches.fetch(again, at, refetch=False).to_pylist()
    assert {row["reason"] for row in rows} == {"ok"}
    assert sorted(web.pages()) == sorted(set(web.pages())), "what was fetched is not fetched again"


def test_a_suppressed_url_is_not_requested_as_a_source_or_on_a_hop(
    new_platform: Callable[..., Platform], web: Web
) -> None:
    platform = new_platform()
    web.redirects["/leads"] = "http://www.blog.example:80/go%6Ee"
    urls = [f"http://www.blog.example/{page}" for page in ("gone", "leads", "gone/below", "other")]
    scene(platform, urls)
    suppress(
        platform.ledger,
        scope="url",
        value=urls[0],
        reason="asked",
        now=platform.clock.now(),
        actor="op",
        verified_by="mail",
    )
    at = now_partition(platform)
    due_sources.claim(platform, at)
    rows = {row["source_url"]: row for row in page_fetches.fetch(platform, at, refetch=False).to_pylist()}
    assert [rows[url]["reason"] for url in urls] == ["suppressed", "suppressed", "ok", "ok"]
    assert [rows[url]["outcome"] for url in urls] == ["blocked", "blocked", "fetched", "fetched"]
    assert sorted(web.pages()) == ["/gone/below", "/leads", "/other"]


def test_two_runs_at_once_fetch_nothing_twice_and_a_stale_one_changes_nothing(
    new_platform: Callable[..., Platform], web: Web
) -> None:
    urls = [f"http://h{n % 4}.twice.example/{n}" for n in range(40)]
    first, second = new_platform(), new_platform()
    scene(first, urls)
    at = now_partition(first)
    tables = {}

    def run(name: str, platform: Platform) -> None:
        due_sources.claim(platform, at)
        tables[name] = page_fetches.fetch(platform, at, refetch=False)

    threads = [threading.Thread(target=run, args=item) for item in (("a", first), ("b", second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tables["a"].sort_by("source_url_id").equals(tables["b"].sort_by("source_url_id"))
    assert set(urls) <= set(tables["a"]["source_url"].to_pylist())
    pages = [page for host, page in web.asked if "twice" in host and page != "/robots.txt"]
    assert sorted(pages) == sorted(f"/{n}" for n in range(40))

    # A run that lost its shard: its results are neither in the ledger nor in the partition's files.
    jobs = _jobs(first)
    before = first.datasets.read(PAGE_FETCHES, at.window, at.shard)
    with first.lease(f"shard:{at.shard}") as lease:
        row = tables["a"].to_pylist()[0]
        task = FetchTask(row["source_url_id"], row["source_url"], row["registrable_domain"], row["fetch_job_id"])
        body = b"<p>seen by somebody who does not own the shard any more</p>"
        late = FetchResult(task, Outcome.FETCHED, Reason.OK, first.clock.now(), body=body, content_hash=b"h" * 32)
        assert leases.release(first.ledger, lease)
        with second.lease(f"shard:{at.shard}"), pytest.raises(StaleFence, match="no longer owned"):
            PartitionSink(first, at, lease).commit([late])
    assert _jobs(first) == jobs
    assert first.datasets.read(PAGE_FETCHES, at.window, at.shard).equals(before)


def test_what_others_leased_and_lost_comes_back_and_nothing_is_tried_for_ever(
    new_platform: Callable[..., Platform], web: Web
) -> None:
    platform = new_platform(retry_base_s=0.0, max_attempts=3)
    urls = ["http://www.lost.example/page", "http://www.lost.example/broken"]
    scene(platform, urls)
    web.broken.add("/broken")
    at = now_partition(platform)
    due_sources.claim(platform, at)
    long_ago = platform.clock.now() - timedelta(hours=1)
    for attempt in range(1, leases.MAX_ATTEMPTS + 1):
        with platform.ledger.transaction() as tx:  # a consumer of single rows that dies, again and again
            tx.execute("UPDATE page_fetch_jobs SET available_at = %(at)s", {"at": long_ago})
        _, ids = leases.claim_queue(platform.ledger, "page_fetch_jobs", owner="w", ttl_s=60, now=long_ago, limit=9)
        assert len(ids) == 2
        counts = due_sources.claim(platform, at)
        last = attempt == leases.MAX_ATTEMPTS
        assert (counts["recovered"], counts["given_up"]) == ((0, 2) if last else (2, 0))
    counts = due_sources.claim(platform, at)
    assert (counts["recovered"], counts["given_up"], counts["sources"]) == (0, 0, 2)
    # The partition itself still gets its outcomes, each page asked as often as the cap allows, in however many runs.
    for _ in range(2):
        rows = {row["source_url"]: row for row in page_fetches.fetch(platform, at, refetch=False).to_pylist()}
        assert [(rows[url]["outcome"], rows[url]["reason"], rows[url]["attempt"]) for url in urls] == [
            ("fetched", "ok", 1), ("failed", "http_5xx", 3),
        ]  # fmt: skip
    assert Counter(web.pages()) == {"/page": 1, "/broken": 3}
    assert sorted((job[1], job[2]) for job in _jobs(platform)) == [("completed", "fetched"), ("failed", "failed")]


def _jobs(platform: Platform) -> list[tuple[object, ...]]:
    with platform.ledger.transaction() as tx:
        return tx.rows("SELECT id, status, outcome, fetched_at, content_snapshot_id FROM page_fetch_jobs ORDER BY id")


def test_tasks_are_made_when_they_are_read_hosts_and_tenants_mixed() -> None:
    rows = [
        {"source_url_id": n, "source_url": f"http://{host}/{n}", "source_url_hash": b"h" * 32, "registrable_domain": host,
         "fetch_job_id": n, "priority": priority, "due_at": WallClock().now(), "is_confirmation": False, "edges": 1,
         "tenant_id": tenant * 16, "tenant_weight": 2}
        for n, (host, tenant, priority) in enumerate(
            [("big", b"a", 0), ("big", b"a", 0), ("big", b"a", 5), ("big", b"b", 0), ("small", b"a", 1)]
        )
    ]  # fmt: skip
    tasks = DueTasks(DUE_SOURCES.table(rows), unconditional=False)
    assert len(tasks) == 5
    assert [(task.key, task.tenant[:1], task.tenant_weight) for task in tasks] == [
        (2, b"a", 2), (4, b"a", 2), (3, b"b", 2), (0, b"a", 2), (1, b"a", 2),
    ]  # fmt: skip
    assert [task.key for task in tasks] == [2, 4, 3, 0, 1], "they can be read again"
