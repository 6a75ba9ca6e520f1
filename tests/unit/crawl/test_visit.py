"""Redirects and cookies of one visit; what statuses and bodies mean."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crawl.outcomes import (
    body_cap,
    is_login_redirect,
    looks_like_html,
    may_be_page,
    outcome_of,
    reason_of_status,
    warnings_of,
)
from crawl.politeness import backoff_s, parse_retry_after
from crawl.visit import BadLocation, Cookie, cookie_header, redirect_target, take_cookies
from transforms.reasons import Outcome, Reason

HERE = "http://a.test/dir/page?q"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/x", "http://a.test/x"),
        ("x", "http://a.test/dir/x"),
        ("?y", "http://a.test/dir/page?y"),
        ("//b.test/x", "http://b.test/x"),
        ("https://b.test", "https://b.test/"),
        (" https://b.test/ ", "https://b.test/"),
        ("/x#frag", "http://a.test/x"),
        ("/caf\xc3\xa9", "http://a.test/caf%C3%A9"),  # raw UTF-8 bytes as latin-1 text
        ("/caf\xe9", "http://a.test/caf%E9"),  # raw latin-1 byte: kept, not read as UTF-8
        ("/caf%C3%A9", "http://a.test/caf%C3%A9"),
        ("/a b", "http://a.test/a%20b"),
        ("/x?", "http://a.test/x?"),
        ("mailto:a@b.test", "mailto:a@b.test"),
    ],
)
def test_where_a_redirect_leads(location: str, target: str) -> None:
    assert redirect_target(HERE, [location]) == target


def test_equal_locations_are_one() -> None:
    assert redirect_target(HERE, ["/x", " /x"]) == "http://a.test/x"


@pytest.mark.parametrize("locations", [[], [""], ["  "], ["/a", "/b"], ["http://"], ["http://a b/"], ["http://[::1"]])
def test_a_redirect_to_nowhere(locations: list[str]) -> None:
    with pytest.raises(BadLocation):
        redirect_target(HERE, locations)


def jar(*lines: str, host: str = "a.test", scheme: str = "https") -> list[Cookie]:
    cookies: list[Cookie] = []
    take_cookies(cookies, lines, host, scheme)
    return cookies


def test_cookies_of_a_chain() -> None:
    cookies = jar(
        "a=1; Path=/; HttpOnly", "b=2; Path=/sub", "c=3; Domain=test", "d=4; Secure", "e=5; Domain=.a.test", "bad"
    )
    assert cookie_header(cookies, "a.test", "/sub/x?y", "https") == "a=1; b=2; d=4; e=5"
    assert cookie_header(cookies, "a.test", "/other", "http") == "a=1; e=5"
    assert cookie_header(cookies, "www.a.test", "/", "https") == "e=5"
    assert cookie_header(cookies, "b.test", "/", "https") == ""


def test_a_cookie_is_replaced_and_deleted() -> None:
    assert cookie_header(jar("a=1", "a=2"), "a.test", "/", "https") == "a=2"
    assert cookie_header(jar("a=1", "a=; Max-Age=0"), "a.test", "/", "https") == ""


def test_no_cookie_can_smuggle_a_header() -> None:
    assert jar("a=1\r\nX: y") == []
    assert "\n" not in cookie_header(jar("a\n=1", "b=2\n3", "c\nd=4"), "a.test", "/", "https")
    assert len(jar(*[f"n{n}=1" for n in range(100)])) == 50


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        (200, Reason.OK, Outcome.FETCHED),
        (203, Reason.OK, Outcome.FETCHED),
        (202, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
        (204, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
        (206, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
        (304, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
        (300, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
        (401, Reason.HTTP_401, Outcome.BLOCKED),
        (403, Reason.HTTP_403, Outcome.BLOCKED),
        (404, Reason.HTTP_404, Outcome.GONE),
        (410, Reason.HTTP_410, Outcome.GONE),
        (418, Reason.HTTP_4XX, Outcome.FAILED),
        (429, Reason.HTTP_429, Outcome.DEFERRED),
        (451, Reason.HTTP_4XX, Outcome.FAILED),
        (500, Reason.HTTP_5XX, Outcome.FAILED),
        (503, Reason.HTTP_503, Outcome.DEFERRED),
        (599, Reason.HTTP_5XX, Outcome.FAILED),
        (999, Reason.HTTP_UNEXPECTED, Outcome.FAILED),
    ],
)
def test_statuses(status: int, reason: Reason, outcome: Outcome) -> None:
    assert reason_of_status(status) is reason
    assert outcome_of(reason) is outcome


def test_only_a_whole_page_or_a_gone_one_may_ever_count_as_missing() -> None:
    assert {r for r in Reason if outcome_of(r) in (Outcome.FETCHED, Outcome.NOT_MODIFIED, Outcome.GONE)} == {
        Reason.OK,
        Reason.BODY_TRUNCATED,
        Reason.NOT_MODIFIED,
        Reason.HTTP_404,
        Reason.HTTP_410,
    }


def test_types() -> None:
    assert may_be_page("Text/HTML; charset=x")
    assert may_be_page("application/xhtml+xml")
    assert may_be_page("")
    assert may_be_page("nonsense")
    assert not may_be_page("application/pdf")
    assert not may_be_page("text/plain")
    assert looks_like_html(b"\xef\xbb\xbf\n <!DOCTYPE html><p>")
    assert looks_like_html(b"<html >")
    assert not looks_like_html(b"%PDF-1.7")
    assert not looks_like_html(b"plain text with <p>")
    assert body_cap(200, "text/html", 10) == 10
    assert body_cap(301, "text/html", 10**9) < 10**6


@pytest.mark.parametrize(
    ("asked", "final", "expected"),
    [
        ("http://a.test/page", "http://a.test/login?next=%2Fpage", True),
        ("http://a.test/page", "https://sso.a.test/signin", True),
        ("http://a.test/page", "http://a.test/wp-login.php?redirect_to=x", True),
        ("http://a.test/page", "https://accounts.a.test/v3/signin/identifier?continue=x", True),
        ("http://a.test/login", "http://a.test/login?next=/", False),
        ("http://a.test/page", "http://a.test/page", False),
        ("http://a.test/page", "http://a.test/blog/how-to-login-safely", False),
        ("http://a.test/page", "http://a.test/auth/about", False),
        ("http://a.test/page", "http://a.test/login-tips/", False),
    ],
)
def test_login_redirects(asked: str, final: str, expected: bool) -> None:
    assert is_login_redirect(asked, final) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<title>404 - Page Not Found</title>", ["soft_404"]),
        (b"<TITLE>Seite nicht gefunden</TITLE>", ["soft_404"]),
        (b"<title>Blog</title><h1>The page was not found in 1404</h1>", []),
        (b"<title>A</title>This domain is for sale!", ["parked"]),
        (b"<title>A</title>" + b"x" * 40_000 + b"this domain is for sale", []),
        (b"", []),
    ],
)
def test_warnings(body: bytes, expected: list[str]) -> None:
    assert warnings_of(body) == expected


NOW = datetime(2026, 12, 1, 10, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120),
        (" 0 ", 0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("99999999999999999999", 7 * 86400),
        ("Tue, 01 Dec 2026 10:02:00 GMT", 120),
        ("Tuesday, 01-Dec-26 10:02:00 GMT", 120),
        ("Tue Dec  1 10:02:00 2026", 120),
        ("Tue, 01 Dec 2026 09:00:00 GMT", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 7 * 86400),
        ("Tue, 99 Dec 2026 10:02:00 GMT", None),
    ],
)
def test_retry_after_in_both_forms(value: str | None, seconds: int | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_backoff_doubles_up_to_its_cap_with_jitter_upwards() -> None:
    plain = [backoff_s(n, 30, 3600, lambda: 0.0) for n in (1, 2, 3, 7, 8, 1000)]
    assert plain == [30, 60, 120, 1920, 3600, 3600]
    assert backoff_s(1, 30, 3600, lambda: 0.999) == pytest.approx(37.5, abs=0.1)
