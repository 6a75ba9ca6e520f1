"""The engine on trio's autojump clock: nobody is asked too soon, and no time is wasted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
import trio.testing

from crawl.config import CrawlSettings
from crawl.engine import Crawl
from crawl.http import ExchangeFailed, Request, Response
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.ports import FetchResult, FetchTask, OriginState, Prior, RobotsRecord
from crawl.stop import Stop
from crawl.summary import CrawlSummary
from tests.unit.crawl.web import PAGE, Answer, MemoryWeb, page
from transforms.clock import FixedClock
from transforms.reasons import Outcome, Reason


async def inline(function: Callable[..., Any], *args: Any) -> Any:
    """Port calls on the spot: the mock clock would jump while a thread works."""
    await trio.lowlevel.checkpoint()
    return function(*args)


NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
TEST_HOSTS = {"*.test": "127.0.0.1:1"}


def run(
    tasks: list[FetchTask],
    web: MemoryWeb,
    *,
    origins: MemoryOrigins | None = None,
    snapshots: MemorySnapshots | None = None,
    stop: Stop | None = None,
    now: datetime = NOW,
    **settings: object,
) -> tuple[CrawlSummary, MemorySink, MemoryOrigins]:
    sink, origins = MemorySink(), origins or MemoryOrigins()
    crawl = Crawl(
        tasks,
        settings=CrawlSettings(test_hosts=TEST_HOSTS, **settings),  # type: ignore[arg-type]
        sink=sink,
        snapshots=snapshots or MemorySnapshots(),
        origins=origins,
        clock=FixedClock(now),
        stop=stop,
        client=web,
        rng=random.Random(1),
        blocking=inline,
    )
    summary = trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return summary, sink, origins


def tasks_of(*urls: str, **more: object) -> list[FetchTask]:
    return [FetchTask(key, url, "a.test", **more) for key, url in enumerate(urls)]  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [7, 100, 2000])
def test_whatever_the_worker_count_no_two_starts_are_closer_than_the_gap(workers: int) -> None:
    rng = random.Random(workers)
    tasks = [
        FetchTask(
            n, f"http://h{rng.randrange(40)}.test/p{n}", priority=rng.randrange(5), tenant=bytes([rng.randrange(3)])
        )
        for n in range(400)
    ]
    web = MemoryWeb(connect_s=0.3)
    summary, sink, _ = run(tasks, web, max_in_flight=workers, origin_gap_s=1.0)
    assert len(sink.by_key) == summary.results == 400
    assert web.closest() >= 1.0 - 1e-9
    assert web.most_in_flight <= workers


def test_ten_thousand_origins_within_five_percent_of_the_lower_bound() -> None:
    pages = {host: 1 + (host % 40 == 0) for host in range(10_000)}
    pages[777] = 60  # one giant host sets the bound
    urls = [f"http://h{host}.test/p{n}" for host, count in pages.items() for n in range(count)]
    tasks = [FetchTask(key, url) for key, url in enumerate(urls)]
    known = {f"http://h{host}.test": host for host in pages}
    origins = MemoryOrigins()
    origins.save_robots(
        [
            RobotsRecord(o, "v", "unavailable", b"", NOW, NOW + timedelta(hours=1)) for o in known
        ]  # as after a first window
    )
    web = MemoryWeb(latency_s=0.2)
    summary, sink, _ = run(tasks, web, origins=origins, max_in_flight=400, origin_gap_s=1.0, commit_batch=2000)
    assert len(sink.by_key) == len(tasks)
    assert web.closest() >= 1.0 - 1e-9
    assert len(web.log) == len(tasks)
    bound = max((60 - 1) * 1.0 + 0.2, len(tasks) * 0.2 / 400)
    assert summary.seconds <= 1.05 * bound


def test_more_in_flight_at_one_origin_still_keeps_the_gap() -> None:
    web = MemoryWeb(latency_s=5.0, connect_s=0.7)
    origins = MemoryOrigins()
    origins.save([OriginState("http://a.test", max_in_flight=4, min_gap_s=2.0)])
    run(tasks_of(*[f"http://a.test/{n}" for n in range(8)]), web, origins=origins)
    assert web.closest() >= 2.0 - 1e-9
    assert web.most_in_flight > 1


def test_a_clock_that_was_set_back_does_not_stop_an_origin_for_a_day() -> None:
    origins = MemoryOrigins()
    origins.save(
        [
            OriginState("http://a.test", next_eligible_at=NOW + timedelta(days=1)),
            OriginState("http://b.test", next_eligible_at=NOW + timedelta(seconds=25)),
        ]
    )
    web = MemoryWeb()
    summary, sink, _ = run(tasks_of("http://a.test/1", "http://b.test/1"), web, origins=origins)
    assert {result.outcome for result in sink.results} == {Outcome.FETCHED}
    assert 25 <= summary.seconds < 60  # b's clock is believed


def test_crawl_delay_is_one_input_capped_and_never_raises_the_rate() -> None:
    def answer(delay: str) -> Answer:
        return lambda url, n: (
            page(200, f"User-agent: *\nCrawl-delay: {delay}\n".encode()) if "robots" in url else page()
        )

    for delay, expected in (("5", 5.0), ("0.1", 1.0), ("9999", 30.0)):
        web = MemoryWeb(answer(delay))
        run(tasks_of("http://a.test/1", "http://a.test/2", "http://a.test/3"), web)
        assert web.closest() == pytest.approx(expected, abs=0.01)


def test_a_crawl_delay_that_is_taken_back_gives_our_gap_again() -> None:
    crawl = Crawl(
        [], settings=CrawlSettings(), sink=MemorySink(), snapshots=MemorySnapshots(), origins=MemoryOrigins(),
        clock=FixedClock(NOW), client=MemoryWeb(),
    )  # fmt: skip

    async def gaps() -> list[float]:
        found = []
        for delay in (b"5", b"0.5", b"7", b"0"):
            crawl.origins.robots.answered("http://a.test", 200, b"User-agent: *\nCrawl-delay: " + delay, None, NOW)
            crawl.origins.apply_delay("http://a.test")
            found.append(crawl.context.frontier.gap_of("http://a.test"))
        return found

    assert trio.run(gaps) == [5.0, 1.0, 7.0, 1.0]


def test_after_a_crash_the_gap_counts_from_the_last_moment_of_the_owner_before() -> None:
    """Whatever the gap is: ours, the operator's, or the Crawl-delay of a robots.txt that is remembered."""
    hosts = {"plain": 1.0, "operator": 12.0, "delay": 7.0, "later": 20.0}
    origins = MemoryOrigins()
    origins.save(
        [
            OriginState("http://plain.test", asked_until=NOW),
            OriginState("http://operator.test", asked_until=NOW, min_gap_s=12.0),
            OriginState("http://delay.test", asked_until=NOW),
            OriginState("http://later.test", next_eligible_at=NOW + timedelta(seconds=20), asked_until=NOW),
        ]
    )
    later = NOW + timedelta(hours=1)
    for host in hosts:
        body = b"User-agent: *\nCrawl-delay: 7\n" if host == "delay" else b""
        origins.save_robots([RobotsRecord(f"http://{host}.test", "v", "ok", body, NOW, later, NOW)])
    web = MemoryWeb()
    run(tasks_of(*(f"http://{host}.test/" for host in hosts)), web, origins=origins)
    assert {url.split("/")[2]: round(at, 2) for at, url in web.log} == {
        f"{host}.test": at for host, at in hosts.items()
    }


def test_retry_after_backs_off_the_whole_origin_and_is_honoured() -> None:
    web = MemoryWeb(lambda url, n: page(503, retry_after="40") if url.endswith("/1") and n == 0 else page())
    summary, sink, origins = run(tasks_of("http://a.test/1", "http://a.test/2"), web)
    assert {r.outcome for r in sink.results} == {Outcome.FETCHED}
    assert sink.by_key[0].attempt == 2
    told = next(at for at, url in web.log if url.endswith("/1")) + 0.2
    later = [at for at, url in web.log if at > told]
    assert later
    assert min(later) >= told + 40
    assert summary.retries == 1
    assert origins.states["http://a.test"].consecutive_errors == 0


def test_retries_never_exceed_the_attempt_cap() -> None:
    web = MemoryWeb(lambda url, n: page(500) if "robots" not in url else page(404))
    _, sink, _ = run(tasks_of("http://a.test/1"), web, max_attempts=3)
    assert web.asked["http://a.test/1"] == 3
    assert (sink.by_key[0].outcome, sink.by_key[0].reason, sink.by_key[0].attempt) == (
        Outcome.FAILED,
        Reason.HTTP_5XX,
        3,
    )


def test_a_long_retry_after_defers_the_origin_and_the_next_window_keeps_to_it() -> None:
    answer: Answer = lambda url, n: page(429, retry_after="7200") if url.endswith("/1") else page()  # noqa: E731
    urls = [f"http://a.test/{n}" for n in (1, 2, 3)]
    web = MemoryWeb(answer)
    _, sink, origins = run(tasks_of(*urls), web)
    assert [sink.by_key[n].reason for n in range(3)] == [Reason.HTTP_429, Reason.ORIGIN_BACKOFF, Reason.ORIGIN_BACKOFF]
    assert {r.outcome for r in sink.results} == {Outcome.DEFERRED}
    assert sink.by_key[0].retry_after_s == 7200
    until = origins.states["http://a.test"].backoff_until
    assert until is not None
    assert timedelta(seconds=7200) <= until - NOW <= timedelta(seconds=7200 * 1.06)
    again = MemoryWeb(answer)
    _, sink, _ = run(tasks_of(*urls), again, origins=origins)
    assert again.log == []
    assert {r.reason for r in sink.results} == {Reason.ORIGIN_BACKOFF}


def test_the_window_budget_leaves_the_rest_as_coverage_debt() -> None:
    web = MemoryWeb()
    summary, sink, _ = run(tasks_of(*[f"http://a.test/{n}" for n in range(100)]), web, window_budget_s=20.5)
    reasons = Counter(r.reason for r in sink.results)
    assert reasons[Reason.OK] == 20  # robots.txt took the first second
    assert reasons[Reason.WINDOW_BUDGET] == 80
    assert summary.deferred == 80
    assert web.closest() >= 1.0 - 1e-9
    assert summary.seconds < 22


def test_a_dead_host_is_not_hammered() -> None:
    class Dead(MemoryWeb):
        async def exchange(self, admission, request: Request, before_send) -> Response:  # type: ignore[no-untyped-def]
            await before_send()
            self.log.append((trio.current_time(), admission.target.url))
            raise ExchangeFailed("connect", Reason.CONNECT_FAILED, "refused")

    web = Dead()
    _, sink, _ = run(tasks_of(*[f"http://a.test/{n}" for n in range(500)]), web)
    assert len(web.log) == 3  # robots.txt, three attempts
    assert {r.reason for r in sink.results} == {Reason.CONNECT_FAILED}
    assert len(sink.by_key) == 500


def test_a_robots_that_fails_once_is_asked_again_and_the_last_good_copy_stands_in() -> None:
    def answer(url: str, n: int) -> Response:
        if "robots" in url:
            return (
                page(500, b"") if n == 0 else page(200, b"User-agent: *\nDisallow: /no\n", cache_control="max-age=300")
            )
        return page()

    web = MemoryWeb(answer)
    _, sink, origins = run(tasks_of("http://a.test/1", "http://a.test/no"), web)
    assert [sink.by_key[n].reason for n in range(2)] == [Reason.OK, Reason.ROBOTS_DENIED]
    assert web.asked["http://a.test/robots.txt"] == 2
    # An hour later it is down: the copy of an hour ago is obeyed, without asking twice.
    origins.robots["http://a.test"].expires_at = NOW - timedelta(minutes=50)
    origins.robots["http://a.test"].last_good_at = NOW - timedelta(hours=1)
    down = MemoryWeb(lambda url, n: page(503, b"") if "robots" in url else page())
    _, sink, _ = run(tasks_of("http://a.test/1", "http://a.test/no"), down, origins=origins)
    assert [sink.by_key[n].reason for n in range(2)] == [Reason.OK, Reason.ROBOTS_DENIED]
    assert down.asked["http://a.test/robots.txt"] == 1


def test_robots_that_stay_down_block_every_page_with_the_same_reason() -> None:
    for status, retry_after in ((500, None), (503, None), (503, "7200"), (429, "7200")):
        headers = {} if retry_after is None else {"retry_after": retry_after}
        web = MemoryWeb(lambda url, n, s=status, h=headers: page(s, b"", **h) if "robots" in url else page())
        _, sink, _ = run(tasks_of(*[f"http://a.test/{n}" for n in range(5)]), web)
        assert {r.reason for r in sink.results} == {Reason.ROBOTS_UNREACHABLE}
        assert all("robots" in url for _, url in web.log)


def test_robots_denied_pages_cost_no_time() -> None:
    web = MemoryWeb(lambda url, n: page(200, b"User-agent: *\nDisallow: /no\n") if "robots" in url else page())
    urls = [f"http://a.test/no{n}" for n in range(500)] + ["http://a.test/yes"]
    summary, sink, _ = run(tasks_of(*urls), web)
    assert Counter(r.reason for r in sink.results) == {Reason.ROBOTS_DENIED: 500, Reason.OK: 1}
    assert [url for _, url in web.log] == ["http://a.test/robots.txt", "http://a.test/yes"]
    assert summary.seconds < 3


def test_priority_decides_what_fits_into_the_window() -> None:
    web = MemoryWeb()
    tasks = [FetchTask(n, f"http://a.test/{n}", priority=10 if n == 50 else 0) for n in range(60)]
    run(tasks, web, window_budget_s=3.5)
    assert [url for _, url in web.log][:2] == ["http://a.test/robots.txt", "http://a.test/50"]


def test_a_foreign_hop_takes_its_slot_from_the_ledger() -> None:
    def answer(url: str, n: int) -> Response:
        return page(302, b"", location="http://foreign.test/x") if "a.test" in url and "robots" not in url else page()

    origins = MemoryOrigins()
    origins.foreign["http://foreign.test"] = NOW + timedelta(seconds=25)
    web = MemoryWeb(answer)
    _, sink, _ = run(tasks_of("http://a.test/1"), web, origins=origins)
    assert sink.by_key[0].final_url == "http://foreign.test/x"
    first_foreign = min(at for at, url in web.log if "foreign" in url)
    hop = next(at for at, url in web.log if url == "http://a.test/1") + 0.2
    assert first_foreign >= hop + 25 - 1e-6
    assert origins.foreign["http://foreign.test"] > NOW + timedelta(seconds=25)


def test_robots_that_change_while_a_page_is_queued_are_obeyed() -> None:
    """Expired rules are asked for again before the next request, and the page is judged by the new version."""
    clock = {"at": NOW}

    class Moving:
        def now(self) -> datetime:
            return clock["at"]

    def answer(url: str, n: int) -> Response:
        if "robots" in url:
            rules = b"User-agent: *\nDisallow:\n" if n == 0 else b"User-agent: *\nDisallow: /late\n"
            return page(200, rules, cache_control="max-age=600")
        clock["at"] += timedelta(seconds=700)
        return page()

    sink, web = MemorySink(), MemoryWeb(answer)
    crawl = Crawl(
        [FetchTask(0, "http://a.test/early", priority=1), FetchTask(1, "http://a.test/late")],
        settings=CrawlSettings(test_hosts=TEST_HOSTS),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=Moving(),
        client=web,
        blocking=inline,
    )
    trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert sink.by_key[0].reason is Reason.OK
    assert sink.by_key[1].reason is Reason.ROBOTS_DENIED
    assert sink.by_key[0].robots_version != sink.by_key[1].robots_version
    assert [url.rsplit("/", 1)[1] for _, url in web.log] == ["robots.txt", "early", "robots.txt"]


def changes_while_connecting(change: Callable[[Crawl], None]) -> tuple[MemoryWeb, MemorySink]:
    """A page is asked; while its connection is being made, something changes."""
    sink = MemorySink()

    class SlowConnect(MemoryWeb):
        crawl: Crawl

        async def exchange(self, admission, request, before_send) -> Response:  # type: ignore[no-untyped-def]
            if admission.target.path != "/robots.txt":
                change(self.crawl)
            return await super().exchange(admission, request, before_send)

    web = SlowConnect()
    web.crawl = Crawl(
        tasks_of("http://a.test/x"),
        settings=CrawlSettings(test_hosts=TEST_HOSTS),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=FixedClock(NOW),
        client=web,
        blocking=inline,
    )
    trio.run(web.crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return web, sink


def test_robots_denied_between_the_verdict_and_the_request_sends_nothing() -> None:
    def deny(crawl: Crawl) -> None:
        crawl.origins.robots.answered("http://a.test", 200, b"User-agent: *\nDisallow: /\n", None, NOW)

    web, sink = changes_while_connecting(deny)
    assert [url for _, url in web.log] == ["http://a.test/robots.txt"]
    assert sink.by_key[0].reason is Reason.ROBOTS_DENIED


def test_suppressed_between_the_gate_and_the_request_sends_nothing() -> None:
    web, sink = changes_while_connecting(
        lambda crawl: crawl.origins._suppress(["http://a.test"], {"http://a.test"}, set())
    )
    assert [url for _, url in web.log] == ["http://a.test/robots.txt"]
    assert sink.by_key[0].reason is Reason.SUPPRESSED


def prior(url: str, body: bytes = PAGE, key: str = "k") -> Prior:
    import hashlib

    return Prior(hashlib.sha256(body).digest(), key, url, "text/html", '"v1"')


class Validators(MemoryWeb):
    """Remembers which requests were conditional; 304 for those when `honest`."""

    def __init__(self, honest: bool = True) -> None:
        super().__init__()
        self.conditional: list[bool] = []
        self._honest = honest

    async def exchange(self, admission, request: Request, before_send) -> Response:  # type: ignore[no-untyped-def]
        response = await super().exchange(admission, request, before_send)
        if admission.target.path == "/robots.txt":
            return response
        asked = any(name == "If-None-Match" for name, _ in request.headers)
        self.conditional.append(asked)
        return page(304, b"", etag='"v1"') if asked and self._honest else page(200, etag='"v1"')


def test_conditional_only_where_the_snapshot_is_really_there() -> None:
    url = "http://a.test/1"
    web = Validators()
    _, sink, _ = run([FetchTask(0, url, prior=prior(url))], web, snapshots=MemorySnapshots())
    assert web.conditional == [False]
    assert sink.by_key[0].outcome is Outcome.FETCHED
    web = Validators()
    summary, sink, _ = run([FetchTask(0, url, prior=prior(url))], web, snapshots=MemorySnapshots(["k"]))
    assert web.conditional == [True]
    result = sink.by_key[0]
    assert (result.outcome, result.validation_method, result.object_key, result.body) == (
        Outcome.NOT_MODIFIED,
        "not_modified",
        "k",
        None,
    )
    assert result.content_hash == prior(url).content_hash
    assert summary.not_modified == 1


def test_validators_belong_to_the_document_they_came_with() -> None:
    web = Validators()
    run([FetchTask(0, "http://a.test/1", prior=prior("http://a.test/other"))], web, snapshots=MemorySnapshots(["k"]))
    assert web.conditional == [False]


def test_a_304_whose_snapshot_has_gone_is_asked_once_more_without_validators() -> None:
    url = "http://a.test/1"

    class Vanishing(MemorySnapshots):
        def is_available(self, object_keys):  # type: ignore[no-untyped-def]
            found = super().is_available(object_keys)
            self.keys.clear()
            return found

    web = Validators()
    _, sink, origins = run([FetchTask(0, url, prior=prior(url))], web, snapshots=Vanishing(["k"]))
    assert web.conditional == [True, False]
    assert sink.by_key[0].outcome is Outcome.FETCHED
    assert origins.states["http://a.test"].validators_lied == 1


def test_an_origin_whose_validators_lie_is_not_sent_any_more() -> None:
    urls = [f"http://a.test/{n}" for n in range(12)]
    web = Validators(honest=False)
    tasks = [FetchTask(n, url, prior=prior(url)) for n, url in enumerate(urls)]
    _, _, origins = run(tasks, web, snapshots=MemorySnapshots(["k"]))
    assert web.conditional == [True] * 5 + [False] * 7
    state = origins.states["http://a.test"]
    assert (state.validators_sent, state.validators_lied) == (5, 5)


def test_a_cut_body_keeps_no_validators() -> None:
    """Else a 304 in the next window would pass off half a page as a whole one."""

    def answer(url: str, n: int) -> Response:
        response = page(200, etag='"v1"', last_modified="Tue, 01 Dec 2026 10:00:00 GMT")
        response.truncated = url.endswith("/cut")
        return response

    _, sink, _ = run(tasks_of("http://a.test/cut", "http://a.test/whole"), MemoryWeb(answer))
    assert sink.by_key[0].reason is Reason.BODY_TRUNCATED
    assert (sink.by_key[0].etag, sink.by_key[0].last_modified) == (None, None)
    assert sink.by_key[1].etag == '"v1"'


def test_stop_commits_what_is_complete_and_leaves_the_rest() -> None:
    stop = Stop()

    def answer(url: str, n: int) -> Response:
        if url.endswith("/4"):
            stop.request("test")
        return page()

    web = MemoryWeb(answer)
    summary, sink, origins = run(tasks_of(*[f"http://a.test/{n}" for n in range(50)]), web, stop=stop)
    assert summary.stopped == "test"
    assert sorted(sink.by_key) == [0, 1, 2, 3, 4]
    assert summary.unfinished == 45
    assert origins.states["http://a.test"].next_eligible_at is not None
    done = set(sink.by_key)
    rest = [task for task in tasks_of(*[f"http://a.test/{n}" for n in range(50)]) if task.key not in done]
    web = MemoryWeb()
    _, sink, _ = run(rest, web, origins=origins)
    assert len(sink.by_key) == 45
    assert "http://a.test/robots.txt" not in web.asked  # remembered


def test_what_the_sink_raises_ends_the_crawl_and_nothing_is_committed_after_it() -> None:
    class Stale(MemorySink):
        calls = 0

        def commit(self, results):  # type: ignore[no-untyped-def]
            self.calls += 1
            if self.calls == 2:
                raise RuntimeError("fence 7 is stale")
            super().commit(results)

    sink = Stale()
    crawl = Crawl(
        tasks_of(*[f"http://h{n}.test/" for n in range(100)]),
        settings=CrawlSettings(test_hosts=TEST_HOSTS, commit_batch=10, max_in_flight=50),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(),
        clock=FixedClock(NOW),
        client=MemoryWeb(),
        blocking=inline,
    )
    with pytest.raises(RuntimeError, match="fence 7 is stale"):
        trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (sink.calls, len(sink.batches)) == (2, 1)


@pytest.mark.parametrize("port", ["load", "load_robots", "suppressed", "take_foreign_slot", "foreign_slots", "save"])
def test_what_the_book_raises_ends_the_crawl_and_is_no_pages_outcome(port: str) -> None:
    """MySQL goes away in the middle: pages that were being fetched stay without an outcome and are asked again."""

    class Book(MemoryOrigins):
        is_away = False

        def __getattribute__(self, name: str) -> Any:
            if name == port and object.__getattribute__(self, "is_away"):

                def away(*_: object) -> None:
                    raise ConnectionError("MySQL does not answer")

                return away
            return super().__getattribute__(name)

    book = Book()

    def answer(url: str, n: int) -> Response:
        if url.endswith("/9"):
            book.is_away = True
            return page(302, b"", location="http://far.test/")
        if url == "http://far.test/robots.txt":
            return page(302, b"", location="http://farther.test/robots.txt")
        return page(200, b"") if "robots" in url else page()

    sink = MemorySink()
    crawl = Crawl(
        tasks_of(*[f"http://own.test/{n}" for n in range(20)]),
        settings=CrawlSettings(test_hosts=TEST_HOSTS, commit_batch=1, read_ahead=5),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=book,
        clock=TrioClock(),
        client=MemoryWeb(answer),
        blocking=inline,
        owns=lambda origin: "own" in origin,
    )
    with pytest.raises(ConnectionError, match="MySQL does not answer"):
        trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert {r.reason for r in sink.results} == {Reason.OK}
    assert set(range(8)) <= set(sink.by_key) < set(range(20))
    assert crawl.context.summary.internal_errors == 0


def test_a_stop_while_a_store_is_away_is_a_stop() -> None:
    """Raised as the store's error, a run that somebody ended would be tried again."""
    stop = Stop()

    class Away(MemorySink):
        def commit(self, results: Sequence[FetchResult]) -> None:
            if self.batches:
                stop.request("SIGTERM")
                raise ConnectionError("MySQL does not answer")
            super().commit(results)

    sink, book = Away(), MemoryOrigins()
    crawl = Crawl(
        tasks_of(*[f"http://a.test/{n}" for n in range(9)]),
        settings=CrawlSettings(test_hosts=TEST_HOSTS, commit_batch=3),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=book,
        clock=TrioClock(),
        client=MemoryWeb(),
        blocking=inline,
        stop=stop,
    )
    summary = trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert summary.stopped == "SIGTERM"
    assert summary.committed == len(sink.by_key) < summary.results
    assert str(summary.error) == "MySQL does not answer"
    with_last = book.states["http://a.test"].next_eligible_at
    assert with_last is not None
    assert with_last >= NOW + timedelta(seconds=len(sink.by_key) + 1), (
        "the clock of what was asked is kept all the same"
    )


def test_an_internal_error_at_one_page_is_one_outcome() -> None:
    class Broken(MemoryWeb):
        async def exchange(self, admission, request, before_send) -> Response:  # type: ignore[no-untyped-def]
            if admission.target.path == "/bad":
                raise KeyError("bug")
            return await super().exchange(admission, request, before_send)

    summary, sink, _ = run(tasks_of("http://a.test/bad", "http://a.test/good"), Broken())
    assert summary.internal_errors == 1
    assert sink.by_key[0].outcome is Outcome.FAILED
    assert sink.by_key[1].outcome is Outcome.FETCHED


def test_suppression_outranks_everything_also_after_a_redirect() -> None:
    def answer(url: str, n: int) -> Response:
        return page(302, b"", location="http://optout.test/x") if "a.test" in url and "robots" not in url else page()

    web = MemoryWeb(answer)
    origins = MemoryOrigins(suppressed=["optout.test"])
    _, sink, _ = run(tasks_of("http://optout.test/1", "http://a.test/1"), web, origins=origins)
    assert {r.reason for r in sink.results} == {Reason.SUPPRESSED}
    assert [hop.gate for hop in sink.by_key[1].hops] == ["response", "scope"]
    assert all("optout" not in url for _, url in web.log)


REDIRECTS = {
    # path of the first request -> what each URL answers (Location, Set-Cookie), and how the visit ends
    "another spelling of the first": (
        {"http://a.test/x": ("http://a.test/y", None), "http://a.test/y": ("http://A.test.:80/%78#top", None)},
        Reason.REDIRECT_LOOP,
    ),
    "itself, percent-encoded": ({"http://a.test/x": ("/%78", None)}, Reason.REDIRECT_LOOP),
    "itself, setting a cookie": ({"http://a.test/x": ("/x", "seen=1")}, Reason.OK),
    "itself, setting the same cookie for ever": ({"http://a.test/x": ("/x", "seen=1; always")}, Reason.REDIRECT_LOOP),
    "https": ({"http://a.test/x": ("https://a.test/x", None)}, Reason.OK),
    "https and back": (
        {"http://a.test/x": ("https://a.test/x", None), "https://a.test/x": ("http://a.test/x", None)},
        Reason.REDIRECT_LOOP,
    ),
    "the slash is another URL": ({"http://a.test/x": ("/x/", None)}, Reason.OK),
    "an encoded slash is another URL": ({"http://a.test/x": ("/%2Fx", None)}, Reason.OK),
}


@pytest.mark.parametrize(("answers", "reason"), REDIRECTS.values(), ids=REDIRECTS)
def test_a_loop_is_a_repeated_identity_with_the_same_cookies(
    answers: dict[str, tuple[str, str | None]], reason: Reason
) -> None:
    class Cookies(MemoryWeb):
        async def exchange(self, admission, request: Request, before_send) -> Response:  # type: ignore[no-untyped-def]
            response = await super().exchange(admission, request, before_send)
            location, cookie = answers.get(admission.target.url, (None, None))
            knows = any(name == "Cookie" for name, _ in request.headers)
            if location is None or (knows and cookie is not None and "always" not in cookie):
                return response
            return page(302, b"", location=location, **({} if cookie is None else {"set_cookie": cookie}))

    web = Cookies()
    _, sink, _ = run(tasks_of("http://a.test/x"), web)
    assert sink.by_key[0].reason is reason
    assert len([url for _, url in web.log if "robots" not in url]) <= 3


def test_a_429_of_robots_backs_off_the_origin_and_the_file_is_asked_again() -> None:
    """RFC 9309 would let a 4xx pass for no rules; 429 is no permission."""

    def answer(url: str, n: int, wait: str) -> Response:
        if "robots" not in url:
            return page()
        rules = page(200, b"User-agent: *\nDisallow: /no\n")
        return page(429, b"", retry_after=wait) if n == 0 else rules

    web = MemoryWeb(lambda url, n: answer(url, n, "40"))
    _, sink, origins = run(tasks_of("http://a.test/1", "http://a.test/no"), web)
    assert [sink.by_key[n].reason for n in range(2)] == [Reason.OK, Reason.ROBOTS_DENIED]
    assert [url.rsplit("/", 1)[1] for _, url in web.log] == ["robots.txt", "robots.txt", "1"]
    assert web.log[1][0] >= web.log[0][0] + 40
    # Longer than this crawl waits: nothing is asked now; the next one asks the file first, once the time is over.
    web = MemoryWeb(lambda url, n: answer(url, n, "90"))
    _, sink, origins = run(tasks_of("http://a.test/1"), web)
    assert [url for _, url in web.log] == ["http://a.test/robots.txt"]
    assert sink.by_key[0].reason is Reason.ROBOTS_UNREACHABLE
    until = origins.states["http://a.test"].backoff_until
    assert until is not None
    assert timedelta(seconds=90) <= until - NOW <= timedelta(seconds=96)
    assert origins.robots["http://a.test"].expires_at <= until
    _, sink, _ = run(tasks_of("http://a.test/1"), web, origins=origins, now=NOW + timedelta(seconds=100))
    assert sink.by_key[0].reason is Reason.OK
    assert web.asked["http://a.test/robots.txt"] == 2


def test_a_back_off_is_saved_at_once() -> None:
    """Not two seconds later: a process that is killed in between would leave a successor who asks again."""

    class Timed(MemoryOrigins):
        def save(self, states):  # type: ignore[no-untyped-def]
            super().save(states)
            saved.extend((trio.current_time(), state.backoff_until) for state in states)

    saved: list[tuple[float, datetime | None]] = []
    web = MemoryWeb(lambda url, n: page(429, retry_after="50") if url.endswith("/1") and n == 0 else page())
    run(tasks_of("http://a.test/1", "http://a.test/2"), web, origins=Timed(), commit_interval_s=30.0)
    told = next(at for at, url in web.log if url.endswith("/1")) + 0.2
    assert min(at for at, until in saved if until is not None) == pytest.approx(told, abs=1e-6)


def test_memory_holds_what_is_read_ahead_and_the_origins_that_are_being_asked() -> None:
    """However many pages and hosts there are, and though the tasks never end until they are asked for."""
    made = 0
    most = {"waiting": 0, "origins": 0, "robots": 0, "read": 0}

    def tasks() -> Iterator[FetchTask]:
        nonlocal made
        for made in range(1, 3001):
            yield FetchTask(made, f"http://h{made // 2}.test/{made}")

    class Watching(MemorySink):
        def commit(self, results):  # type: ignore[no-untyped-def]
            super().commit(results)
            most["waiting"] = max(most["waiting"], len(crawl.context.frontier))
            most["origins"] = max(most["origins"], len(crawl.origins.states))
            most["robots"] = max(most["robots"], len(crawl.origins.robots))
            most["read"] = max(most["read"], made - len(self.by_key))

    sink, book = Watching(), MemoryOrigins()
    crawl = Crawl(
        tasks(),
        settings=CrawlSettings(test_hosts=TEST_HOSTS, origin_gap_s=0.01, max_in_flight=50, read_ahead=200),
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=book,
        clock=FixedClock(NOW),
        client=MemoryWeb(latency_s=0.01),
        blocking=inline,
    )
    summary = trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert (summary.tasks, summary.results, summary.origins) == (3000, 3000, 1501)
    assert {result.reason for result in sink.results} == {Reason.OK}
    assert most["waiting"] <= 400
    assert most["origins"] <= 600
    assert most["robots"] <= 600
    assert most["read"] <= 1000
    assert len(book.states) == 1501


class TrioClock:
    """The flow's clock on trio's virtual time."""

    def now(self) -> datetime:
        return NOW + timedelta(seconds=trio.current_time())


@pytest.mark.parametrize(("gap_s", "connect_s"), [(1.0, 0.0), (1.0, 1.5), (7.0, 0.3)])
def test_two_shards_on_one_book_keep_the_gap_where_one_hops_to_the_others_host(gap_s: float, connect_s: float) -> None:
    """The owner asks its host all the time; every page of the other shard redirects there, some of them twice."""

    def answer(url: str, n: int) -> Response:
        if "robots" in url or ("own.test" in url and "/twice" not in url):
            return page()
        if "/twice" in url:
            return page(302, b"", location="http://own.test/end")
        return page(302, b"", location=f"http://own.test/{'twice' if url.endswith(('3', '6')) else 'hop'}{url[-1]}")

    web, book = MemoryWeb(answer, connect_s=connect_s), MemoryOrigins()
    sinks = {"own": MemorySink(), "far": MemorySink()}

    def crawl(name: str, urls: list[str]) -> Crawl:
        return Crawl(
            tasks_of(*urls),
            settings=CrawlSettings(test_hosts=TEST_HOSTS, origin_gap_s=gap_s),
            sink=sinks[name],
            snapshots=MemorySnapshots(),
            origins=book,
            clock=TrioClock(),
            client=web,
            rng=random.Random(1),
            blocking=inline,
            owns=lambda origin: name in origin,
        )

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crawl("own", [f"http://own.test/page/{n}" for n in range(90)]).run)
            await trio.sleep(3.3)
            nursery.start_soon(crawl("far", [f"http://far{n}.test/{n}" for n in range(8)]).run)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert web.closest() >= gap_s - 1e-9
    assert len(sinks["own"].by_key) == 90
    assert len(sinks["far"].by_key) == 8
    assert {r.reason for sink in sinks.values() for r in sink.results} == {Reason.OK}
    assert len([url for _, url in web.log if "/hop" in url or "/twice" in url or "/end" in url]) == 10
    assert len(web.starts["http://own.test"]) >= 100


def test_a_slot_at_another_shards_host_is_not_used_late() -> None:
    """The connection took longer than the slot lasts: another one is taken, and after some the window has no time."""

    class Slow(MemoryWeb):
        async def exchange(self, admission, request, before_send) -> Response:  # type: ignore[no-untyped-def]
            if admission.target.host == "far.test":
                await trio.sleep(9.0)
            return await super().exchange(admission, request, before_send)

    web = Slow(lambda url, n: page(302, b"", location="http://far.test/x") if url.endswith("a.test/1") else page())
    origins = MemoryOrigins()
    origins.save_robots([RobotsRecord("http://far.test", "v", "unavailable", b"", NOW, NOW + timedelta(hours=1))])
    _, sink, _ = run(tasks_of("http://a.test/1"), web, origins=origins)
    assert (sink.by_key[0].outcome, sink.by_key[0].reason) == (Outcome.DEFERRED, Reason.ORIGIN_BACKOFF)
    assert web.starts["http://far.test"] == []
