"""What a page says. Expected values were worked out by hand; the same behaviour is compared with Chromium in `tests/service/html`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.html import PARSER_VERSION, ParseLimits, failed_page, manifest_id, manifest_tables, parse_page
from transforms.html.resolver import Resolver
from transforms.reasons import Reason
from transforms.schemas import LINK_MANIFESTS, PAGE_MANIFESTS
from transforms.urls import identify, resolve

URL = "https://site.example/dir/page"


def parse(html: str | bytes, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    body = html if isinstance(html, bytes) else html.encode()
    more.setdefault("content_type", "text/html; charset=utf-8")
    parsed = parse_page(body, document_url=URL, **more)
    return parsed.page, parsed.links.dicts()


def link(html: str, **more: Any) -> dict[str, Any]:
    _, links = parse(html, **more)
    assert len(links) == 1
    return links[0]


def test_a_link_and_all_its_columns() -> None:
    one = link('<!doctype html><main><p><a href="/A?b#c" rel="NoFollow  ugc,nofollow">An  <b>anchor</b></a></main>')
    assert {name: one[name] for name in one if name not in ("identity_hash", "occurrence_key")} == {
        "position": 0,
        "kind": "a",
        "raw_href": "/A?b#c",
        "resolved": "https://site.example/A?b#c",
        "identity": "https://site.example/A?b",
        "refusal": None,
        "host": "site.example",
        "registrable_domain": "site.example",
        "anchor_text": "An anchor",
        "anchor_raw": "An  anchor",
        "is_image": False,
        "rel": ("nofollow", "ugc"),
        "rel_nofollow": True,
        "rel_ugc": True,
        "rel_sponsored": False,
        "follow": "nofollow_link",
        "placement": "content",
        "is_hidden": False,
        "locator": "main/p/a",
    }
    assert one["identity_hash"] == identify("https://site.example/A?b").hash


def test_every_kind_in_document_order_and_headers_last() -> None:
    _, links = parse(
        '<link rel="canonical" href=/c><link rel=alternate hreflang=de href=/de><link rel="alternate stylesheet" href=/s>'
        '<meta http-equiv=Refresh content="0; url=/r"><a href=a>a</a><iframe src=f></iframe><iframe src=no srcdoc="<a href=x>"></iframe>'
        "<form action=go></form><map><area href=m alt=M></map><svg><a xlink:href=x>x</a></svg>",
        link_header=['</h>; rel="next"; title=N'],
        refresh_header="3;url=/later",
    )
    assert [(one["kind"], one["raw_href"]) for one in links] == [
        ("canonical", "/c"), ("alternate", "/de"), ("meta_refresh", "/r"), ("a", "a"), ("frame", "f"), ("form", "go"), ("area", "m"),
        ("svg_xlink", "x"), ("link_header", "/h"), ("http_refresh", "/later"),
    ]  # fmt: skip
    assert [one["position"] for one in links] == list(range(10))
    assert links[6]["anchor_text"] == "M"


def test_headers_resolve_against_the_document_and_elements_against_the_base() -> None:
    page, links = parse("<base href='//cdn.example/x/'><a href=y>y</a>", link_header=["<z>; rel=next"])
    assert page["base_url"] == "https://cdn.example/x/"
    assert [one["resolved"] for one in links] == ["https://cdn.example/x/y", "https://site.example/dir/z"]


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ("<base target=x><base href=/b/>", "https://site.example/b/"),
        ("<base href=/b/><base href=/c/>", "https://site.example/b/"),
        ("<base href='javascript:1'><base href=/c/>", URL),  # HTML §4.2.3: the first one with an href decides
        ("<base href='http://[bad'>", URL),
        ("<svg><base href=/s/></svg>", URL),
        ("<template><base href=/t/></template>", URL),
    ],
)
def test_base(bases: str, expected: str) -> None:
    assert parse(bases + "<a href=x>x</a>")[0]["base_url"] == expected


PLACEMENTS = [
    ("<header><a href=x>x</a></header>", "header"),
    ("<footer><nav><a href=x>x</a></nav></footer>", "footer"),
    ("<nav><a href=x>x</a></nav>", "header"),
    ("<aside><nav><a href=x>x</a></nav></aside>", "sidebar"),
    ("<main><aside><a href=x>x</a></aside></main>", "sidebar"),
    ("<article><header><a href=x>x</a></header></article>", "content"),  # HTML-AAM: no banner in sectioning content
    ("<section><footer><a href=x>x</a></footer></section>", "unknown"),
    ("<div role=contentinfo><p><a href=x>x</a></div>", "footer"),
    ("<div role='BOGUS main'><a href=x>x</a></div>", "content"),
    ("<header role=presentation><a href=x>x</a></header>", "unknown"),
    ("<div class=footer><a href=x>x</a></div>", "unknown"),
    ("<a href=x>x</a>", "unknown"),
]


@pytest.mark.parametrize(("html", "placement"), PLACEMENTS)
def test_placement_is_the_nearest_landmark(html: str, placement: str) -> None:
    assert link(html)["placement"] == placement


HIDDEN = [
    ("<a href=x hidden>t</a>", True),
    ("<div style='display : NONE'><a href=x>t</a></div>", True),
    ("<div aria-hidden=true><a href=x>t</a></div>", True),
    ("<div style='visibility:hidden'><a href=x style='visibility:visible'>t</a></div>", False),  # CSS 2 §11.2
    ("<div style='visibility:hidden'><p><a href=x>t</a></p></div>", True),
    ("<div style='visibility:hidden'><p style='visibility:visible'><a href=x>t</a></p></div>", False),
    ("<div hidden><p style='visibility:visible'><a href=x>t</a></p></div>", True),
    ("<div aria-hidden=TRUE><a href=x>t</a></div>", True),
    ("<a aria-hidden=True href=x>t</a>", True),
    ("<div hidden=until-found><a href=x>t</a></div>", True),  # HTML §6.1
    ("<details><summary>s</summary><a href=x>t</a></details>", False),  # a person opens it
    # CSS Syntax §4.3: what is in a string, a URL or a block is no declaration; a name may be escaped
    ("<div style='background:url(data:x;display:none;y)'><a href=x>t</a></div>", False),
    ("<div style='content:\";display:none;\"'><a href=x>t</a></div>", False),
    ('<div style=\'content:"\\";display:none;"\'><a href=x>t</a></div>', False),
    ("<div style='x:{;display:none;}'><a href=x>t</a></div>", False),
    ("<div style='x:([;)];display:none;'><a href=x>t</a></div>", False),
    ("<div style='background:url(//c/*);display:none'><a href=x>t</a></div>", True),
    ("<div style='background:url(it\"s);display:none'><a href=x>t</a></div>", True),
    ('<div style=\'content:"/*";display:none;x:"*/"\'><a href=x>t</a></div>', True),
    ("<div style='x:);display:none'><a href=x>t</a></div>", True),
    ("<div style='x:(a)[b]{c};display:none'><a href=x>t</a></div>", True),
    ("<div style='dis\\70lay:no\\6e e'><a href=x>t</a></div>", True),
    ("<div style='x\\;display:none'><a href=x>t</a></div>", False),
    ("<div style='no-display:none-such'><a href=x>t</a></div>", False),
    ("<a href=x style='display:block'>t</a>", False),
]


@pytest.mark.parametrize(("html", "hidden"), HIDDEN)
def test_hidden_where_markup_says_so(html: str, hidden: bool) -> None:
    assert link(html)["is_hidden"] is hidden


def test_image_links_are_marked() -> None:
    image = link('<a href=x> <img alt=" An  image "> </a>')
    assert (image["anchor_text"], image["is_image"]) == ("An image", True)
    both = link("<a href=x><img alt=i>text</a>")
    assert (both["anchor_text"], both["is_image"]) == ("text", False)
    empty = link("<a href=x></a>")
    assert (empty["anchor_text"], empty["is_image"]) == ("", False)


def test_where_a_nofollow_comes_from() -> None:
    plain, marked = "<a href=x>x</a>", "<a href=x rel=nofollow>x</a>"
    meta = "<meta name=robots content='index,nofollow'>"
    assert link(plain)["follow"] == "follow"
    assert link(meta + marked)["follow"] == "nofollow_link"
    assert link(meta + plain, x_robots_tag=["nofollow"])["follow"] == "nofollow_meta"
    assert link(plain, x_robots_tag=["none"])["follow"] == "nofollow_header"
    assert link(plain, x_robots_tag=["otherbot: nofollow"])["follow"] == "follow"
    assert link("<meta name=BacklinksMonitor content=nofollow>" + plain)["follow"] == "nofollow_meta"
    assert link("<a href=x rel='ugc sponsored'>x</a>")["follow"] == "follow"


def test_robots_of_meta_and_header_are_combined() -> None:
    page, _ = parse("<meta name=robots content='index, follow'>", x_robots_tag=["noindex"])
    assert page["robots_directives"] == ["follow", "noindex"]
    assert page["robots_indexable"] is False
    page, _ = parse("<meta name=robots content='unavailable_after: 2025-01-01'>", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert page["robots_indexable"] is False


def test_canonicals_are_kept_apart_and_judged() -> None:
    page, _ = parse(
        "<link rel=canonical href=/c#x><link rel=CANONICAL href=/d>", link_header=['<https://e/>; rel="canonical"']
    )
    assert page["canonical_html"] == ["https://site.example/c#x", "https://site.example/d"]
    assert page["canonical_header"] == ["https://e/"]
    assert page["canonical_issues"] == ["html_fragment", "html_several", "header_and_html_differ"]
    page, _ = parse(
        "<link rel=canonical href=''><link rel=canonical href='http://['><link rel=canonical href='mailto:x'>"
    )
    assert page["canonical_html"] == []
    assert page["canonical_issues"] == ["html_empty", "html_unparsable", "html_not_http"]
    page, _ = parse(
        "x", link_header=['<https://e/>; rel=canonical; anchor="/elsewhere"', '</dir/page>; rel=canonical; anchor=""']
    )
    assert page["canonical_header"] == [
        "https://site.example/dir/page"
    ]  # RFC 8288 §3.2: another context says nothing of us


def test_header_links_of_another_context_or_without_a_relation_are_no_links_of_this_page() -> None:
    _, links = parse(
        "x",
        link_header=[
            "</own>; rel=next",
            "</other>; rel=next; anchor=/elsewhere",
            "</part>; rel=next; anchor='#part'",
            '</section>; rel=next; anchor="#section"',
            "</none>",
            '</same>; rel=prev; anchor="?"',
            '</page>; rel="prev next"; anchor="page#"',
        ],
    )
    # RFC 8288 §3.2 and Appendix B.2, step 17: one link for each relation of this context.
    assert [(one["raw_href"], one["rel"]) for one in links if one["kind"] == "link_header"] == [
        ("/own", ("next",)),
        ("/page", ("prev", "next")),
    ]


def test_title_and_language() -> None:
    page, _ = parse("<html lang=' de-AT '><svg><title>s</title></svg><title> a\n b </title>")
    assert (page["title"], page["language"]) == ("a b", "de-AT")
    page, _ = parse("<meta http-equiv=content-language content=fr>")
    assert (page["title"], page["language"]) == (None, "fr")
    assert parse("<meta http-equiv=content-language content='fr, en'>")[0]["language"] is None


def _keys(html: str) -> dict[str, bytes]:
    return {one["anchor_text"]: one["occurrence_key"] for one in parse(html)[1]}


def test_occurrence_keys_survive_unrelated_edits() -> None:
    before = "<main id=story><p>Words <a href=/a>first</a></p><p><a href=/b>second</a></p></main><footer><a href=/a>foot</a></footer>"
    after = (
        "<div class=ad><a href=/ad>new</a></div><main class='x' id=story><h1>Title</h1><p>Other words <b>!</b> <a href=/new>new</a>"
        " <a class=y href=/a>first</a></p><p>z</p><p data-x=1><a href=/b>second</a></p></main><footer><ul></ul><a href=/a>foot</a></footer>"
    )
    old, new = _keys(before), _keys(after)
    assert {name: new[name] for name in old} == old
    assert len(set(old.values())) == 3
    assert _keys("<main id=story><p><a href=/a>first changed</a></p></main>")["first changed"] != old["first"]
    assert _keys("<footer><a href=/a>first</a></footer>")["first"] != old["first"]


def test_equal_links_are_told_apart_by_number() -> None:
    _, links = parse("<p><a href=/a>x</a><a href=/a>x</a></p>")
    assert links[0]["occurrence_key"] != links[1]["occurrence_key"]


def test_limits_mark_a_page_truncated_and_it_still_finds() -> None:
    page, links = parse("<a href=1>1</a>" * 10, limits=ParseLimits(max_links=4))
    assert (page["is_truncated"], page["truncated_by"], len(links), page["reason"]) == (
        True,
        "links",
        4,
        "parse_truncated",
    )
    page, links = parse("<a href=1>1</a>" * 10, limits=ParseLimits(max_bytes=20))
    assert (page["truncated_by"], len(links), page["parse_quality"]) == ("bytes", 1, "partial")
    page, links = parse("<a href=1>1</a>" * 10, limits=ParseLimits(max_nodes=6))
    assert (page["truncated_by"], len(links)) == ("nodes", 3)
    page, links = parse("<a href=1>1</a>" + "<div>" * 50 + "<a href=2>2</a>", limits=ParseLimits(max_depth=20))
    assert (page["truncated_by"], len(links)) == ("depth", 1)
    page, links = parse(
        "<a href=1>1</a>" + "<div></div><br><p>" * 50 + "<a href=2>2</a>", limits=ParseLimits(max_depth=20)
    )
    assert (page["truncated_by"], len(links), page["is_truncated"]) == (None, 2, False)
    page, _ = parse("<a href=1>1</a>", body_truncated=True)
    assert (page["is_truncated"], page["truncated_by"]) == (True, "body")


def test_parse_quality() -> None:
    assert parse("<!DOCTYPE html><p>x")[0]["parse_quality"] == "clean"
    assert parse("<p>x")[0]["parse_quality"] == "repaired"
    assert parse(b"<!doctype html>\xff")[0]["parse_quality"] == "repaired"
    assert parse(b"<!doctype html>\0")[0]["parse_quality"] == "repaired"


SHELLS = [
    ('<div id="root"></div><script src=/main.js></script>', True),
    (
        '<noscript>You need to enable JavaScript to run this app.</noscript><div id="app"></div><script src=a></script>',
        True,
    ),
    ("<app-root>Loading...</app-root><script src=a></script>", True),
    ('<div id="root"></div><p>' + "A real text. " * 60 + "</p><script src=a></script>", False),
    ('<div id="root"><p>x</p></div><script src=a></script>', False),
    ("<p>A short page.</p>", False),
    ("<p>A short page that counts visitors.</p><script src=/count.js></script>", False),
]


@pytest.mark.parametrize(("html", "expected"), SHELLS)
def test_script_shells(html: str, expected: bool) -> None:
    page, _ = parse("<!doctype html>" + html)
    assert page["is_script_shell"] is expected
    assert page["reason"] == ("script_shell" if expected else "ok")


def test_text_is_measured_without_scripts() -> None:
    page, _ = parse("<p>four</p><script>" + "x" * 1000 + "</script><style>y</style>")
    assert page["text_bytes"] == 4
    assert page["text_ratio"] == pytest.approx(4 / page["body_bytes"])
    assert parse("<p>é</p>")[0]["text_bytes"] == 2


def test_query_of_a_link_in_the_pages_encoding() -> None:
    _, links = parse("<a href='/é?é'>é</a>".encode("latin-1"), content_type="text/html; charset=iso-8859-1")
    assert links[0]["resolved"] == "https://site.example/%C3%A9?%E9"
    assert links[0]["anchor_text"] == "é"


def test_tables_have_exactly_the_manifest_schemas() -> None:
    parsed = parse_page(b"<a href=x>x</a><a href='mailto:y'>y</a>", document_url=URL)
    lost = failed_page(URL, 7, Reason.PARSE_TIMEOUT)
    pages, links = manifest_tables([parsed, lost], [5, 6], [b"m" * 16, b"n" * 16], [b"h" * 32, b"i" * 32])
    assert pages.schema.equals(PAGE_MANIFESTS.schema)
    assert links.schema.equals(LINK_MANIFESTS.schema)
    pages.validate(full=True)
    links.validate(full=True)
    assert pages["reason"].to_pylist() == ["ok", "parse_timeout"]
    assert pages["truncated_by"].to_pylist() == [None, "time"]
    assert links["source_url_id"].to_pylist() == [5, 5]
    assert links["refusal"].to_pylist() == [None, "scheme_mailto"]
    empty = manifest_tables([], [], [], [])
    assert (empty[0].num_rows, empty[1].num_rows) == (0, 0)


def test_a_manifest_is_known_by_all_that_could_change_it() -> None:
    base = manifest_id(b"h" * 32, URL, x_robots_tag=["a"], link_header=["b"])
    assert len(base) == 16
    assert base == manifest_id(b"h" * 32, URL, x_robots_tag=["a"], link_header=["b"])
    others = [
        manifest_id(b"i" * 32, URL, x_robots_tag=["a"], link_header=["b"]),
        manifest_id(b"h" * 32, URL + "x", x_robots_tag=["a"], link_header=["b"]),
        manifest_id(b"h" * 32, URL, x_robots_tag=["a", "b"]),
        manifest_id(b"h" * 32, URL, x_robots_tag=["a"], link_header=["b"], content_type="text/html"),
        manifest_id(b"h" * 32, URL, x_robots_tag=["a"], link_header=["b"], refresh_header="1"),
    ]
    assert len({base, *others}) == 6
    assert PARSER_VERSION


_REFERENCES = st.builds(
    "".join,
    st.lists(st.sampled_from([*"abZ09-._~/?#=&:@ %'é\\\t", "http://", "https://", "//", "xn--", "..", "/./", "example.com", "1.2", "%2e"]), max_size=9),  # noqa: E501
)  # fmt: skip


@given(
    _REFERENCES,
    st.sampled_from([URL, "http://h:81/a/b?c", "https://u:p@h/x/", "mailto:x", "http://[::1]/", "file:///a/b"]),
)
@settings(max_examples=600)
def test_the_quick_ways_of_resolving_change_nothing(raw: str, base: str) -> None:
    quick = Resolver(base)(raw)
    slow = resolve(raw, base)
    if slow is not None and not slow.startswith(("http", "ftp", "ws", "file")):
        slow = None if quick.resolved is None else quick.resolved  # non-special URLs: see Resolver.resolve
    assert quick.resolved == slow
    one = identify(raw, base)
    assert (quick.identity, quick.identity_hash) == (one.identity, one.hash)
    if one.identity is not None:
        assert (quick.host, quick.registrable_domain) == (one.host, one.registrable_domain)


@given(st.binary(max_size=300) | st.lists(st.sampled_from([b"<a href=", b"<", b">", b"</a>", b"\0", b"<svg>", b"<table>", b"'", b"&#x", b"<!--", b"<base href=", b"\xff\xfe", b"<meta charset=", b"gb18030", b"x"]), max_size=40).map(b"".join))  # fmt: skip # noqa: E501
@settings(max_examples=200)
def test_any_bytes_give_a_page(body: bytes) -> None:
    parsed = parse_page(body, document_url=URL)
    manifest_tables([parsed], [1], [b"m" * 16], [b"h" * 32])
    assert parsed.page["body_bytes"] == len(body)


@pytest.mark.parametrize(
    "body",
    [
        b"<html></html>",
        b"<html><head><title>Shop</title></head><body>\n</body></html>",
        b"\xef\xbb\xbf",
        b"<!doctype html><style>a{}</style><!-- died here -->",
        b"<frameset><frame src=a.html></frameset>",
    ],
)
def test_a_page_with_nothing_on_it_proves_nothing(body: bytes) -> None:
    """A template that died before its content answers 200: no text, no links, so no link is absent either."""
    assert parse_page(body, document_url="http://a.test/").page["reason"] == "empty_body"


def test_a_short_page_without_links_is_a_page() -> None:
    assert parse_page(b"<p>Moved to the archive.", document_url="http://a.test/").page["reason"] == "ok"
    assert parse_page(b"<a href=/x><img src=y></a>", document_url="http://a.test/").page["reason"] == "ok"


FOREIGN = [  # HTML §13.2.6.5: what has the name of an HTML element in SVG and MathML is none; integration points hold HTML
    ("<svg><link rel=canonical href=c><form action=f></form><iframe src=i></iframe></svg>", []),
    ("<math><link rel=alternate href=c></math>", []),
    (
        "<svg><foreignObject><link rel=canonical href=c><form action=f></form></foreignObject></svg>",
        ["canonical", "form"],
    ),
    ("<math><mi><form action=f></form></mi></math>", ["form"]),
    ("<svg><mi><form action=f></form></mi></svg>", []),
    ("<math><annotation-xml><form action=f></form></annotation-xml></math>", []),
    ("<math><annotation-xml encoding='Text/HTML'><form action=f></form></annotation-xml></math>", ["form"]),
]


@pytest.mark.parametrize(("html", "kinds"), FOREIGN)
def test_elements_of_svg_and_mathml_are_not_those_of_html(html: str, kinds: list[str]) -> None:
    parsed = parse_page(f"<!doctype html>{html}".encode(), document_url="https://site.example/")
    assert [one["kind"] for one in parsed.links.dicts()] == kinds
    assert parsed.page["canonical_html"] == (["https://site.example/c"] if "canonical" in kinds else [])


@pytest.mark.parametrize(
    ("html", "base"),
    [
        ("<math><mi><base href=/b/></mi></math>", "https://site.example/b/"),
        ("<math><annotation-xml><base href=/b/></annotation-xml></math>", "https://site.example/"),
        ("<svg><mi><base href=/b/></mi></svg>", "https://site.example/"),
        ("<svg><desc><base href=/b/></desc></svg>", "https://site.example/b/"),
    ],
)
def test_base_of_svg_and_mathml(html: str, base: str) -> None:
    assert parse_page(html.encode(), document_url="https://site.example/").page["base_url"] == base
