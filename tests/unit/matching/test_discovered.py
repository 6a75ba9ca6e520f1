"""Links nobody expected: which of them are new edges, and the observation they get in the same window."""

from __future__ import annotations

import pyarrow as pa

from tests.fixtures.matching import FETCHED, WindowBuilder, by_edge, key16
from transforms.urls import url_hash

PAGE = "https://source.example/post"


def with_ids(discovered: pa.Table, first_id: int = 9001) -> pa.Table:
    """As the ledger registers them."""
    numbers = range(discovered.num_rows)
    return discovered.append_column(
        "backlink_id", pa.array([first_id + n for n in numbers], pa.uint64())
    ).append_column("target_url_id", pa.array([8001 + n for n in numbers], pa.uint64()))


def test_a_new_link_is_described_well_enough_to_be_registered() -> None:
    window = WindowBuilder()
    rule = window.rule("domain", "shop.example")
    window.edge(PAGE, "https://shop.example/known")
    window.page(PAGE).link(PAGE, "https://shop.example/known")
    window.nofollow(PAGE, "https://shop.example/new", "no", placement="footer")
    window.link(PAGE, "https://shop.example/new", "yes")
    window.link(PAGE, "https://stranger.example/")
    (row,) = window.match().discovered.to_pylist()
    assert (row["project_id"], row["tenant_id"], row["crawl_run_id"]) == (key16("p1"), key16("tenant"), key16("run:p1"))
    assert (row["source_url_id"], row["source_url"], row["crawl_page_id"]) == (1, PAGE, 901)
    assert (row["target_url"], row["target_url_hash"]) == (
        "https://shop.example/new",
        url_hash("https://shop.example/new"),
    )
    assert (row["target_host"], row["target_registrable_domain"]) == ("shop.example", "shop.example")
    assert (row["anchor_text"], row["follow"], row["link_count"], row["position"]) == ("yes", "follow", 2, 2)
    assert (row["observed_at"], row["target_rule_ids"]) == (FETCHED, [rule])


def test_what_an_expected_edge_matches_even_tolerantly_is_not_new() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    window.edge(PAGE, "https://shop.example/a")
    window.page(PAGE).link(PAGE, "http://www.shop.example/a/?utm_source=x")
    assert window.match().discovered.num_rows == 0


def test_only_projects_that_have_the_source_get_it() -> None:
    window = WindowBuilder()
    for project in ("p1", "p2", "p3"):
        window.rule("domain", "shop.example", project=project)
    window.edge(PAGE, "https://shop.example/a", project="p1")
    window.edge(PAGE, "https://shop.example/b", project="p2")
    window.edge("https://other.example/", "https://shop.example/a", project="p3")
    window.page(PAGE).link(PAGE, "https://shop.example/a").link(PAGE, "https://shop.example/b")
    found = {(row["project_id"], row["target_url"]) for row in window.match().discovered.to_pylist()}
    assert found == {(key16("p1"), "https://shop.example/b"), (key16("p2"), "https://shop.example/a")}


def test_tolerantly_equal_links_are_one_new_edge_unless_strict() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    window.rule("domain", "shop.example", project="strict", is_strict=True)
    for project in ("p1", "strict"):
        window.edge(PAGE, "https://shop.example/a", project=project)
    window.page(PAGE)
    window.link(PAGE, "http://shop.example/n?utm_source=x").link(PAGE, "https://www.shop.example/n/")
    found = [(row["project_id"], row["target_url"], row["link_count"]) for row in window.match().discovered.to_pylist()]
    assert sorted(found) == sorted([
        (key16("p1"), "http://shop.example/n?utm_source=x", 2),
        (key16("strict"), "http://shop.example/n?utm_source=x", 1),
        (key16("strict"), "https://www.shop.example/n/", 1),
    ])  # fmt: skip


def test_a_link_within_the_sources_own_site_is_no_backlink() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    page = "https://blog.shop.example/"
    explicit = window.edge(page, "https://shop.example/a")
    window.page(page).link(page, "https://shop.example/a").link(page, "https://shop.example/b")
    result = window.match()
    assert by_edge(result)[explicit]["evidence"] == "found", "who imports such an edge gets it checked"
    assert result.discovered.num_rows == 0


def test_a_blog_on_a_shared_host_is_a_site_of_its_own() -> None:
    window = WindowBuilder()
    window.rule("domain", "mine.github.io")
    page = "https://yours.github.io/"
    window.edge(page, "https://mine.github.io/")
    window.page(page).link(page, "https://mine.github.io/x")
    assert window.match().discovered["target_url"].to_pylist() == ["https://mine.github.io/x"]


def test_a_page_that_is_no_evidence_gives_nothing_new() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    window.edge(PAGE, "https://shop.example/a")
    window.fetch(PAGE, reason="http_403", outcome="blocked").page(PAGE).link(PAGE, "https://shop.example/new")
    assert window.match().discovered.num_rows == 0


def test_a_redirected_link_registers_nothing() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    window.edge(PAGE, "https://shop.example/a")
    window.page(PAGE).link(PAGE, "https://source.example/out")
    window.redirects.append(
        {"source_url_id": 1, "link_identity": "https://source.example/out", "final_identity": "https://shop.example/n"}
    )
    assert window.match().discovered.num_rows == 0


def test_a_new_edge_is_observed_in_the_window_that_found_it() -> None:
    window = WindowBuilder()
    rule = window.rule("domain", "shop.example")
    window.edge(PAGE, "https://shop.example/known")
    window.page(PAGE)
    window.nofollow(PAGE, "https://shop.example/new", "no").link(PAGE, "https://shop.example/new", "yes")
    window.target_check("https://shop.example/known")
    first = window.match()
    own = window.observe(with_ids(first.discovered))
    (row,) = own.observations.to_pylist()
    assert (row["backlink_id"], row["target_url_id"], row["target_url"]) == (9001, 8001, "https://shop.example/new")
    assert (row["evidence"], row["evidence_reason"], row["anchor_text"]) == ("found", "link_found", "yes")
    assert (row["link_count"], row["target_rule_ids"], row["crawl_run_id"]) == (2, [rule], key16("run:p1"))
    assert row["observation_id"] not in first.observations["observation_id"].to_pylist()
    assert [o["anchor_text"] for o in own.occurrences.to_pylist()] == ["no", "yes"]
    assert own.discovered.num_rows == 0
    # Next time it is expected: the same evidence, hash and all, as long as the page says the same.
    window.targets["https://shop.example/new"] = 8001
    window.edge(PAGE, "https://shop.example/new", backlink_id=9001, was_live=False)
    again = window.match()
    assert again.discovered.num_rows == 0
    assert by_edge(again)[9001] == row


def test_nothing_discovered_gives_nothing_observed() -> None:
    window = WindowBuilder()
    window.edge(PAGE, "https://shop.example/known")
    window.page(PAGE)
    assert window.observe(with_ids(window.match().discovered)).observations.num_rows == 0
