"""Set-based matching against a plain one, link by link, written from the documentation alone."""

from __future__ import annotations

from urllib.parse import urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.matching import WindowBuilder, by_edge

SOURCES = ["https://s1.example/", "https://s2.example/p/"]
UNSEEN = "https://s3.example/"
"""A source that was not fetched."""
PROJECTS = ["p1", "p2"]

urls = st.builds(
    lambda scheme, www, host, path, query: f"{scheme}://{www}{host}{path}{query}",
    st.sampled_from(["http", "https"]),
    st.sampled_from(["", "www."]),
    st.sampled_from(["a.example", "b.example", "x.a.example"]),
    st.sampled_from(["/", "/p", "/p/", "/p/q"]),
    st.sampled_from(["", "?k=1", "?utm_source=z", "?k=1&gclid=7", "?gclidx=1"]),
)
rules = st.tuples(
    st.sampled_from(PROJECTS),
    st.sampled_from(["domain", "subdomain", "url_prefix", "exact_url"]),
    urls,
    st.booleans(),  # strict
    st.booleans(),  # include_subdomains
)


def parts(url: str) -> tuple[str, bool, str, str, str, list[str]]:
    """scheme, www, bare host, path, query without tracking, tracking"""
    split = urlsplit(url)
    host = split.hostname or ""
    pairs = split.query.split("&") if split.query else []
    tracking = [pair for pair in pairs if pair.split("=")[0] in ("utm_source", "gclid")]
    kept = "&".join(pair for pair in pairs if pair not in tracking)
    return split.scheme, host.startswith("www."), host.removeprefix("www."), split.path, kept, tracking


def same_page(link: str, target: str, *, strict: bool) -> bool:
    if strict:
        return link == target
    one, other = parts(link), parts(target)
    return one[2] == other[2] and one[3].removesuffix("/") == other[3].removesuffix("/") and one[4] == other[4]


def differences(link: str, target: str) -> set[str]:
    """What has to be tolerated for two URLs of the same page."""
    one, other = parts(link), parts(target)
    names = {"scheme": 0, "www": 1, "trailing_slash": 3, "tracking": 5}
    return {name for name, at in names.items() if one[at] != other[at]}


def accepts(rule: tuple[str, str, str, bool, bool], link: str, *, strict: bool | None = None) -> bool:
    _, scope, where, is_strict, below = rule
    strict = is_strict if strict is None else strict
    host, rule_host = urlsplit(link).hostname or "", urlsplit(where).hostname or ""
    if scope in ("domain", "subdomain"):
        alike = host == rule_host or (not strict and host.removeprefix("www.") == rule_host.removeprefix("www."))
        return alike or (below and host.endswith("." + rule_host))
    if scope == "exact_url":
        return same_page(link, where, strict=strict)
    if strict:
        return link.startswith(where)

    def text(url: str) -> str:
        _, _, bare, path, query, _ = parts(url)
        return bare + path + (f"?{query}" if query else "")

    return text(link).startswith(text(where)) and parts(link)[2] == parts(where)[2]


links_of_pages = st.tuples(
    st.sampled_from(SOURCES),
    urls,
    st.booleans(),  # followed
    st.sampled_from(["direct", "direct", "direct", "redirected", "unproven", "frame"]),
)
Link = tuple[str, str, bool, str]


def write(window: WindowBuilder, links: list[Link]) -> list[str]:
    """The links on their pages; a redirected one goes through a redirector of its own. Returns what each is written as."""
    written = []
    for place, (source, url, followed, way) in enumerate(links):
        href = url if way in ("direct", "frame") else f"{source}out?{place}"
        values = {"kind": "frame"} if way == "frame" else {"kind": "area"} if place % 2 else {}
        (window.link if followed else window.nofollow)(source, href, **values)
        if way == "redirected" and source in window.sources:
            window.redirects.append(
                {"source_url_id": window.sources[source], "link_identity": href, "final_identity": url}
            )
        written.append(href)
    return written


@settings(max_examples=60, deadline=None)
@given(
    links=st.lists(links_of_pages, max_size=8),
    edges=st.lists(
        st.tuples(st.sampled_from(PROJECTS), st.sampled_from([*SOURCES, UNSEEN]), urls, st.booleans()),
        min_size=1,
        max_size=5,
        unique_by=lambda edge: edge[:3],
    ),
    wanted=st.lists(rules, max_size=4),
    rows_per_slice=st.sampled_from([3, 1000]),
)
def test_every_edge_and_every_new_link_as_a_plain_loop_finds_them(
    links: list[Link],
    edges: list[tuple[str, str, str, bool]],
    wanted: list[tuple[str, str, str, bool, bool]],
    rows_per_slice: int,
) -> None:
    window = WindowBuilder()
    for source in SOURCES:
        window.page(source)
    written = write(window, links)
    for project, scope, where, strict, below in wanted:
        host = urlsplit(where).hostname if scope in ("domain", "subdomain") else where
        window.rule(scope, host or "", project=project, is_strict=strict, include_subdomains=below)
    numbers = [window.edge(s, t, project=p, any_target=anything) for p, s, t, anything in edges]
    result = window.match(rows_per_slice=rows_per_slice)
    rows = by_edge(result)

    occurrences: list[tuple[int, int]] = []
    taken: set[tuple[str, int]] = set()
    for number, (project, source, target, anything) in zip(numbers, edges, strict=True):
        mine = [rule for rule in wanted if rule[0] == project]
        strict = any(rule[3] and accepts(rule, target, strict=False) for rule in mine)
        hits = [
            place
            for place, (at, url, _, way) in enumerate(links)
            if at == source
            and way in ("direct", "redirected")
            and (any(accepts(rule, url) for rule in mine) if anything else same_page(url, target, strict=strict))
        ]
        taken |= {(project, place) for place in hits}
        occurrences += [(number, place) for place in hits]
        row = rows[number]
        if source == UNSEEN:
            assert (row["evidence"], row["evidence_reason"], row["link_count"]) == ("none", "not_fetched", 0)
            continue
        assert (row["evidence"], row["link_count"]) == ("found" if hits else "missing", len(hits))
        assert row["evidence_complete"]
        if not hits:
            assert (row["link_url"], row["follow"], row["tolerated"]) == (None, None, [])
            continue
        stands = min(hits, key=lambda place: (links[place][3] == "redirected", not links[place][2], place))
        _, url, followed, way = links[stands]
        assert row["link_url"] == written[stands]
        assert row["follow"] == ("follow" if followed else "nofollow_link")
        assert row["evidence_reason"] == ("link_found_via_redirect" if way == "redirected" else "link_found")
        assert row["is_redirected"] == ("redirect" in row["tolerated"]) == (way == "redirected")
        if not anything:
            assert set(row["tolerated"]) - {"redirect"} == differences(url, target)
    position = {place: sum(at == links[place][0] for at, *_ in links[:place]) for place in range(len(links))}
    assert sorted((o["backlink_id"], o["position"], o["link_url"]) for o in result.occurrences.to_pylist()) == sorted(
        (number, position[place], written[place]) for number, place in occurrences
    )

    offered = {
        (project, source, url)
        for project, source in {(edge[0], edge[1]) for edge in edges}
        for place, (at, url, _, way) in enumerate(links)
        if at == source
        and way == "direct"
        and (project, place) not in taken
        and any(accepts(rule, url) for rule in wanted if rule[0] == project)
    }
    found = {(row["project_id"], row["source_url"], row["target_url"]) for row in result.discovered.to_pylist()}
    by_project = {row["project_id"]: edge[0] for row, edge in zip(window.edges, edges, strict=True)}
    assert {(by_project[p], s, t) for p, s, t in found} <= offered
    for project, source, url in offered:
        assert any(by_project[p] == project and s == source and same_page(t, url, strict=False) for p, s, t in found)
