"""The script and its truth hold together: complete, without contradictions, true of the pages, and they show it all."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from ada_url import URL
from selectolax.lexbor import LexborHTMLParser

from orchestration.demo.scenario import WINDOWS, Edge, EdgeTruth, ScenarioError, load_scenario
from orchestration.demo.scenario.model import parse_edge_truth, parse_scenario, parse_target_truth
from orchestration.demo.web.behaviours import BEHAVIOURS
from orchestration.demo.web.pages import Answer, answer
from transforms.reasons import FOUND_ONLY, Reason

SCENARIO = load_scenario()

PHENOMENA = {
    # links
    "link_stays", "link_lost", "link_flickers", "link_returns", "link_lost_again", "never_live", "first_seen_late",
    "miss_none_miss", "miss_none_found", "not_a_link", "several_links", "discovery", "two_projects",
    "out_of_scope_links",
    # what a link says about itself
    "rel_nofollow", "rel_ugc", "rel_sponsored", "rel_case", "meta_nofollow", "header_nofollow", "anchor_changes",
    "placement_moves", "image_link",
    # how it is spelled
    "target_variant_scheme", "target_variant_www", "target_variant_tracking", "target_variant_slash",
    "target_subdomain",
    "protocol_relative", "entities", "base_href", "spelling", "broken_markup",
    "charset_windows_1252", "charset_shift_jis", "charset_utf_16", "charset_late",
    # the source moves, goes, breaks
    "source_moves", "source_moves_link_lost", "redirect_chain", "redirect_loop", "too_many_redirects", "bad_redirect",
    "redirect_to_private", "tls_failed", "page_404", "page_404_flickers", "page_410", "soft_404", "page_500",
    "page_503_retry_after", "page_429", "slow_first_byte", "slow_drip", "endless_body", "gzip_bomb", "header_bomb",
    "bad_encoding", "wrong_content_length", "connection_reset", "retry_helps", "dns_gone", "unasked_304", "empty_body",
    "status_204", "lying_validators", "not_modified",
    # the source says no, or shows something else
    "challenge_200", "challenge_403", "vendor_beacon", "page_403", "page_401", "consent_wall", "login_redirect",
    "robots_disallow", "robots_503", "robots_5xx_last_good", "robots_by_name", "script_shell", "link_collapse",
    "unsupported_type", "maintenance_200", "small_collapse",
    # links through the source's own redirector
    "link_via_redirector", "link_becomes_redirected", "redirector_leads_elsewhere", "redirector_fails",
    "redirector_disallowed", "refresh",
    # what the source says about itself, and its size
    "source_noindex", "source_canonical", "thousands_of_links", "huge_page_found", "huge_page_unknown", "shared_suffix",
    # the target
    "target_redirect", "target_404", "target_500", "target_noindex", "target_canonical",
}  # fmt: skip


def _id(edge: Edge) -> str:
    return f"{edge.project}:{edge.source}->{edge.target}"


def test_every_phenomenon_is_shown_and_none_is_shown_unnamed() -> None:
    shown = {name for page in SCENARIO.pages.values() for name in page.shows}
    assert shown == PHENOMENA


def test_size() -> None:
    assert len(SCENARIO.hosts) >= 60
    assert WINDOWS == 7
    assert len({host.rpartition(".")[0].rpartition(".")[2] for host in SCENARIO.hosts}) >= 50


def test_totals_are_the_sums_of_the_truths() -> None:
    events = Counter(truth.event for edge in SCENARIO.edges for truth in edge.truth.values())
    del events["none"]
    assert dict(events) == SCENARIO.totals["events"]
    for kind, discovered in (("imported", False), ("discovered", True)):
        counted = Counter(edge.project for edge in SCENARIO.edges if edge.discovered is discovered)
        assert dict(counted) == SCENARIO.totals[kind]
    for key, project in SCENARIO.projects.items():
        assert dict(Counter(row["expect"] for row in project.junk)) == SCENARIO.totals["rejected"][key]


@pytest.mark.parametrize("edge", SCENARIO.edges, ids=_id)
def test_states_and_events_follow_from_the_evidence(edge: Edge) -> None:
    """A second telling of DESIGN.md §4, in a few lines, of tests alone."""
    state, misses, ever_live = "unknown", 0, False
    for window, truth in sorted(edge.truth.items()):
        event = "none"
        if truth.evidence == "found":
            misses = 0
            if state != "live":
                event = "recovered" if ever_live else "new"
            state, ever_live = "live", True
        elif truth.evidence == "missing":
            misses += 1
            if misses >= 2 and state != "lost":
                state, event = "lost", "lost" if ever_live else "none"
        assert (truth.state, truth.event) == (state, event), f"window {window}"
        assert truth.evidence == "found" or not truth.changes, f"window {window}: only a found link has changed"


@pytest.mark.parametrize("edge", SCENARIO.edges, ids=_id)
def test_reasons_fit_the_evidence(edge: Edge) -> None:
    decided = {
        "found": {Reason.LINK_FOUND, Reason.LINK_FOUND_VIA_REDIRECT},
        "missing": {Reason.LINK_ABSENT, Reason.HTTP_404, Reason.HTTP_410},
    }
    for truth in edge.truth.values():
        if truth.evidence in decided:
            assert truth.reasons <= decided[truth.evidence]
        else:
            assert not truth.reasons & {*decided["found"], *decided["missing"], Reason.OK}


def test_changed_targets_show_on_their_edges_when_they_are_seen() -> None:
    """Whoever changes a target's health must say so beside every edge to it."""
    for edge in SCENARIO.edges:
        target = SCENARIO.targets[edge.target].truth
        seen: tuple[object, ...] | None = None
        for window, truth in sorted(edge.truth.items()):
            if truth.evidence != "found" or window not in target:
                continue
            told = target[window]
            now = (
                told.health,
                told.properties.get("is_redirected", False),
                told.properties.get("robots_indexable", True),
            )
            if seen is not None:
                names = ("target_health", "target_redirect", "target_indexability")
                changed = {name for name, was, has in zip(names, seen, now, strict=True) if was != has}
                said = {change for change in truth.changes if change.startswith("target_")}
                assert said == changed, f"{_id(edge)} window {window}"
            seen = now


# -- the truth is true of the pages: read here with a plain parser, not with ours ----------------------


def _final(url: str, window: int) -> tuple[str, Answer]:
    """Where a source leads (within the scenario), and what it says there."""
    for _ in range(6):
        parsed = URL(url)
        said = answer(SCENARIO, parsed.hostname, parsed.pathname + parsed.search, window)
        location = dict(said.headers).get("Location")
        if not 300 <= said.status < 400 or location is None:
            break
        url = URL(location, base=url).href
    return url, said


def _leads_to(link: str, target: str, window: int) -> bool:
    """Do redirects, or a page that refreshes at once, lead from a link to the target?"""
    for _ in range(6):
        if _stands_for(link, target):
            return True
        parsed = URL(link)
        said = answer(SCENARIO, parsed.hostname, parsed.pathname + parsed.search, window)
        refresh = re.search(rb'http-equiv="refresh" content="0; url=([^"]+)"', said.body)
        onward = dict(said.headers).get("Location") or (refresh.group(1).decode() if refresh else None)
        if onward is None:
            return False
        link = URL(onward, base=link).href
    return False


def _text(said: Answer) -> str:
    if said.body.startswith(b"\xff\xfe"):
        return said.body.decode("utf-16")
    named = re.search(rb"charset=\"?([\w-]+)", said.body[:4096])
    kind = dict(said.headers)["Content-Type"]
    charset = kind.partition("charset=")[2] or (named.group(1).decode() if named else "utf-8")
    return said.body.decode(charset)


def _links(url: str, said: Answer) -> set[str]:
    tree = LexborHTMLParser(_text(said))
    base = tree.css_first("base[href]")
    root = URL(base.attributes["href"], base=url).href if base else url
    found = set()
    for node in tree.css("a[href]"):
        link = URL(node.attributes["href"] or "", base=root)
        link.hash = ""
        found.add(link.href.replace("%72", "r"))
    return found


def _stands_for(link: str, target: str) -> bool:
    def bare(url: str) -> str:
        url = re.sub(r"^https?://(www\.)?", "", url)
        return re.sub(r"(utm_\w+|fbclid)=[^&]*&?", "", url).rstrip("?&/")

    return bare(link) == bare(target)


PAGES_THAT_SHOW_THEMSELVES = {"page", "redirect", "reset_once", "soft_404", "huge"}


@pytest.mark.parametrize("edge", SCENARIO.edges, ids=_id)
def test_found_and_missing_are_true_of_the_pages(edge: Edge) -> None:
    page = next(page for page in SCENARIO.pages.values() if page.url == edge.source)
    for window, truth in edge.truth.items():
        if truth.evidence == "none":
            continue
        url, said = _final(edge.source, window)
        if truth.reasons <= {Reason.HTTP_404, Reason.HTTP_410}:
            assert truth.reasons == {f"http_{said.status}"}, f"window {window}"
            continue
        assert page.spec(window).get("do", "page") in PAGES_THAT_SHOW_THEMSELVES, f"window {window}"
        assert said.status == 200, f"window {window}"
        direct = any(_stands_for(link, edge.target) for link in _links(url, said))
        own = [link for link in _links(url, said) if URL(link).hostname == URL(url).hostname]
        through = any(_leads_to(link, edge.target, window) for link in own)
        assert direct == (truth.reasons == {Reason.LINK_FOUND}), f"window {window}"
        assert (through and not direct) == (truth.reasons == {Reason.LINK_FOUND_VIA_REDIRECT}), f"window {window}"


def test_no_page_holds_a_link_to_a_customer_that_the_truth_does_not_tell() -> None:
    """Otherwise the crawler would discover an edge that nobody wrote down."""
    rules = {
        "acme": lambda link: re.match(r"https?://([\w.-]+\.)?acme-tools\.test[/:?#]?", link),
        "blueriver": lambda link: re.match(
            r"https?://(www\.)?(blog\.blueriver\.test/|blueriver\.test/(docs/|pricing$))", link
        ),
    }
    known = {(edge.source, edge.project) for edge in SCENARIO.edges}
    for source, project in sorted(known):
        page = next(page for page in SCENARIO.pages.values() if page.url == source)
        targets = [edge.target for edge in SCENARIO.edges if (edge.source, edge.project) == (source, project)]
        for window in range(WINDOWS):
            if page.spec(window).get("do", "page") in BEHAVIOURS or "pdf" in page.spec(window).get("do", ""):
                continue
            url, said = _final(source, window)
            if said.status != 200 or not said.body:
                continue
            for link in _links(url, said):
                if rules[project](link):
                    assert any(_stands_for(link, target) for target in targets), f"{source} window {window}: {link}"


def test_huge_pages_are_cut_before_or_after_their_link() -> None:
    cap = 10 * 1024 * 1024
    early = answer(SCENARIO, "bigpage.test", "/early", 0).body
    late = answer(SCENARIO, "bigpage.test", "/late", 0).body
    assert len(early) > cap
    assert len(late) > cap
    assert 0 < early.index(b"acme-tools.test/trowels") < 10_000
    assert late.index(b"acme-tools.test/saws") > cap
    assert Reason.BODY_TRUNCATED in FOUND_ONLY


def test_a_page_is_a_function_of_host_path_and_window() -> None:
    for (host, path), page in SCENARIO.pages.items():
        for window in range(WINDOWS):
            if page.spec(window).get("do") != "huge":
                assert answer(SCENARIO, host, path, window) == answer(SCENARIO, host, path, window)


# -- the language of the truth ----------------------------------------------------------------------


def test_truth_language() -> None:
    truth = parse_edge_truth(
        "0 found live NEW anchor_text='two words' link_count=3 rel_ugc=true tolerated=[www,scheme]\n"
        "1-2 none:http_503|origin_backoff live; 3 found live ~rel ~anchor; 4- missing:http_410 lost LOST"
    )
    assert truth[0] == EdgeTruth(
        "found", frozenset({"link_found"}), "live", "new", frozenset(),
        {"anchor_text": "two words", "link_count": 3, "rel_ugc": True, "tolerated": ["www", "scheme"]},
    )  # fmt: skip
    assert truth[1] == truth[2] == EdgeTruth("none", frozenset({"http_503", "origin_backoff"}), "live")
    assert truth[3].changes == {"rel", "anchor"}
    assert sorted(truth) == [0, 1, 2, 3, 4, 5, 6]
    assert (truth[6].state, truth[6].event, truth[6].reasons) == ("lost", "lost", frozenset({"http_410"}))
    assert parse_target_truth("0-6 error http_status=404")[3].properties == {"http_status": 404}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-6 found", "needs evidence and state"),
        ("0-6 found alive", "cannot read truth"),
        ("0-6 found live GONE", "cannot read truth"),
        ("0-6 found live NEW LOST", "cannot read truth"),
        ("0-5 found live; 5-6 found live", "window 5 is told twice"),
        ("0-2 found live; 4-6 found live", "leave a gap"),
        ("0-9 found live", "not within 0-6"),
        ("x found live", "truth line"),
    ],
)
def test_a_truth_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parse_edge_truth(text, "http://a.test/ -> http://b.test/")


def test_a_page_on_an_undeclared_host_is_refused() -> None:
    text = """
    host = []
    project = []
    target = []
    totals = {}
    page = [{ url = "http://nowhere.test/" }]
    """
    with pytest.raises(ScenarioError, match=r"nowhere\.test.*\[\[host\]\]"):
        parse_scenario(text)
