"""Link and Refresh headers. Expected values by RFC 8288 Appendix B and HTML §4.2.5.3."""

from __future__ import annotations

import pytest

from transforms.html.headers import parse_links, refresh_target

LINKS = [
    ('<http://e/>; rel="next"', [("http://e/", ("next",), {}, None)]),
    ("<a>;rel=next,<b>;rel=prev", [("a", ("next",), {}, None), ("b", ("prev",), {}, None)]),
    (
        '<a>; rel="canonical NEXT  canonical"; title="x, y; z"',
        [("a", ("canonical", "next"), {"title": "x, y; z"}, None)],
    ),
    ('<a>; title="q\\"uo\\\\ted"; rel=x', [("a", ("x",), {"title": 'q"uo\\ted'}, None)]),
    ("<a,b;c>; rel=x", [("a,b;c", ("x",), {}, None)]),  # commas inside of the target
    ("<a>; rel=x; rel=y", [("a", ("x",), {}, None)]),  # §3.3: later ones are ignored
    ("<a>; REL = x ; Title*=UTF-8'en'%e2%82%ac%20rates", [("a", ("x",), {"title*": "€ rates"}, None)]),  # RFC 8187
    ("<a>; rel=x; title*=utf-16''%00", [("a", ("x",), {}, None)]),  # unknown charset: ignored
    ('<a>; rel=canonical; anchor="/other"', [("a", ("canonical",), {}, "/other")]),
    ("<>; rel=self", [("", ("self",), {}, None)]),
    ("<a>", [("a", (), {}, None)]),
    (", ,<a>;rel=x, ,<b>;rel=y,", [("a", ("x",), {}, None), ("b", ("y",), {}, None)]),
    ("<a>; rel=x; crossorigin", [("a", ("x",), {"crossorigin": ""}, None)]),
    ("<a; rel=x", []),
    ("a; rel=x", []),
    ('<a>; rel="x', [("a", ("x",), {}, None)]),  # B.4: an unterminated string runs to the end
    ("", []),
]


@pytest.mark.parametrize(("value", "expected"), LINKS)
def test_link_values(value: str, expected: list[tuple[object, ...]]) -> None:
    assert [tuple(link) for link in parse_links([value])] == expected


REFRESH = [
    ("5; url=/x", (5, "/x")),
    ("0;URL='/x y'z", (0, "/x y")),
    ('1, url = "a;b"', (1, "a;b")),
    ("3 /plain", (3, "/plain")),
    ("3.7; url=/x", (3, "/x")),
    (".5; url=/x", (0, "/x")),
    ("1; urlx", (1, "urlx")),
    ("1; 'quoted'", (1, "quoted")),
    ("1; url='open", (1, "open")),
    ("5", None),
    ("5;", None),
    ("5x; url=/x", None),
    ("x; url=/x", None),
    ("", None),
]


@pytest.mark.parametrize(("value", "expected"), REFRESH)
def test_refresh(value: str, expected: tuple[int, str] | None) -> None:
    assert refresh_target(value) == expected
