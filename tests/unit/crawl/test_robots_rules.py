"""RFC 9309, section by section. Each row's verdict can be checked against the text of the standard."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.robots import MAX_ROBOTS_BYTES, parse_robots
from crawl.robots.rules import _normalise, _Pattern

BOT = "FooBot"


def allowed(robots: str | bytes, url: str, agent: str = BOT) -> bool:
    body = robots.encode() if isinstance(robots, str) else robots
    return parse_robots(body, agent).judge(url).allowed


# -- §2.2.1: which group -------------------------------------------------------------------------------------------

GROUPS = [
    ("", BOT, "/x", True),
    ("Disallow: /", BOT, "/x", True),  # rules outside a group
    ("User-agent: *\nDisallow: /", BOT, "/x", False),
    ("User-agent: FooBot\nDisallow: /", BOT, "/x", False),
    ("User-agent: foobot\nDisallow: /", "FOOBOT", "/x", False),  # case-insensitive
    ("User-agent: FooBot/2.1\nDisallow: /", BOT, "/x", False),  # a version is not part of the token
    ("User-agent: FooBot\nDisallow: /", "FooBot/1.0 (+https://x)", "/x", False),
    ("User-agent: FooBotImages\nDisallow: /", BOT, "/x", True),  # another product
    ("User-agent: Foo\nDisallow: /", BOT, "/x", True),  # a prefix is another product
    ("User-agent: BarBot\nDisallow: /", BOT, "/x", True),
    ("User-agent: *\nDisallow: /\nUser-agent: FooBot\nAllow: /", BOT, "/x", True),  # the named group alone
    ("User-agent: FooBot\nDisallow:\nUser-agent: *\nDisallow: /", BOT, "/x", True),
    ("User-agent: FooBot\nUser-agent: *\nDisallow: /", BOT, "/x", False),  # one group, two names
    ("User-agent: FooBot\nUser-agent: BarBot\nDisallow: /a", "BarBot", "/a", False),
    ("User-agent: FooBot\n\n\nDisallow: /", BOT, "/x", False),  # blank lines do not end a group
    ("User-agent: FooBot\nSitemap: https://x/s\nUser-agent: BarBot\nDisallow: /", BOT, "/x", False),  # §2.2.4
    ("User-agent: FooBot\nCrawl-delay: 5\nDisallow: /", BOT, "/x", False),
    # all groups that name us are one (§2.2.1)
    (
        "User-agent: FooBot\nDisallow: /a\n\nUser-agent: BarBot\nDisallow: /\n\nUser-agent: FooBot\nDisallow: /b",
        BOT,
        "/a",
        False,
    ),
    (
        "User-agent: FooBot\nDisallow: /a\n\nUser-agent: BarBot\nDisallow: /\n\nUser-agent: FooBot\nDisallow: /b",
        BOT,
        "/b",
        False,
    ),
    (
        "User-agent: FooBot\nDisallow: /a\n\nUser-agent: BarBot\nDisallow: /\n\nUser-agent: FooBot\nDisallow: /b",
        BOT,
        "/c",
        True,
    ),
    ("User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", BOT, "/a", False),
    ("User-agent: FooBot\nAllow: /\nUser-agent: *\nDisallow: /\nUser-agent: FooBot\nDisallow: /z", BOT, "/z", False),
    ("User-agent: Foo Bar\nDisallow: /", "Foo", "/x", False),  # up to the space
    ("User-agent: *\nDisallow: /\nUser-agent: Foo Bar\nAllow: /x", "Foo Bar", "/x", False),  # no product token
    ("User-agent: Foo-Bar_\nDisallow: /", "foo-bar_", "/x", False),
    ("User-agent: 360Spider\nDisallow: /", "360Spider", "/x", False),
    ("User-agent:\nDisallow: /", BOT, "/x", True),
    ("User-agent: * # everybody\nDisallow: /", BOT, "/x", False),
    ("User-agent: *bot\nDisallow: /", BOT, "/x", True),
    ("User-agent: FooBot\nDisallow: /", "", "/x", True),
]


@pytest.mark.parametrize(("robots", "agent", "url", "expected"), GROUPS)
def test_group_choice(robots: str, agent: str, url: str, expected: bool) -> None:
    assert allowed(robots, url, agent) is expected


# -- §2.2.2 and §2.2.3: which rule; a table of (rules, url, allowed) ------------------------------------------------

RULES = [
    # no match allows; empty Disallow is no rule
    ("Disallow: /a", "/b", True),
    ("Disallow:", "/b", True),
    ("Disallow: ", "/", True),
    # a prefix of the path and query, case-sensitive, from its start
    ("Disallow: /fish", "/fish", False),
    ("Disallow: /fish", "/fish.html", False),
    ("Disallow: /fish", "/fish/salmon", False),
    ("Disallow: /fish", "/fishheads?x", False),
    ("Disallow: /fish", "/Fish", True),
    ("Disallow: /fish", "/catfish", True),
    ("Disallow: /fish", "/?id=fish", True),
    ("Disallow: /fish/", "/fish", True),
    ("Disallow: fish", "/fish", True),
    # the most octets win; the order of lines does not matter; ties allow
    ("Allow: /p\nDisallow: /", "/page", True),
    ("Disallow: /\nAllow: /p", "/page", True),
    ("Disallow: /x/page.html\nAllow: /x/", "/x/page.html", False),
    ("Allow: /x/page.html\nDisallow: /x/", "/x/page.html", True),
    ("Disallow: /folder\nAllow: /folder", "/folder/page", True),
    ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
    ("Allow: /x/page.\nDisallow: /*.html", "/x/page.html", True),
    ("Allow: /$\nDisallow: /", "/", True),
    ("Allow: /$\nDisallow: /", "/page", False),
    ("Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/disallowed.gif", False),  # §5.2
    ("Disallow: *.gif$\nDisallow: /example/\nAllow: /publications/", "/publications/x.gif", True),  # §5.1
    ("Disallow: *.gif$\nDisallow: /example/\nAllow: /publications/", "/example/x", False),
    ("Disallow: *.gif$\nDisallow: /example/\nAllow: /publications/", "/a.gif", False),
    ("Disallow: *.gif$\nDisallow: /example/\nAllow: /publications/", "/a.gif?x", True),
    # * and $
    ("Disallow: /foo/*/qux", "/foo/bar/qux/more", False),
    ("Disallow: /foo/*/qux", "/foo//qux", False),
    ("Disallow: /foo/*/qux", "/foo/qux", True),
    ("Disallow: /*.php$", "/filename.php", False),
    ("Disallow: /*.php$", "/filename.php?a", True),
    ("Disallow: /*.php$", "/a.php/b.php", False),
    ("Disallow: /fish*.php", "/fishheads/catfish.php?p", False),
    ("Disallow: /fish*.php", "/Fish.php", True),
    ("Disallow: /a**b", "/axxb", False),
    ("Disallow: /*", "/", False),
    ("Disallow: *", "/anything", False),
    ("Disallow: /foo/bar$", "/foo/bar", False),
    ("Disallow: /foo/bar$", "/foo/bar/", True),
    ("Disallow: /a$b", "/a$b", False),  # $ inside is a literal
    ("Disallow: /a$b", "/a", True),
    ("Disallow: /path/file-with-a-%2A.html", "/path/file-with-a-*.html", False),  # §2.2.3
    ("Disallow: /path/file-with-a-%2A.html", "/path/file-with-a-x.html", True),
    ("Disallow: /path/foo-%24", "/path/foo-$", False),
    ("Disallow: /path/foo-%24", "/path/foo-$x", False),
    ("Disallow: /a$ # end", "/a", False),
    ("Disallow: /foo/quz#qux", "/foo/quz", False),
    # percent-encoding, alike on both sides (§2.2.2, with its table)
    ("Disallow: /foo/bar?baz=quz", "/foo/bar?baz=quz", False),
    ("Disallow: /foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar", False),
    ("Disallow: /foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", False),
    ("Disallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", False),
    ("Disallow: /foo/bar/\u30c4", "/foo/bar/%E3%83%84", False),
    ("Disallow: /foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", False),
    ("Disallow: /foo/bar/%e3%83%84", "/foo/bar/\u30c4", False),
    ("Disallow: /foo/bar/%62%61%7A", "/foo/bar/baz", False),
    ("Disallow: /foo/bar/baz", "/foo/bar/%62%61%7A", False),
    ("Disallow: /a%2Fb", "/a/b", True),  # an encoded slash is not a slash in a path
    ("Disallow: /a/b", "/a%2Fb", True),
    ("Disallow: /a%2fb", "/a%2Fb", False),
    ("Disallow: /~joe", "/%7Ejoe", False),
    ("Disallow: /%7ejoe/", "/~joe/x", False),
    ("Disallow: /a b", "/a%20b", False),
    ("Disallow: /a%zz", "/a%zz", False),
    ("Disallow: /it's", "/it%27s", False),
    # the query belongs to it, an empty one too
    ("Disallow: /a?", "/a?", False),
    ("Disallow: /a?", "/a", True),
    ("Disallow: /*?$", "/a?", False),
    ("Disallow: /*?$", "/a?b", True),
    ("Disallow: /*?", "/a?b", False),
    ("Disallow: /*/c", "/?a=b/c", False),
    ("Disallow: /x;p", "/x;p=1", False),
    # robots.txt itself is always allowed (§2.2.2)
    ("Disallow: /", "/robots.txt", True),
    ("Disallow: /", "/robots.txt?x", True),
    ("Disallow: /", "/robots.txt.bak", False),
    # a longer encoding counts its octets
    ("Allow: /\u30c4\nDisallow: /%E3%83%84", "/\u30c4", True),
]


@pytest.mark.parametrize(("rules", "url", "expected"), RULES)
def test_rules(rules: str, url: str, expected: bool) -> None:
    for absolute in (url, f"https://example.com{url}"):
        assert allowed(f"User-agent: *\n{rules}\n", absolute) is expected


# -- lines, endings, size -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_endings(end: str) -> None:
    robots = end.join(["User-agent: *", "Disallow: /a", "", "Allow: /a/b"])
    assert not allowed(robots, "/a")
    assert allowed(robots, "/a/b")


def test_keys_in_any_case_with_any_blanks() -> None:
    assert not allowed("uSeR-aGeNt :\tFooBot \n  DISALLOW\t:  /a  # why\n", "/a")


def test_a_bom_before_the_first_line_and_nowhere_else() -> None:
    assert not allowed(b"\xef\xbb\xbfUser-agent: *\nDisallow: /", "/x")
    assert allowed(b"User-agent: *\n\xef\xbb\xbfDisallow: /", "/x")


def test_what_big_crawlers_forgive() -> None:
    assert not allowed("useragent *\nDisalow /a", "/a")
    assert allowed("foo: *\nbar: /", "/a")


def test_500_kib_and_a_line_cut_in_two() -> None:
    filler = b"# x\n" * ((MAX_ROBOTS_BYTES - 40) // 4)
    head = b"User-agent: *\nDisallow: /a\n"
    body = head + filler
    body += b"#" * (MAX_ROBOTS_BYTES - len(body) - len(b"\nDisallow: /")) + b"\nDisallow: /tmp\n"
    robots = parse_robots(body, BOT)
    assert not robots.judge("/a").allowed
    assert robots.judge("/other").allowed  # "Disallow: /" would be the cut line
    assert robots.judge("/tmp").allowed


def test_html_or_binary_as_robots_allows() -> None:
    assert allowed(b"<html><body>Not found</body></html>", "/x")
    assert allowed(bytes(range(256)) * 50, "/x")


def test_crawl_delay_of_the_chosen_group() -> None:
    robots = b"User-agent: *\nCrawl-delay: 9\n\nUser-agent: FooBot\nCrawl-delay: 2.5\nDisallow: /a\n"
    assert parse_robots(robots, "FooBot").crawl_delay_s == 2.5
    assert parse_robots(robots, "Other").crawl_delay_s == 9
    assert parse_robots(b"User-agent: *\nCrawl-delay: soon\n", "Other").crawl_delay_s is None
    assert parse_robots(b"User-agent: *\nCrawl-delay: -1\n", "Other").crawl_delay_s is None


def test_the_verdict_names_the_line() -> None:
    verdict = parse_robots(b"User-agent: *\nDisallow: /a # secret\nAllow: /a/b\n", BOT).judge("https://x.test/a/c")
    assert (verdict.allowed, verdict.rule, verdict.reason) == (
        False,
        "Disallow: /a",
        "longest matching rule of group *",
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("disallow:/a", "disallow:/a"),
        (" DISALLOW\t :  /a   # why", "DISALLOW\t :  /a"),
        ("Disalow /a", "Disalow /a"),
        ("Disallow: /\u30c4*a", "Disallow: /\u30c4*a"),
        ("Disallow: /%E3%83%84*A$", "Disallow: /%E3%83%84*A$"),
    ],
)
def test_the_rule_is_shown_as_in_the_file(line: str, shown: str) -> None:
    robots = f"user-agent: *\n{line}\n".encode()
    assert {rule.text for rule in parse_robots(robots, BOT).group.rules} == {shown}  # type: ignore[union-attr]


WILD = [
    # markup, NULs, rubbish and blanks around what is meant
    ("<html>\n<br>\nUser-agent: *\n<br />\nDisallow: /", "/x", False),
    ("User-agent: *\n\0Disallow: /a\0", "/a", False),
    ("User-agent: *\nDisallow: /a\0b", "/a%00b", False),
    ("User-agent: *\n\xa0Disallow: /", "/x", True),  # a no-break space is no blank
    ("User-agent: *\nDisallow: /" + "a" * 20_000, "/" + "a" * 19_999, True),  # a long line is not cut
    ("User-agent: *\nDisallow: /" + "a" * 20_000, "/" + "a" * 20_000, False),
    # other records stand between agents and do not part them
    ("User-agent: FooBot\nCrawl-delay: 5\nUser-agent: b\nDisallow: /", "/x", False),
    ("User-agent: FooBot\nSitemap: http://x\nfoo: bar\nUser-agent: b\nDisallow: /", "/x", False),
    ("User-agent: FooBot\n\nUser-agent: *\nDisallow: /", "/x", False),
    ("User-agent: FooBot\nDisallow:\n\nUser-agent: *\nDisallow: /", "/x", True),
    # product tokens that only look alike
    ("User-agent: FooBot-News\nDisallow: /", "/x", True),
    ("User-agent: Foo\nDisallow: /\nUser-agent: *\nDisallow: /y", "/x", True),
    ("User-agent: Mozilla/5.0 (compatible; FooBot/2.1)\nDisallow: /", "/x", True),
    ("User-agent: FooBot, BarBot\nDisallow: /", "/x", False),
    ("User-agent: FooBot*\nDisallow: /", "/x", False),
    # a rule is a path, nothing is resolved in it; a URL is one that a browser would send
    ("User-agent: *\nDisallow: http://h.example/a", "/a", True),
    ("User-agent: *\nDisallow: /b", "/a/../b", False),
    ("User-agent: *\nDisallow: //a", "http://h.example//a/b", False),
    ("User-agent: *\nDisallow: /a", "http://h.example//a", True),
    ("User-agent: *\nDisallow: /?", "http://h.example?x", False),
    ("User-agent: *\nAllow: /$\nDisallow: /", "http://h.example/?x", False),
    # a reserved character and its encoded form differ; what may not stand in a URI equals its encoded form
    ("User-agent: *\nDisallow: /x+y", "/x%2By", True),
    ("User-agent: *\nDisallow: /?a=1%26b", "/?a=1&b", True),
    ("User-agent: *\nDisallow: /a%23b", "/a%23b", False),
    ('User-agent: *\nDisallow: /a|b^c`d{e}"f<g>', "/a%7Cb%5Ec%60d%7Be%7D%22f%3Cg%3E", False),
    ("User-agent: *\nDisallow: /a%", "/a%25", False),
]


@pytest.mark.parametrize(("robots", "url", "expected"), WILD)
def test_files_as_they_are_found(robots: str, url: str, expected: bool) -> None:
    assert allowed(robots, url) is expected


PIECES = st.text(alphabet="ab/", max_size=3)


@given(st.lists(st.one_of(PIECES, st.just("*")), max_size=6), st.text(alphabet="ab/", max_size=12), st.booleans())
@settings(max_examples=300)
def test_wildcards_match_as_the_plain_definition_says(parts: list[str], path: str, anchored: bool) -> None:
    pattern = "".join(parts) + ("$" if anchored else "")

    def slow(at_pattern: int, at_path: int) -> bool:
        if at_pattern == len(pattern):
            return True
        if pattern[at_pattern] == "$" and at_pattern == len(pattern) - 1:
            return at_path == len(path)
        if pattern[at_pattern] == "*":
            return any(slow(at_pattern + 1, at) for at in range(at_path, len(path) + 1))
        return at_path < len(path) and path[at_path] == pattern[at_pattern] and slow(at_pattern + 1, at_path + 1)

    assert _Pattern.of(pattern.encode()).matches(path.encode()) is slow(0, 0)


@given(st.binary(max_size=60))
def test_normalising_twice_changes_nothing(path: bytes) -> None:
    once = _normalise(path, is_pattern=False)
    assert _normalise(once, is_pattern=False) == once


@given(st.binary(max_size=2000), st.text(max_size=20), st.text(max_size=50))
def test_no_input_raises(body: bytes, agent: str, url: str) -> None:
    parse_robots(body, agent).judge(url)


def test_a_file_of_many_rules_is_judged_quickly_by_its_first_match() -> None:
    robots = parse_robots(b"User-agent: *\n" + b"".join(b"Disallow: /*a*b*c*%d$\n" % n for n in range(20_000)), BOT)
    assert robots.judge("/" + "abc" * 500).allowed


@given(st.binary(max_size=40).map(lambda octets: bytes(b"/ab*$%?=&AZ09-._~:@"[octet % 19] for octet in octets)))
def test_what_stands_for_itself_comes_out_as_the_long_way_says(path: bytes) -> None:
    for is_pattern in (False, True):
        prefixed = _normalise(b"\xff" + path, is_pattern=is_pattern)  # an octet that is never plain
        assert prefixed == b"%FF" + _normalise(path, is_pattern=is_pattern)
