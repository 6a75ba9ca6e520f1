"""Status semantics, expiry, versions and the last good copy of a robots.txt (RFC 9309 §2.3, §2.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crawl.config import CrawlSettings
from crawl.robots import RobotsBook
from transforms.reasons import Reason

NOW = datetime(2026, 12, 1, 10, tzinfo=UTC)
ORIGIN = "https://a.test:443"
URL = "https://a.test/private"
RULES = b"User-agent: *\nDisallow: /private\n"


def book() -> RobotsBook:
    return RobotsBook(CrawlSettings())


@pytest.mark.parametrize("status", [200, 203, 206])
def test_2xx_is_read(status: int) -> None:
    state = book().answered(ORIGIN, status, RULES, None, NOW)
    assert (state.record.status_class, state.judge(URL).allowed) == ("ok", False)
    assert state.judge("https://a.test/public").allowed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451, 499])
def test_4xx_means_no_restriction(status: int) -> None:
    state = book().answered(ORIGIN, status, b"User-agent: *\nDisallow: /", None, NOW)
    assert (state.record.status_class, state.judge(URL).allowed) == ("unavailable", True)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_5xx_and_429_disallow_for_now(status: int) -> None:
    state = book().answered(ORIGIN, status, b"", None, NOW)
    assert (state.record.status_class, state.judge(URL).allowed) == ("unreachable", False)
    assert state.judge("https://a.test/public").allowed is False


def test_no_answer_disallows_for_now_and_is_asked_again_soon() -> None:
    robots = book()
    state = robots.unreachable(ORIGIN, NOW, Reason.CONNECT_TIMEOUT, "no answer")
    assert state.judge(URL).allowed is False
    assert robots.state(ORIGIN, NOW + timedelta(seconds=599)) is state
    assert robots.state(ORIGIN, NOW + timedelta(seconds=600)) is None


def test_the_last_good_copy_stands_in_for_24_hours() -> None:
    robots = book()
    robots.answered(ORIGIN, 200, RULES, "max-age=3600", NOW)
    later = NOW + timedelta(hours=2)
    assert robots.state(ORIGIN, later) is None
    state = robots.answered(ORIGIN, 503, b"", None, later)
    assert state.judge(URL).allowed is False
    assert state.judge("https://a.test/public").allowed
    too_late = NOW + timedelta(hours=24, seconds=1)
    assert robots.state(ORIGIN, too_late) is None
    state = robots.answered(ORIGIN, 503, b"", None, too_late)
    assert state.judge("https://a.test/public").allowed is False


def test_the_good_copy_survives_a_row_of_failures_and_a_restart() -> None:
    first = book()
    first.answered(ORIGIN, 200, RULES, "max-age=600", NOW)
    failed = first.unreachable(ORIGIN, NOW + timedelta(hours=1), None, "reset").record
    assert failed.last_good_at == NOW
    second = book()
    second.take_in([failed], NOW + timedelta(hours=3))
    state = second.unreachable(ORIGIN, NOW + timedelta(hours=3), None, "reset")
    assert state.judge("https://a.test/public").allowed
    assert not state.judge(URL).allowed


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 86400),
        ("max-age=3600", 3600),
        ("public, max-age = 7200", 7200),
        ("max-age=999999999", 86400),
        ("max-age=0", 300),
        ("no-store", 86400),
        ("s-maxage=5", 86400),
    ],
)
def test_expiry_is_at_most_a_day_and_never_below_five_minutes(header: str | None, seconds: int) -> None:
    record = book().answered(ORIGIN, 200, RULES, header, NOW).record
    assert record.expires_at - NOW == timedelta(seconds=seconds)


def test_the_version_changes_with_the_rules_and_only_then() -> None:
    versions = [book().answered(ORIGIN, 200, body, None, NOW).record.version for body in (RULES, RULES, RULES + b"#")]
    assert versions[0] == versions[1] != versions[2]
    assert book().answered(ORIGIN, 404, b"", None, NOW).record.version not in versions


def test_records_of_an_earlier_window_are_believed_until_they_expire() -> None:
    record = book().answered(ORIGIN, 200, RULES, None, NOW).record
    robots = book()
    robots.take_in([record], NOW + timedelta(hours=23))
    state = robots.state(ORIGIN, NOW + timedelta(hours=23))
    assert state is not None
    assert not state.judge(URL).allowed
    assert robots.state(ORIGIN, NOW + timedelta(hours=24)) is None


def test_crawl_delay_is_capped() -> None:
    state = book().answered(ORIGIN, 200, b"User-agent: *\nCrawl-delay: 3600\n", None, NOW)
    assert state.crawl_delay_s(30.0) == 30.0


def test_the_largest_files_make_room_and_allow_nothing_until_they_are_asked_again() -> None:
    robots = RobotsBook(CrawlSettings(robots_memory_bytes=3000))
    large = b"User-agent: *\nAllow: /\n" + b"#" * 1000
    first = [robots.answered(f"https://{n}.evil.test:443", 200, large, None, NOW) for n in range(2)]
    small = robots.answered(ORIGIN, 200, RULES, None, NOW)
    assert [state.judge("/x").allowed for state in (*first, small)] == [True, True, True]
    third = robots.answered("https://3.evil.test:443", 200, large, None, NOW)
    states = [robots.state(f"https://{n}.evil.test:443", NOW) for n in (0, 1, 3)]
    assert sorted(state is not None and state.is_denied for state in states) == [False, False, True]
    gone = next(state for state in states if state is not None and state.is_denied)
    assert "too large to be kept" in gone.judge("/x").reason
    assert gone.record.status_class == "unreachable"
    assert third in states
    assert robots.state(ORIGIN, NOW) is small  # the small file of somebody else stays
    assert robots.state(gone.record.origin, NOW + timedelta(seconds=600)) is None  # it is asked again


def test_the_limit_counts_what_is_there_and_nothing_else() -> None:
    robots = RobotsBook(CrawlSettings(robots_memory_bytes=1500))
    body = b"User-agent: *\nDisallow: /x\n" + b"#" * 972
    for n in range(20):  # the same origin again and again; others that are forgotten; expiry; failures
        at = NOW + timedelta(days=2 * n)
        robots.answered(ORIGIN, 200, body, None, at)
        state = robots.state(ORIGIN, at)
        assert state is not None
        assert not state.is_denied
        assert robots.state(ORIGIN, at + timedelta(days=1)) is None
        robots.unreachable(ORIGIN, at + timedelta(days=1), None, "reset")
        robots.forget(ORIGIN)
        robots.answered(f"https://{n}.test:443", 200, body[:400], None, at)
        robots.forget(f"https://{n}.test:443")
    assert len(robots) == 0
    record = RobotsBook(CrawlSettings()).answered(ORIGIN, 200, body, "max-age=600", NOW).record
    for _ in range(5):
        robots.take_in([record], NOW + timedelta(hours=1))
    assert robots.has_stand_in(ORIGIN, NOW + timedelta(hours=1))
    robots.take_in([replace(record, origin="https://b.test:443")], NOW + timedelta(hours=1))
    assert len(robots) == 1  # of two expired copies one had to go


def test_rules_are_read_again_when_they_were_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl.robots.book.PARSED_BYTES", 1000)
    robots = book()
    states = [
        robots.answered(f"https://{n}.test:443", 200, b"User-agent: *\nDisallow: /%d\n" % n, None, NOW)
        for n in range(50)
    ]
    for _ in range(2):
        for n, state in enumerate(states):
            assert not state.judge(f"/{n}").allowed
            assert state.judge("/other").allowed


def test_a_crawl_delay_is_known_without_the_rules() -> None:
    state = book().answered(ORIGIN, 200, b"User-agent: *\nCRAWL-DELAY: 7\nDisallow: /x\n", None, NOW)
    assert (state.crawl_delay_s(30.0), state.crawl_delay_s(5.0)) == (7.0, 5.0)
    assert book().answered(ORIGIN, 200, b"User-agent: Other\nCrawl-delay: 7\n", None, NOW).crawl_delay_s(30.0) == 0.0
