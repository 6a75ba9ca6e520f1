"""Which link stands for which edge, and what the observation then says."""

from __future__ import annotations

import hashlib

import pytest

from tests.fixtures.matching import FETCHED, START, WindowBuilder, by_edge, key16
from transforms.schemas import LINK_OBSERVATIONS

PAGE = "https://blog.source.example/post"
TARGET = "https://www.shop.example/shoes?size=9"


def one(window: WindowBuilder) -> dict:
    (row,) = window.match().observations.to_pylist()
    return row


def test_a_found_link_fills_the_whole_observation() -> None:
    window = WindowBuilder()
    rule = window.rule("domain", "shop.example")
    edge = window.edge(PAGE, TARGET)
    window.page(PAGE, canonical_html=["https://blog.source.example/c"], title="Shoes")
    window.nofollow(PAGE, TARGET, "good shoes", rel_ugc=True, placement="footer", is_image=True)
    window.target_check(TARGET, http_status=301, is_redirected=True, final_url="https://shop.example/new")
    row = one(window)
    assert row["backlink_id"] == edge
    assert (row["evidence"], row["evidence_reason"], row["evidence_complete"]) == ("found", "link_found", True)
    assert (row["window_start"], row["observed_at"]) == (START, FETCHED)
    assert (row["source_fetch_health"], row["source_http_status"], row["source_is_redirected"]) == ("ok", 200, False)
    assert (row["source_canonical_url"], row["page_title"], row["html_lang"]) == (
        "https://blog.source.example/c",
        "Shoes",
        "en",
    )
    assert (row["target_fetch_health"], row["target_http_status"]) == ("ok", 301)
    assert (row["target_is_redirected"], row["target_final_url"]) == (True, "https://shop.example/new")
    assert (row["link_url"], row["tolerated"], row["link_count"]) == (TARGET, [], 1)
    assert (row["anchor_text"], row["rel_nofollow"], row["rel_ugc"], row["rel_sponsored"]) == (
        "good shoes",
        True,
        True,
        False,
    )
    assert (row["follow"], row["is_image_link"], row["is_redirected"], row["placement"]) == (
        "nofollow_link",
        True,
        False,
        "footer",
    )
    assert (row["target_rule_ids"], row["manifest_id"], row["parser_version"]) == (
        [rule],
        key16(f"manifest:{PAGE}"),
        "p1",
    )
    assert (row["crawl_page_id"], row["fetch_job_id"], row["ingest_version"]) == (901, 71, 0)
    key = hashlib.sha256(f"{key16('run:p1').hex()}:1:1001".encode()).digest()
    assert (row["idempotency_key"], row["observation_id"]) == (key, int.from_bytes(key[:8], "big"))


def test_a_complete_page_without_the_link_is_a_miss_and_shows_no_link() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, "https://elsewhere.example/")
    row = one(window)
    assert (row["evidence"], row["evidence_reason"], row["evidence_complete"]) == ("missing", "link_absent", True)
    assert (row["link_url"], row["anchor_text"], row["follow"], row["placement"]) == (None, None, None, None)
    assert (row["link_count"], row["tolerated"], row["rel_nofollow"]) == (0, [], False)
    assert row["target_fetch_health"] == "unknown", "nobody checked the target"


TOLERANCE = [
    # link, what had to be tolerated (None: the link is another URL)
    ("https://www.shop.example/shoes?size=9", []),
    ("http://www.shop.example/shoes?size=9", ["scheme"]),
    ("https://shop.example/shoes?size=9", ["www"]),
    ("https://www.shop.example/shoes/?size=9", ["trailing_slash"]),
    ("https://www.shop.example/shoes?size=9&utm_source=x&gclid=1", ["tracking"]),
    ("https://www.shop.example/shoes?UTM_Source=x&size=9", ["tracking"]),
    ("http://shop.example/shoes/?fbclid=a&size=9&utm_medium=b", ["scheme", "www", "tracking", "trailing_slash"]),
    ("https://www.shop.example/shoes", None),
    ("https://www.shop.example/shoes?size=9&color=red", None),
    ("https://www.shop.example/Shoes?size=9", None),
    ("https://www.shop.example/shoes//?size=9", None),
    ("https://www.shop.example:8443/shoes?size=9", None),
    ("https://www.shop.example/shoes?size=9&gclidx=1", None),
    ("https://www.shop.example/shoes?size=9&", None),
    ("https://m.shop.example/shoes?size=9", None),
    ("https://www.www.shop.example/shoes?size=9", None),
]


@pytest.mark.parametrize(("href", "tolerated"), TOLERANCE)
def test_what_is_tolerated_is_recorded(href: str, tolerated: list[str] | None) -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, href)
    row = one(window)
    assert row["evidence"] == ("missing" if tolerated is None else "found")
    assert row["tolerated"] == (tolerated or [])
    assert row["link_url"] == (None if tolerated is None else href)


@pytest.mark.parametrize(("href", "tolerated"), TOLERANCE)
def test_a_strict_rule_of_the_project_tolerates_nothing(href: str, tolerated: list[str] | None) -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example", is_strict=True)
    window.rule("domain", "other.example")
    window.edge(PAGE, TARGET)
    lenient = window.edge(PAGE, TARGET, project="p2")
    window.page(PAGE).link(PAGE, href)
    rows = by_edge(window.match())
    assert rows[5001]["evidence"] == ("found" if tolerated == [] else "missing")
    assert rows[lenient]["evidence"] == ("missing" if tolerated is None else "found"), "another project is not strict"


@pytest.mark.parametrize(
    ("target", "href", "found"),
    [
        ("https://x.example/?utm_source=a", "https://x.example/", True),
        ("https://x.example/?utm_source=a", "https://x.example/?utm_source=b", True),
        ("https://x.example/?utm_source=a", "https://x.example/?utm_source=a", True),
        ("https://x.example/", "https://x.example/?", False),
        ("https://www.com/", "https://com.example/", False),
        ("https://x.example/a/", "https://x.example/a", True),
        ("https://x.example/a?b=/", "https://x.example/a?b=", False),
        ("https://192.0.2.7/a", "http://192.0.2.7/a/", True),
        ("http://[2001:db8::1]/a", "https://[2001:db8::1]/a", True),
    ],
)
def test_corners_of_tolerance(target: str, href: str, found: bool) -> None:
    window = WindowBuilder()
    window.edge(PAGE, target)
    window.page(PAGE).link(PAGE, href)
    assert one(window)["evidence"] == ("found" if found else "missing")


def test_tracking_that_both_sides_carry_alike_is_not_tolerated_but_equal() -> None:
    window = WindowBuilder()
    window.edge(PAGE, "https://x.example/?utm_source=a")
    window.page(PAGE).link(PAGE, "https://x.example/?utm_source=a")
    assert one(window)["tolerated"] == []


def test_all_links_are_occurrences_and_the_first_followed_one_stands() -> None:
    window = WindowBuilder()
    edge = window.edge(PAGE, TARGET)
    window.page(PAGE)
    window.nofollow(PAGE, TARGET, "first, nofollow")
    window.link(PAGE, "https://other.example/", "not ours")
    window.link(PAGE, "http://shop.example/shoes?size=9", "second, followed")
    window.link(PAGE, TARGET, "third, followed", kind="area")
    result = window.match()
    (row,) = result.observations.to_pylist()
    assert (row["anchor_text"], row["link_count"], row["follow"]) == ("second, followed", 3, "follow")
    assert row["tolerated"] == ["scheme", "www"]
    seen = result.occurrences.to_pylist()
    assert [(o["backlink_id"], o["position"], o["anchor_text"], o["kind"]) for o in seen] == [
        (edge, 0, "first, nofollow", "a"), (edge, 2, "second, followed", "a"), (edge, 3, "third, followed", "area"),
    ]  # fmt: skip
    assert {o["observed_at"] for o in seen} == {FETCHED}
    assert result.counts["occurrences"] == 3


def test_when_none_is_followed_the_first_one_stands() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE)
    window.nofollow(PAGE, TARGET, "one").nofollow(PAGE, TARGET, "two", follow="nofollow_meta")
    assert one(window)["anchor_text"] == "one"


@pytest.mark.parametrize(
    "kind", ["frame", "form", "canonical", "alternate", "meta_refresh", "http_refresh", "link_header"]
)
def test_only_anchors_and_areas_are_backlinks(kind: str) -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    window.edge(PAGE, TARGET)
    window.edge(PAGE, "https://shop.example/", project="p1", any_target=True)
    window.page(PAGE).link(PAGE, TARGET, kind=kind)
    result = window.match()
    assert result.observations["evidence"].to_pylist() == ["missing", "missing"]
    assert result.discovered.num_rows == 0


def test_one_page_is_read_for_all_projects_and_each_sees_its_own_edges() -> None:
    window = WindowBuilder()
    window.page(PAGE)
    expected = {}
    for project in range(10):
        window.rule("domain", f"t{project}.example", project=f"p{project}")
        for number in range(50):
            target = f"https://t{project}.example/{number}"
            expected[window.edge(PAGE, target, project=f"p{project}")] = (target, number % 2 == 0)
            if number % 2 == 0:
                window.link(PAGE, target, f"{project}-{number}")
    rows = by_edge(window.match())
    assert len(rows) == 500
    for edge, (target, is_there) in expected.items():
        assert rows[edge]["link_url"] == (target if is_there else None)
        assert rows[edge]["evidence"] == ("found" if is_there else "missing")


def test_an_any_target_edge_is_met_by_any_link_that_a_rule_of_its_project_accepts() -> None:
    window = WindowBuilder()
    rule = window.rule("url_prefix", "https://shop.example/blog")
    window.rule("domain", "shop.example", project="p2")
    met = window.edge(PAGE, "https://shop.example/", any_target=True)
    other = window.edge("https://b.example/", "https://shop.example/", any_target=True)
    window.page(PAGE).page("https://b.example/")
    window.link(PAGE, "https://shop.example/shop").link(PAGE, "http://www.shop.example/blog/1", "yes")
    window.link("https://b.example/", "https://shop.example/shop")
    result = window.match()
    rows = by_edge(result)
    assert (rows[met]["evidence"], rows[met]["anchor_text"], rows[met]["link_count"]) == ("found", "yes", 1)
    assert (rows[met]["tolerated"], rows[met]["target_rule_ids"]) == (["scheme", "www"], [rule])
    assert rows[met]["link_url"] == "http://www.shop.example/blog/1"
    assert rows[other]["evidence"] == "missing", "p1's rule does not accept it, and p2 has no edge here"
    assert result.discovered.num_rows == 0, "what an any_target edge matches is not new"


def test_a_link_counts_through_the_sources_own_redirector_only_when_proven() -> None:
    window = WindowBuilder()
    out = "https://blog.source.example/out?id=7"
    edge = window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, out, "via out")
    assert one(window)["evidence"] == "missing"
    window.redirects.append(
        {"source_url_id": 1, "link_identity": out, "final_identity": "http://www.shop.example/shoes?size=9"}
    )
    result = window.match()
    (row,) = result.observations.to_pylist()
    assert (row["evidence"], row["evidence_reason"], row["is_redirected"]) == ("found", "link_found_via_redirect", True)
    assert (row["tolerated"], row["link_url"]) == (["scheme", "redirect"], out)
    assert [o["link_url"] for o in result.occurrences.to_pylist()] == [out]
    window.nofollow(PAGE, TARGET, "direct")
    row = by_edge(window.match())[edge]
    assert (row["anchor_text"], row["is_redirected"], row["link_count"]) == ("direct", False, 2), "a direct link stands"


def test_a_redirect_proven_for_one_source_proves_nothing_for_another() -> None:
    window = WindowBuilder()
    out = "https://out.example/7"
    window.edge(PAGE, TARGET)
    window.edge("https://b.example/", TARGET)
    for page in (PAGE, "https://b.example/"):
        window.page(page).link(page, out)
    window.redirects.append({"source_url_id": 1, "link_identity": out, "final_identity": TARGET})
    assert window.match().observations["evidence"].to_pylist() == ["found", "missing"]


def test_a_manifest_of_another_body_proves_nothing() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.fetch(PAGE).page(PAGE, content_hash=b"\1" * 32).link(PAGE, TARGET)
    row = one(window)
    assert (row["evidence"], row["evidence_reason"]) == ("none", "artifact_unavailable")


def test_links_of_an_older_manifest_do_not_count() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, TARGET, manifest_id=key16("older"))
    assert one(window)["evidence"] == "missing"


def test_the_newest_target_check_counts() -> None:
    window = WindowBuilder()
    window.edge(PAGE, TARGET)
    window.page(PAGE).link(PAGE, TARGET)
    window.target_check(TARGET, health="error", http_status=404, checked_at=FETCHED)
    window.target_check(TARGET)
    row = one(window)
    assert (row["target_fetch_health"], row["target_http_status"]) == ("error", 404)


def test_slices_give_the_same_rows_and_hashes_as_the_whole() -> None:
    window = WindowBuilder()
    window.rule("domain", "shop.example")
    for number in range(40):
        page = f"https://s{number}.example/"
        window.page(page)
        for target in range(number % 5):
            window.edge(page, f"https://shop.example/{target}")
            window.link(page, f"https://shop.example/{target + 1}", f"a{target}")
    whole, sliced = window.match(), window.match(rows_per_slice=7)
    order = [("backlink_id", "ascending")]
    assert sliced.observations.sort_by(order).equals(whole.observations.sort_by(order))
    assert sliced.occurrences.num_rows == whole.occurrences.num_rows == whole.counts["found"]
    by = [("source_url_id", "ascending"), ("target_url", "ascending")]
    assert sliced.discovered.sort_by(by).equals(whole.discovered.sort_by(by))
    assert sliced.counts == whole.counts


def test_an_empty_window() -> None:
    result = WindowBuilder().match()
    assert result.observations.schema.equals(LINK_OBSERVATIONS.schema)
    assert (result.observations.num_rows, result.occurrences.num_rows, result.discovered.num_rows) == (0, 0, 0)
