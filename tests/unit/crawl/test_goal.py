"""A task with a goal: redirects are followed through every gate until one leads there, and the goal itself is not asked."""

from __future__ import annotations

from crawl.http import Response
from crawl.memory import MemoryOrigins
from crawl.ports import FetchTask
from tests.unit.crawl.test_polite_engine import run
from tests.unit.crawl.web import MemoryWeb, page
from transforms.reasons import Outcome, Reason

GOAL = "http://goal.test/page"


def web(hops: dict[str, Response]) -> MemoryWeb:
    return MemoryWeb(lambda url, n: hops.get(url, page(404)))


def task(url: str = "http://a.test/go/1") -> FetchTask:
    return FetchTask(7, url, "a.test", goal=lambda reached: reached == GOAL)


def moved(to: str, status: int = 302) -> Response:
    return page(status, location=to)


def test_a_redirect_to_the_goal_ends_there_unasked() -> None:
    asked = web({"http://a.test/go/1": moved("/go/2", 301), "http://a.test/go/2": moved(GOAL, 307)})
    _, sink, _ = run([task()], asked)
    result = sink.by_key[7]
    assert (result.outcome, result.reason, result.final_url, result.http_status) == (
        Outcome.FETCHED, Reason.OK, GOAL, 307,
    )  # fmt: skip
    assert (result.body, result.content_hash) == (None, None)
    assert [(hop.url, hop.status) for hop in result.hops] == [("http://a.test/go/1", 301), ("http://a.test/go/2", 307)]
    assert [url for _, url in asked.log] == ["http://a.test/robots.txt", "http://a.test/go/1", "http://a.test/go/2"]


def test_the_goal_counts_as_a_hop_and_five_are_followed() -> None:
    chain = {f"http://a.test/go/{n}": moved(f"/go/{n + 1}") for n in range(1, 5)} | {"http://a.test/go/5": moved(GOAL)}
    assert run([task()], web(chain))[1].by_key[7].final_url == GOAL
    longer = chain | {"http://a.test/go/5": moved("/go/6"), "http://a.test/go/6": moved(GOAL)}
    assert run([task()], web(longer))[1].by_key[7].reason is Reason.TOO_MANY_REDIRECTS


def test_a_page_that_answers_is_no_goal() -> None:
    result = run([task()], web({"http://a.test/go/1": moved("http://b.test/"), "http://b.test/": page()}))[1].by_key[7]
    assert (result.outcome, result.final_url) == (Outcome.FETCHED, "http://b.test/")


def test_every_gate_holds_on_the_way() -> None:
    hops = {"http://a.test/go/1": moved("http://b.test/x"), "http://b.test/x": moved(GOAL)}
    denied = hops | {"http://b.test/robots.txt": page(200, b"User-agent: *\nDisallow: /x\n")}
    assert run([task()], web(denied))[1].by_key[7].reason is Reason.ROBOTS_DENIED
    suppressed = MemoryOrigins(suppressed=["b.test"])
    assert run([task()], web(hops), origins=suppressed)[1].by_key[7].reason is Reason.SUPPRESSED
    inside = web({"http://a.test/go/1": moved("http://169.254.169.254/latest")})
    assert run([task()], inside)[1].by_key[7].reason is Reason.BLOCKED_NETWORK
