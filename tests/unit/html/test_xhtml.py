"""Pages served as XML: HTML §14 "The XML syntax", XML 1.0 §2.7, §3.1. (Against a browser: tests/service/html.)"""

from __future__ import annotations

import time

import pytest

from transforms.html import parse_page
from transforms.html.snippet import snippet
from transforms.html.xhtml import as_html


@pytest.mark.parametrize(
    ("xml", "html"),
    [
        (b'<script src="x"/>', b'<script src="x"></script>'),
        (b"<script src='a>b/>c' />", b"<script src='a>b/>c' ></script>"),
        (b"<br/><img src='x' /><META name='a'/>", b"<br/><img src='x' /><META name='a'/>"),
        (b"<p/><a id='x'/>t", b"<p></p><a id='x'></a>t"),
        (b"<a href='/x/'>t</a>", b"<a href='/x/'>t</a>"),
        (b"<!-- <p/> --><?php <p/> ?>", b"<!-- <p/> --><?php <p/> ?>"),
        (b"<![CDATA[<p/>&]]>", b"&lt;p/&gt;&amp;"),
        (b"<![CDATA[<p/>", b"&lt;p/&gt;"),
        (b"<a\nhref='x\r\n\ty'>\n</a>", b"<a href='x  y'>\n</a>"),  # §3.3.3 attribute-value normalization
        (b"<a b='<p/>", b"<a b='<p></p>"),
    ],
)
def test_empty_elements_and_cdata(xml: bytes, html: bytes) -> None:
    assert as_html(xml) == html


def test_a_closed_script_hides_no_link() -> None:
    body = b'<html xmlns="http://www.w3.org/1999/xhtml"><head><script src="x"/></head><body><a href="/t">\xc3\xa9</a></body></html>'
    for kind, links in (("application/xhtml+xml", 1), ("text/plain, APPLICATION/xhtml+xml; a=b", 1), ("text/html", 0)):
        parsed = parse_page(body, document_url="https://site.example/", content_type=kind)
        assert parsed.page["link_count"] == links
    parsed = parse_page(body, document_url="https://site.example/", content_type="application/xhtml+xml")
    assert (parsed.page["charset"], parsed.page["charset_method"]) == ("UTF-8", "fallback")
    assert parsed.links.dicts()[0]["anchor_text"] == "\u00e9"


def test_the_snippet_is_found_too() -> None:
    body = b'<html xmlns="http://www.w3.org/1999/xhtml"><head><script src="x"/></head><body><a href="/t">t</a></body></html>'
    found = snippet(
        body, document_url="https://s.example/", target="https://s.example/t", content_type="application/xhtml+xml"
    )
    assert found.found


@pytest.mark.parametrize("piece", [b"<!--", b"<a b='", b"<![CDATA[", b"<?", b'<a "', b"<a /", b"<p/>"])
def test_linear_in_whatever_never_ends(piece: bytes) -> None:
    started = time.process_time()
    as_html(piece * (3_000_000 // len(piece)))
    assert time.process_time() - started < 3
