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
    # -- the questions that the public table of cases at greenbytes.de/tech/tc/httplink asks, answered by the RFC
    ("rel=stylesheet; <fail.css>", []),  # B.2 step 2: does not begin with a target
    ("<a.css>; rel='stylesheet'", [("a.css", ("'stylesheet'",), {}, None)]),  # a single quote quotes nothing
    (
        "<a.css>; ext1='start; rel=stylesheet; ext2=end'",
        [("a.css", ("stylesheet",), {"ext1": "'start", "ext2": "end'"}, None)],
    ),
    (
        '<a.css>; rel="http://example.com/MyRel stylesheet"',
        [("a.css", ("http://example.com/myrel", "stylesheet"), {}, None)],
    ),
    ('<a.css>; ext="\\""; rel=x', [("a.css", ("x",), {"ext": '"'}, None)]),
    ("<a>; title*=UTF-8''s-%E2%82%AC; rel=x", [("a", ("x",), {"title*": "s-\u20ac"}, None)]),
    (
        "<a>; title*=iso-8859-1''s-%E4; title=\"fallback\"; rel=x",
        [("a", ("x",), {"title*": "s-\xe4", "title": "fallback"}, None)],
    ),
    ("<a>; title*=''A%20b; title=\"fallback\"; rel=x", [("a", ("x",), {"title": "fallback"}, None)]),  # no charset
    ('<a>; title*=foobar; title="fallback"; rel=x', [("a", ("x",), {"title": "fallback"}, None)]),
    (
        "<a>; title*=UTF-8''foobar%; title=fallback; rel=x",
        [("a", ("x",), {"title": "fallback"}, None)],
    ),  # half a triplet
    ("<a>; title*=UTF-8''%ff; title=fallback; rel=x", [("a", ("x",), {"title": "fallback"}, None)]),  # not UTF-8
    ("<a>; title=one; title=two; rel=x", [("a", ("x",), {"title": "one"}, None)]),  # B.2 step 14: the first
    ('<a>; anchor=""; rel=x', [("a", ("x",), {}, "")]),
    ('<a>; anchor="#foo"; rel=x', [("a", ("x",), {}, "#foo")]),
    (
        '<a>; rel="x"; title="a,<b>; rel=y", <c>; rel=z',
        [("a", ("x",), {"title": "a,<b>; rel=y"}, None), ("c", ("z",), {}, None)],
    ),
    ("<a>;;;rel=x;;", [("a", ("x",), {}, None)]),
    ("\t <a>\t;\trel\t=\tx\t,\t<b>;rel=y", [("a", ("x",), {}, None), ("b", ("y",), {}, None)]),
    ("<a>; rel=", [("a", (), {}, None)]),
    ("<a>; rev=made; rel=x", [("a", ("x",), {"rev": "made"}, None)]),
    ("<a b>; rel=x", [("a b", ("x",), {}, None)]),
    ("< a >; rel=x", [("a", ("x",), {}, None)]),
    ("<a>; rel=X\xe9", [("a", ("x\xe9",), {}, None)]),
]


def test_a_repeated_header_goes_on() -> None:
    found = parse_links(["<a>; rel=x", "rubbish", "<b; rel=y", '<c>; rel="z", <d>; rel=w'])
    assert [(link.target, link.rel) for link in found] == [("a", ("x",)), ("c", ("z",)), ("d", ("w",))]


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
    # every branch of "shared declarative refresh steps", in their order
    (" \t5;url=x", (5, "x")),
    ("5\x0c;url=x", (5, "x")),
    ("5\x0b;url=x", None),
    ("+5;url=x", None),
    (";url=x", None),
    (".;url=x", (0, "x")),
    ("5.6.7,url=x", (5, "x")),
    ("5 , url=x", (5, "x")),
    ("5;;url=x", (5, ";url=x")),
    ("5 url=x", (5, "x")),
    ("5;x", (5, "x")),
    ("5;u=x", (5, "u=x")),
    ("5;ur=x", (5, "ur=x")),
    ("5;URL =\n'x' y", (5, "x")),
    ("5;url==x", (5, "=x")),
    ("5;url=", (5, "")),
    ("5;url=''", (5, "")),
    ('5;url="x\'y"z', (5, "x'y")),
    ('5;"x', (5, "x")),
    ("5;url='x\"y", (5, 'x"y')),
    ("5;url=x'y'", (5, "x'y'")),
    ("5;url=javascript:x", (5, "javascript:x")),
    ("5", None),
    ("5;", None),
    ("5; \t", None),
    ("5x; url=/x", None),
    ("x; url=/x", None),
    ("", None),
]


@pytest.mark.parametrize(("value", "expected"), REFRESH)
def test_refresh(value: str, expected: tuple[int, str] | None) -> None:
    assert refresh_target(value) == expected
