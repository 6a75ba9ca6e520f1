"""The twelve invariants of the crawler's reference design (seeds/001, chapter 16), each named.

Those that the database keeps are tested on a real server by the ledger's tests, named where they belong. Here is the
rest.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio

from crawl.config import CrawlSettings
from crawl.egress import CountingNetwork, EgressGate, Resolution
from crawl.engine import Crawl
from crawl.memory import MemoryOrigins, MemorySink, MemorySnapshots
from crawl.politeness import Entry, Frontier, State
from crawl.politeness.frontier import TRANSITIONS
from crawl.ports import FetchTask
from crawl.robots import RobotsBook, parse_robots
from tests.unit.crawl import test_polite_engine as engine
from tests.unit.crawl.test_gate import PRIVATE, PUBLIC, FakeDns, Unreachable
from transforms.clock import WallClock
from transforms.reasons import Reason
from transforms.urls import identify


def test_invariant_01_no_connection_opens_before_every_gate_has_passed() -> None:
    """A refused URL, of any gate, opens zero sockets; redirects: tests/service/crawl/test_outcomes.py."""
    network = CountingNetwork(Unreachable())
    dns = FakeDns(private_example=[Resolution((PRIVATE,))], optout_example=[Resolution((PUBLIC,))])
    settings = CrawlSettings()
    sink = MemorySink()
    urls = [
        "ftp://private.example/",
        "http://private.example/",
        "http://optout.example/",
        "http://x.example:22/",
        "http://[::1]/",
    ]
    gate = EgressGate(settings.allowed_ports, resolver=dns, network=network)
    crawl = Crawl(
        [FetchTask(n, url) for n, url in enumerate(urls)],
        settings=settings,
        sink=sink,
        snapshots=MemorySnapshots(),
        origins=MemoryOrigins(suppressed=["optout.example"]),
        clock=WallClock(),
        gate=gate,
    )
    trio.run(crawl.run)
    assert [sink.by_key[n].reason for n in range(5)] == [
        Reason.BAD_SCHEME,
        Reason.BLOCKED_NETWORK,
        Reason.SUPPRESSED,
        Reason.BAD_PORT,
        Reason.BLOCKED_NETWORK,
    ]
    assert network.opened == []


def test_invariant_01_a_suppressed_url_is_refused_before_a_socket_whatever_its_spelling() -> None:
    """As a task and as where a redirect leads; its host's other pages are asked."""
    asked: list[str] = []

    async def serve(stream: trio.SocketStream) -> None:
        head = await stream.receive_some(65536)
        path = head.split(b" ")[1].decode()
        asked.append(path)
        answers = {"/robots.txt": b"HTTP/1.1 404 No\r\n", "/leads": b"HTTP/1.1 302 Found\r\nLocation: /%67one#x\r\n"}
        answer = answers.get(path, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
        body = b"" if path in answers else b"<p>page"
        await stream.send_all(answer + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def main(urls: list[str]) -> tuple[CountingNetwork, list[Reason], list[list[str]]]:
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]
            settings = CrawlSettings(origin_gap_s=0.0, test_hosts={"a.example": f"127.0.0.1:{port}"})
            network, sink = CountingNetwork(), MemorySink()
            crawl = Crawl(
                [FetchTask(n, url) for n, url in enumerate(urls)],
                settings=settings,
                sink=sink,
                snapshots=MemorySnapshots(),
                origins=MemoryOrigins(suppressed=["http://a.example/gone"]),
                clock=WallClock(),
                gate=EgressGate(settings.allowed_ports, network=network, test_hosts=settings.test_hosts),
            )
            await crawl.run()
            nursery.cancel_scope.cancel()
        results = [sink.by_key[n] for n in range(len(urls))]
        return network, [r.reason for r in results], [[hop.gate for hop in r.hops] for r in results]

    network, reasons, hops = trio.run(main, ["http://a.example/gone", "http://A.example:80/x/../g%6Fne#top"])
    assert (reasons, hops) == ([Reason.SUPPRESSED] * 2, [["scope"]] * 2)
    assert (network.opened, asked) == ([], [])
    network, reasons, hops = trio.run(
        main, ["http://a.example/leads", "http://a.example/gone/below", "http://a.example/gone?"]
    )
    assert reasons == [Reason.SUPPRESSED, Reason.OK, Reason.OK]
    assert hops[0] == ["response", "scope"]
    assert sorted(asked) == ["/gone/below", "/gone?", "/leads", "/robots.txt"]
    assert len(network.opened) == 4


def test_invariant_02_request_starts_of_an_origin_keep_the_gap_whatever_the_worker_count() -> None:
    engine.test_whatever_the_worker_count_no_two_starts_are_closer_than_the_gap(50)


def test_invariant_03_a_commit_with_a_stale_fence_changes_nothing() -> None:
    """The crawler's half: after a refusal it commits no more. The store's half:
    tests/service/ledger/test_leases.py::test_fences_hold_whatever_happens."""
    engine.test_what_the_sink_raises_ends_the_crawl_and_nothing_is_committed_after_it()


def test_invariant_04_every_entry_is_in_one_state_and_moves_along_listed_transitions() -> None:
    """The random walk: tests/unit/crawl/test_frontier.py::TestAnything."""
    for old in State:
        for new in State:
            entry: Entry[str] = Entry("http://a:80", "x", state=old)
            if new in TRANSITIONS[old]:
                entry.move(new)
                assert entry.state is new
            else:
                with pytest.raises(ValueError, match="may not go"):
                    entry.move(new)


def test_invariant_06_normalisation_merges_nothing_that_can_be_told_apart() -> None:
    """Invariant 5 (first seen is decided by the unique key alone) is the ledger's:
    tests/service/ledger/test_constraints.py::test_the_ledger_refuses."""
    base = "https://news-a.example.test"
    assert identify("HTTPS://News-A.EXAMPLE.test:443/a/b/../chip-supply#top").identity == f"{base}/a/chip-supply"
    for one, other in [
        ("/Guide/Setup", "/guide/setup"),
        ("/products?id=7", "/products?id=8"),
        ("/a?b=2&a=1", "/a?a=1&b=2"),
        ("/docs", "/docs/"),
        ("/a%2Fb", "/a/b"),
        ("/a", "/a?"),
    ]:
        assert identify(base + one).identity != identify(base + other).identity


def test_invariant_07_robots_longest_match_ties_allow_4xx_unavailable_5xx_unreachable() -> None:
    robots = parse_robots(
        b"User-agent: *\nDisallow: /account/\nDisallow: /cart/\n\n"
        b"User-agent: Atlas-Bot\nDisallow: /account/\nAllow: /account/help/\nDisallow: /search\n",
        "Atlas-Bot",
    )
    verdicts = {
        path: robots.judge(path).allowed
        for path in ("/account/orders", "/account/help/faq", "/products/lamp", "/search?q=lamp")
    }
    assert verdicts == {
        "/account/orders": False,
        "/account/help/faq": True,
        "/products/lamp": True,
        "/search?q=lamp": False,
    }
    assert parse_robots(b"User-agent: *\nDisallow: /x\nAllow: /x", "B").judge("/x").allowed
    book = RobotsBook(CrawlSettings())
    classes = {s: book.answered("o", s, b"", None, engine.NOW).record.status_class for s in (200, 404, 500)}
    assert classes == {200: "ok", 404: "unavailable", 500: "unreachable"}
    assert book.unreachable("o", engine.NOW, Reason.TOTAL_TIMEOUT, "timeout").record.status_class == "unreachable"


def test_invariant_08_no_url_is_ever_discarded_on_a_maybe() -> None:
    """There is no Bloom filter here: what decides is the ledger's unique key, and every task gets a result."""
    web = engine.MemoryWeb()
    _, sink, _ = engine.run(engine.tasks_of("http://a.test/1", "http://a.test/1", "http://a.test/1"), web)
    assert sorted(sink.by_key) == [0, 1, 2]


def test_invariant_10_the_owner_of_an_origin_is_one_and_a_stale_one_is_refused() -> None:
    """Tokens 41 and 42 meet in tests/service/ledger/test_origins.py::test_a_stale_owner_saves_nothing; invariant 9 (an
    outbox row if and only if its state row) in test_crash.py::test_write_back_is_whole_or_not_at_all there. Here: a
    frontier grants an origin's slot to one taker only."""
    frontier: Frontier[str] = Frontier(gap_s=5.0)
    for name in ("U-104", "U-105"):
        frontier.push(Entry("http://news-a:80", name), 0.0)
    taken = [frontier.take(0.0), frontier.take(0.0)]
    assert [grant is not None for grant in taken] == [True, False]


def test_invariant_11_retries_honour_retry_after_and_the_attempt_cap() -> None:
    engine.test_retry_after_backs_off_the_whole_origin_and_is_honoured()
    engine.test_retries_never_exceed_the_attempt_cap()


def test_invariant_12_suppressed_origins_are_never_fetched_also_on_replay() -> None:
    engine.test_suppression_outranks_everything_also_after_a_redirect()
    engine.test_suppression_outranks_everything_also_after_a_redirect()
