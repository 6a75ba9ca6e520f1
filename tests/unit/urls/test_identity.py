"""Identity of URLs. Expected values were worked out by hand from the standards named beside them."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.urls import NORMALIZATION_VERSION, UrlRefusal, identify, identify_many, origin_of, resolve, url_hash

SAME = [
    # (as written, base, identity, rules that must be in the trace)
    (
        "HTTP://Example.COM",
        None,
        "http://example.com/",
        ["scheme_lowercased", "host_lowercased", "empty_path"],
    ),  # WHATWG §4.4
    ("http://example.com:80/", None, "http://example.com/", ["default_port_removed"]),  # §4.4 port state
    ("http://example.com:0080/", None, "http://example.com/", ["default_port_removed"]),
    ("https://example.com:0444/", None, "https://example.com:444/", ["port_canonical"]),
    ("https://example.com:80/", None, "https://example.com:80/", []),
    ("http://example.com./a", None, "http://example.com/a", ["host_dot_removed"]),  # RFC 1034 §3.1
    ("http://a/b/./c/../d", None, "http://a/b/d", ["dot_segments_removed"]),  # RFC 3986 §6.2.2.3
    ("http://a/b/%2e%2E/d", None, "http://a/d", ["dot_segments_removed"]),  # §4.4 double-dot path segment
    ("http://a/%7Euser/%61", None, "http://a/~user/a", ["unreserved_decoded"]),  # RFC 3986 §6.2.2.2
    ("http://a/%c3%a9?x=%2f", None, "http://a/%C3%A9?x=%2F", ["hex_uppercased"]),  # RFC 3986 §6.2.2.1
    ("http://a/é", None, "http://a/%C3%A9", ["percent_encoded"]),
    ("http://a/#top", None, "http://a/", ["fragment_removed"]),  # RFC 3986 §3.5
    ("http://a/?#top", None, "http://a/?", ["fragment_removed"]),  # an empty query stays
    ("  http://a/\tb\n ", None, "http://a/b", ["trimmed", "tab_newline_removed"]),
    ("http:\\\\a\\b", None, "http://a/b", ["slashes_repaired", "backslash_to_slash"]),
    ("//b/c", "https://a/d", "https://b/c", ["resolved_against_base"]),
    ("?q", "https://a/d?e#f", "https://a/d?q", ["resolved_against_base"]),
    ("", "https://a/d?e#f", "https://a/d?e", ["resolved_against_base"]),
    ("https:c", "https://a/b/d", "https://a/b/c", ["resolved_against_base"]),
    ("http://bücher.example/", None, "http://xn--bcher-kva.example/", ["idna"]),  # UTS #46
    ("http://faß.de/", None, "http://xn--fa-hia.de/", ["idna"]),  # non-transitional: not fass.de
    ("http://ex%41mple.com/", None, "http://example.com/", ["host_percent_decoded"]),  # §3.5
    ("http://0x7f.1/", None, "http://127.0.0.1/", ["ipv4"]),  # §3.5.1 ends-in-a-number
    ("http://[::0:1]/", None, "http://[::1]/", ["ipv6"]),
    ("http://www。example。com/", None, "http://www.example.com/", ["idna"]),  # ideographic full stop
]


@pytest.mark.parametrize(("raw", "base", "identity", "rules"), SAME)
def test_the_same_resource_has_one_identity_and_the_trace_says_why(
    raw: str, base: str | None, identity: str, rules: list[str]
) -> None:
    found = identify(raw, base)
    assert found.identity == identity
    assert found.reason is None
    assert set(rules) <= set(found.rules), found.rules
    again = identify(identity)
    assert again.identity == identity
    assert again.rules == ()


DIFFERENT = [
    # never folded: (one, other)
    ("http://a/b%2Fc", "http://a/b/c"),
    ("http://a/b%23c", "http://a/b#c"),
    ("http://a/b%25c", "http://a/b%c"),
    ("http://a/b%3Fc", "http://a/b?c"),
    ("http://a/?x=1%262", "http://a/?x=1&2"),
    ("http://a//b", "http://a/b"),
    ("http://a/b/", "http://a/b"),
    ("http://a/?a=1&b=2", "http://a/?b=2&a=1"),
    ("http://a/?utm_source=x", "http://a/"),
    ("http://a/?", "http://a/"),
    ("http://a/?a&a", "http://a/?a"),
    ("http://a/B", "http://a/b"),
    ("http://a/", "https://a/"),
    ("http://www.a.com/", "http://a.com/"),
    ("http://a/index.html", "http://a/"),
    ("http://a/;x", "http://a/"),
    ("http://a/+", "http://a/%20"),
    ("http://u@a/", "http://a/"),
    ("http://a:81/", "http://a/"),
    ("http://a/?x=%C3%A9", "http://a/?x=%E9"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_may_differ_is_never_merged(one: str, other: str) -> None:
    first, second = identify(one), identify(other)
    assert first.identity is not None
    assert second.identity is not None
    assert first.identity != second.identity


REFUSED = [
    ("", UrlRefusal.BAD_URL),
    ("page.html", UrlRefusal.BAD_URL),
    ("http://", UrlRefusal.BAD_URL),
    ("http://a:99999/", UrlRefusal.BAD_URL),
    ("http://a b/", UrlRefusal.BAD_URL),  # §3.3 forbidden domain code point
    ("http://1.2.3.4.5/", UrlRefusal.BAD_URL),  # §3.5: ends in a number, five parts
    ("http://[::1", UrlRefusal.BAD_URL),
    ("http://a.b.c.xn--pokxncvks/", UrlRefusal.BAD_URL),  # invalid Punycode
    ("http://xn--a.xn--zca/", UrlRefusal.BAD_URL),
    ("http://xn--1ug.example/", UrlRefusal.BAD_URL),  # CheckJoiners
    ("http://xn--a-yoc/", UrlRefusal.BAD_URL),
    ("http://a..b/", UrlRefusal.BAD_HOST),
    ("http://./", UrlRefusal.BAD_HOST),
    ("http://" + "a" * 64 + ".com/", UrlRefusal.BAD_HOST),
    ("http://" + "a." * 127 + "com/", UrlRefusal.BAD_HOST),
    ("http://a/" + "b" * 2040, UrlRefusal.TOO_LONG),
    ("mailto:a@b.c", UrlRefusal.SCHEME_MAILTO),
    ("TEL:1", UrlRefusal.SCHEME_TEL),
    ("javascript:void(0)", UrlRefusal.SCHEME_JAVASCRIPT),
    ("data:,x", UrlRefusal.SCHEME_DATA),
    ("about:blank", UrlRefusal.SCHEME_ABOUT),
    ("ftp://a/", UrlRefusal.SCHEME_FTP),
    ("file:///a", UrlRefusal.SCHEME_FILE),
    ("whatsapp://send", UrlRefusal.SCHEME_OTHER),
]


@pytest.mark.parametrize(("raw", "reason"), REFUSED)
def test_a_refusal_has_a_reason(raw: str, reason: UrlRefusal) -> None:
    found = identify(raw)
    assert found.identity is None
    assert found.reason is reason
    assert found.hash is None


def test_a_base_that_does_not_parse_is_named() -> None:
    assert identify("x", "no base").reason is UrlRefusal.BAD_BASE
    assert identify("x", "mailto:a").reason is UrlRefusal.BAD_URL


def test_the_longest_identity() -> None:
    longest = "http://a/" + "b" * (2048 - len("http://a/"))
    assert identify(longest).identity == longest
    assert identify(longest + "b").reason is UrlRefusal.TOO_LONG
    assert identify(longest + "#" + "c" * 100).identity == longest


FLAGS = [
    ("http://192.0.2.1/", True, None, {"ip"}),
    ("http://[2001:db8::1]/", True, None, {"ip"}),
    ("http://a_b.example.co.uk/", False, "example.co.uk", {"underscore"}),
    ("http://☃.net/", False, "xn--n3h.net", {"idn", "emoji"}),
    ("http://аpple.com/", False, "xn--pple-43d.com", {"idn", "mixed_script"}),  # Cyrillic а
    ("http://яндекс.рф/", False, "xn--d1acpjx3f.xn--p1ai", {"idn"}),
    ("http://日本ドメイン.jp/", False, "xn--eckwd4c7c5976acvb.jp", {"idn"}),  # Han with katakana is one writing system
    ("http://localhost/", False, None, {"single_label"}),
    ("http://github.io/", False, None, {"public_suffix_host"}),
    ("http://me.github.io/", False, "me.github.io", set()),  # private section: a blog of its own
    ("http://a.b.kawasaki.jp/", False, "a.b.kawasaki.jp", set()),  # wildcard rule
    ("http://city.kawasaki.jp/", False, "city.kawasaki.jp", set()),  # its exception
    ("http://u:p@example.com/", False, "example.com", {"credentials"}),
    ("http://a.b.unknowntld/", False, "b.unknowntld", set()),  # default rule *
]


@pytest.mark.parametrize(("raw", "is_ip", "domain", "flags"), FLAGS)
def test_hosts(raw: str, is_ip: bool, domain: str | None, flags: set[str]) -> None:
    found = identify(raw)
    assert found.is_ip is is_ip
    assert found.registrable_domain == domain
    assert set(found.flags) == flags
    assert found.site == (domain or found.host)


def test_hash_and_origin() -> None:
    identity = "https://example.com:444/a?b"
    assert url_hash(identity) == hashlib.sha256(b"url:v1:https://example.com:444/a?b").digest()
    assert url_hash(identity, version=2) != url_hash(identity)
    assert NORMALIZATION_VERSION == 1
    assert origin_of(identity) == "https://example.com:444"
    with pytest.raises(ValueError, match="not a URL identity"):
        origin_of("mailto:x")


def test_stray_percent_signs_do_not_become_triplets() -> None:
    assert identify("http://a/%%341").identity == "http://a/%%341"
    assert identify("http://a/%4%31").identity == "http://a/%4%31"
    assert identify("http://a/%%7e").identity == "http://a/%~"
    assert identify("http://a/%2541").identity == "http://a/%2541"


def test_columns_equal_single_answers() -> None:
    raws = (
        [raw for raw, *_ in SAME if not raw.startswith(("//", "?", "https:c"))]
        + [raw for raw, _ in REFUSED]
        + [None, "http://a/", "http://a/"]
    )
    table = identify_many(raws).to_pylist()
    assert [row["raw"] for row in table] == raws
    for raw, row in zip(raws, table, strict=True):
        one = identify(raw or "")
        assert (row["identity"], row["resolved"], row["host"], row["registrable_domain"]) == (
            one.identity,
            one.resolved,
            one.host,
            one.registrable_domain,
        )
        assert row["url_hash"] == one.hash
        assert row["reason"] == (None if one.reason is None else one.reason.value)
    assert identify_many([]).num_rows == 0


# -- properties -------------------------------------------------------------------------------------------------------

_CHARS = st.sampled_from(
    [*"aZ09-._~%25/?#&=+;:@!$'()*,[]\\ \"<>^`{|}é☃", "%2f", "%41", "%7e", "%c3", "%2E", "%", "..", "//"]
)
_TEXT = st.lists(_CHARS, max_size=14).map("".join)
_HOSTS = st.sampled_from(["example.com", "EXAMPLE.com.", "b\u00fccher.de", "127.1", "[::1]", "a_b.co.uk", "x"])
_URLS = st.builds(
    lambda scheme, host, port, rest: f"{scheme}://{host}{port}/{rest}",
    st.sampled_from(["http", "https", "HTTP"]), _HOSTS, st.sampled_from(["", ":80", ":443", ":8080", ":"]), _TEXT,
)  # fmt: skip


@given(_URLS)
@settings(max_examples=400)
def test_identity_is_idempotent(raw: str) -> None:
    found = identify(raw)
    if found.identity is not None:
        assert identify(found.identity).identity == found.identity
        assert resolve(found.identity) == found.identity


def _reference(resolved: str) -> str:
    """The listed equivalences, written a second time: byte by byte instead of by regular expression."""
    url = resolved.partition("#")[0]
    scheme, _, rest = url.partition("://")
    host, slash, rest = rest.partition("/")
    out, at = [], 0
    while at < len(rest):
        triplet = rest[at : at + 3]
        if re.fullmatch("%[0-9A-Fa-f]{2}", triplet):
            char = chr(int(triplet[1:], 16))
            out.append(char if char.isascii() and (char.isalnum() or char in "-._~") else triplet.upper())
            at += 3
        else:
            out.append(rest[at])
            at += 1
    return f"{scheme}://{host.removesuffix('.')}{slash}{''.join(out)}".replace(".:", ":", 1)


@given(_URLS, _URLS)
@settings(max_examples=400)
def test_identity_is_injective_but_for_the_listed_equivalences(one: str, other: str) -> None:
    first, second = identify(one), identify(other)
    if first.identity is not None and second.identity is not None and first.resolved and second.resolved:
        equal = _reference(first.resolved) == _reference(second.resolved)
        stray = re.search("%(?![0-9A-Fa-f]{2})", first.resolved + second.resolved)
        if not stray:
            assert (first.identity == second.identity) is equal
        elif first.identity == second.identity:
            assert equal


@given(st.text(max_size=40), st.none() | st.text(max_size=20))
@settings(max_examples=300)
def test_any_text_gets_an_answer(raw: str, base: str | None) -> None:
    found = identify(raw, base)
    assert (found.identity is None) is (found.reason is not None)
    if found.resolved is not None:
        assert found.resolved.isascii()
