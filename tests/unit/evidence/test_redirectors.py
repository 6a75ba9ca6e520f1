"""Which links of a page may be its own redirectors, where they must lead, and what an answer proves."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.matching import WindowBuilder, filled
from transforms.redirectors import (
    Candidate,
    candidates,
    goals,
    is_conclusive,
    is_harmless,
    own_redirectors,
    readable,
)
from transforms.schemas import EXPECTED_EDGES, LINK_MANIFESTS, TARGET_RULES

PAGE, TARGET = "https://blog.deals.example/post", "https://www.shop.example/saws"


def frame(table: pa.Table) -> pl.DataFrame:
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


def chosen(window: WindowBuilder, proven: set[tuple[int, str]] = frozenset()) -> list[Candidate]:  # type: ignore[assignment]
    """What is asked for the window's edges, none of which has a direct link."""
    edges, rules = frame(EXPECTED_EDGES.table(window.edges)), frame(TARGET_RULES.table(window.rules))
    homes = edges.select("source_url_id", site="source_registrable_domain", document_url="source_url").unique(
        "source_url_id"
    )
    hosts = pl.concat([edges["target_url"].str.extract(r"//([^/]+)", 1), rules["host"]])
    found = own_redirectors(frame(filled(LINK_MANIFESTS, window.links)), homes, hosts)
    return candidates(found, edges, rules, set(proven))


def one(href: str, **edge: Any) -> Candidate | None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET, **edge)
    window.link(PAGE, href)
    found = chosen(window)
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("href", "why"),
    [
        ("https://deals.example/out?url=https%3A%2F%2Fwww.shop.example%2Fsaws", "named"),
        ("https://deals.example/out?url=https%253A%252F%252Fshop.example%252Fsaws", "named"),  # encoded twice
        ("https://go.deals.example/?u=shop.example/saws&id=3", "named"),  # a host of the same registrable domain
        ("https://deals.example/x/aHR0cHM6Ly93d3cuc2hvcC5leGFtcGxlL3Nhd3M=", "named"),  # base64
        ("https://deals.example/x/aHR0cHM6Ly93d3cuc2hvcC5leGFtcGxlL3Nhd3M", "named"),  # without its padding
        ("https://deals.example/to/shop.example", "named"),
        ("https://deals.example/go/acme-saws", "shape"),
        ("https://deals.example/out.php?id=17", "shape"),
        ("https://deals.example/en/redirect/17", "shape"),
        ("https://deals.example/r?17", "shape"),
        ("https://deals.example/go/best-order-book", "shape"),  # a word within a slug does nothing
        # not a redirector of this page
        ("https://deals.example/go/", None),
        ("https://deals.example/go", None),
        ("https://deals.example/category/saws", None),
        ("https://deals.example/gogo/saws", None),
        ("https://deals.example/about-myshop.example.html", None),  # the end of a longer label
        ("https://deals.example/about-shop.example.org", None),
        ("https://other.example/go/acme-saws", None),  # somebody else's redirector
        ("https://other.example/out?url=https://www.shop.example/saws", None),
        # whatever does something
        ("https://deals.example/go/logout", None),
        ("https://deals.example/go/delete-account", None),
        ("https://deals.example/go/vote.php?id=3", None),
        ("https://deals.example/r/gardening/comments/3/title", None),  # deeper than any redirector
        ("https://deals.example/cart/add?url=https://www.shop.example/saws", None),
        ("https://deals.example/out?do=delete&url=https://www.shop.example/saws", None),
        ("https://deals.example/link/vote?id=3", None),
        ("mailto:go@deals.example", None),
    ],
)
def test_which_links_are_worth_a_request(href: str, why: str | None) -> None:
    found = one(href)
    assert (found.why if found else None) == why
    if found is not None:
        assert found.edges == (5001,)
        assert found.waiting_edges == ((5001,) if why == "named" else ()), "a guess by shape holds back no miss"


def test_an_edge_that_was_last_found_through_a_redirector_waits_for_each_of_its_redirectors() -> None:
    found = one("https://deals.example/go/acme-saws", was_redirected=True)
    assert found is not None
    assert found.waiting_edges == (5001,)


def test_the_likeliest_come_first_and_each_link_once() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.edge(PAGE, "https://www.shop.example/rakes")
    for href in ("/go/1", "/go/2", "/x?u=shop.example", "/x?u=shop.example/saws", "/go/2", "/go/3"):
        window.link(PAGE, f"https://deals.example{href}")
    found = chosen(window, {(1, "https://deals.example/go/3")})
    assert [(each.link_identity.removeprefix("https://deals.example"), each.why) for each in found] == [
        ("/go/3", "proven"), ("/x?u=shop.example/saws", "named"), ("/x?u=shop.example", "named"), ("/go/1", "shape"),
        ("/go/2", "shape"),
    ]  # fmt: skip
    named = next(each for each in found if each.link_identity.endswith("saws"))
    assert named.waiting_edges == (5001, 5002), "it names the host of both"


def test_an_edge_to_any_target_of_its_project_is_named_by_the_projects_hosts() -> None:
    window = WindowBuilder()
    window.edge(PAGE, "https://shop.example/", any_target=True)
    window.rule("domain", "shop.example")
    window.link(PAGE, "https://deals.example/out?to=http://de.shop.example/anything")
    (found,) = chosen(window)
    assert (found.why, found.waiting_edges) == ("named", (5001,))
    goal = goals(frame(EXPECTED_EDGES.table(window.edges)), frame(TARGET_RULES.table(window.rules)))[1]
    assert goal("http://de.shop.example/anything")
    assert not goal("http://shop.example.org/")


@pytest.mark.parametrize(
    ("strict", "url", "reached"),
    [
        (False, "https://www.shop.example/saws", True),
        (False, "http://shop.example/saws/?utm_source=deals", True),
        (False, "https://www.shop.example/saws2", False),
        (False, "https://tracker.example/?u=https://www.shop.example/saws", False),
        (False, "javascript:alert(1)", False),
        (True, "https://www.shop.example/saws", True),
        (True, "http://www.shop.example/saws", False),
    ],
)
def test_the_goal_is_the_target_as_tolerantly_as_for_a_direct_link(strict: bool, url: str, reached: bool) -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.rule("domain", "shop.example", is_strict=strict)
    goal = goals(frame(EXPECTED_EDGES.table(window.edges)), frame(TARGET_RULES.table(window.rules)))[1]
    assert goal(url) is reached


@pytest.mark.parametrize(
    ("outcome", "reason", "conclusive"),
    [
        ("fetched", "ok", True), ("fetched", "body_truncated", True), ("gone", "http_404", True),
        ("failed", "unsupported_type", True), ("failed", "empty_body", True), ("blocked", "robots_denied", False),
        ("blocked", "http_403", False), ("failed", "http_5xx", False), ("failed", "too_many_redirects", False),
        ("failed", "redirect_loop", False), ("deferred", "window_budget", False), ("failed", "dns_nxdomain", False),
    ],
)  # fmt: skip
def test_only_an_answer_is_conclusive(outcome: str, reason: str, conclusive: bool) -> None:
    assert is_conclusive(outcome, reason) is conclusive


@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=60), base=st.binary(max_size=30))
def test_nothing_on_a_page_breaks_the_reading(text: str, base: bytes) -> None:
    assert isinstance(readable(f"/{text}?u=%aHR0cDov{base.hex()}%"), str)
    assert isinstance(is_harmless(f"http://a.example/{text}"), bool)


ROW = {"source_url_id": 1, "link_identity": "https://deals.example/go/1"}


@pytest.mark.parametrize(
    ("redirect", "verdict"),
    [
        (None, ("missing", "link_absent", True)),
        ({"final_identity": TARGET, "is_conclusive": True}, ("found", "link_found_via_redirect", True)),
        ({"final_identity": TARGET, "is_conclusive": True, "waiting_edges": [5001]},
         ("found", "link_found_via_redirect", True)),
        ({"is_conclusive": True, "waiting_edges": [5001]}, ("missing", "link_absent", True)),
        ({"is_conclusive": False, "waiting_edges": [5001]}, ("none", "redirect_unchecked", False)),
        ({"is_conclusive": False, "waiting_edges": []}, ("missing", "link_absent", True)),
        ({"is_conclusive": False, "waiting_edges": [5999]}, ("missing", "link_absent", True)),
    ],
)  # fmt: skip
def test_what_a_check_means_for_the_evidence(redirect: dict[str, Any] | None, verdict: tuple[str, str, bool]) -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, "https://deals.example/go/1")
    if redirect is not None:
        window.redirects.append({**ROW, **redirect})
    (row,) = window.match().observations.to_pylist()
    assert (row["evidence"], row["evidence_reason"], row["evidence_complete"]) == verdict


def test_a_page_that_is_gone_is_gone_whatever_its_redirectors_do() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.fetch(PAGE, reason="http_404", outcome="gone")
    window.redirects.append({**ROW, "is_conclusive": False, "waiting_edges": [5001]})
    (row,) = window.match().observations.to_pylist()
    assert (row["evidence"], row["evidence_reason"]) == ("missing", "http_404")
