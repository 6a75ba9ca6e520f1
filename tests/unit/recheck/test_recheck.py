"""When an edge is checked next: the policy by example, and what must hold for every edge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.reasons import Reason
from transforms.recheck import (
    CONFIRM_EARLIEST,
    LONGEST,
    NOT_ASKED,
    change_estimate,
    jitter,
    next_checks,
    projected_coverage,
)

T = datetime(2026, 12, 1, 10, 7, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
UTC_US = pl.Datetime("us", "UTC")
SCHEMA = {
    "backlink_id": pl.UInt64, "source_url_id": pl.UInt64, "observed_at": UTC_US, "evidence": pl.String,
    "evidence_reason": pl.String, "state": pl.String, "misses": pl.UInt8, "first_miss_at": UTC_US, "lost_at": UTC_US,
    "consecutive_failures": pl.UInt16, "retry_after_s": pl.UInt32, "interval_s": pl.UInt32,
    "change_interval_s": pl.Float64,
}  # fmt: skip


def edge(**values: Any) -> dict[str, Any]:
    return {
        "backlink_id": 1, "source_url_id": 77, "observed_at": T, "evidence": "found", "evidence_reason": "link_found",
        "state": "live", "misses": 0, "first_miss_at": None, "lost_at": None, "consecutive_failures": 0,
        "retry_after_s": None, "interval_s": 86_400, "change_interval_s": None, **values,
    }  # fmt: skip


def checks(*rows: dict[str, Any], now: datetime = T + 10 * MINUTE, window: timedelta = HOUR) -> list[dict[str, Any]]:
    return next_checks(pl.DataFrame(rows, schema=SCHEMA), now=now, window_length=window).to_dicts()


def one(*, now: datetime = T + 10 * MINUTE, window: timedelta = HOUR, **values: Any) -> dict[str, Any]:
    (row,) = checks(edge(**values), now=now, window=window)
    return row


@pytest.mark.parametrize(
    ("interval_s", "change_s", "wait"),
    [
        (86_400, None, DAY),
        (86_400, 3_600, DAY),  # changes hourly, the project wants daily
        (86_400, 3 * 86_400, 3 * DAY),
        (3_600, 2 * 3_600, 2 * HOUR),
        (None, None, DAY),  # no project interval: the default
    ],
)
def test_live_edges_by_change_interval_above_the_projects_interval(
    interval_s: int | None, change_s: float | None, wait: timedelta
) -> None:
    row = one(interval_s=interval_s, change_interval_s=change_s)
    assert (row["next_check_at"], row["confirm_not_before"], row["why"]) == (T + wait, None, "interval")


@pytest.mark.parametrize(
    ("interval_s", "change_s"), [(86_400, 30 * 86_400), (30 * 86_400, None), (7 * 86_400, None), (86_400, 1e300)]
)
def test_seven_days_is_the_limit_and_comes_up_to_a_tenth_early(interval_s: int, change_s: float | None) -> None:
    at = one(interval_s=interval_s, change_interval_s=change_s)["next_check_at"]
    assert T + 6.3 * DAY <= at <= T + 7 * DAY


def test_a_first_miss_is_confirmed_in_the_first_window_half_an_hour_later() -> None:
    for minute, starts in [(0, 11), (5, 11), (29, 11), (30, 11), (31, 12), (59, 12)]:
        miss = datetime(2026, 12, 1, 10, minute, tzinfo=UTC)
        row = one(
            now=miss + 5 * MINUTE,
            observed_at=miss,
            evidence="missing",
            evidence_reason="link_absent",
            misses=1,
            first_miss_at=miss,
        )
        assert row["why"] == "confirmation"
        assert row["confirm_not_before"] == row["next_check_at"]
        window = datetime(2026, 12, 1, starts, tzinfo=UTC)
        assert miss + 30 * MINUTE <= row["next_check_at"] <= window, minute
        assert row["next_check_at"] >= datetime(2026, 12, 1, 11, tzinfo=UTC), "not in the window that saw the miss"
        assert window - miss <= 90 * MINUTE


def test_p95_of_confirmations_is_under_two_hours_with_half_an_hour_of_crawl() -> None:
    misses = [T.replace(minute=0) + timedelta(seconds=7 * n) for n in range(514)]
    rows = checks(
        *(
            edge(
                source_url_id=n,
                observed_at=at,
                evidence="missing",
                evidence_reason="http_404",
                misses=1,
                first_miss_at=at,
            )
            for n, at in enumerate(misses)
        )
    )
    # It runs in the first run of the first window whose start is not before its time.
    waits = []
    for at, row in zip(misses, rows, strict=True):
        start = row["confirm_not_before"].replace(minute=0, second=0, microsecond=0)
        runs = start if start == row["confirm_not_before"] else start + HOUR
        waits.append(runs + 30 * MINUTE - at)
    waits.sort()
    assert waits[int(len(waits) * 0.95)] < 2 * HOUR
    assert waits[0] >= 30 * MINUTE


def test_windows_too_long_for_two_hours_confirm_in_the_next_one() -> None:
    miss = datetime(2026, 12, 1, 10, 7, tzinfo=UTC)
    row = one(
        window=DAY, observed_at=miss, evidence="missing", evidence_reason="link_absent", misses=1, first_miss_at=miss
    )
    assert row["next_check_at"] == datetime(2026, 12, 2, tzinfo=UTC)


def test_a_confirmation_that_failed_is_tried_again_and_keeps_its_earliest_time() -> None:
    row = one(
        evidence="none",
        evidence_reason="http_503",
        misses=1,
        first_miss_at=T - HOUR,
        consecutive_failures=1,
        retry_after_s=7200,
    )
    assert (row["why"], row["next_check_at"]) == ("failure", T + 2 * HOUR)
    assert row["confirm_not_before"] == T - 30 * MINUTE


def test_a_second_miss_that_came_too_early_is_confirmed_again() -> None:
    row = one(evidence="missing", evidence_reason="link_absent", misses=2, first_miss_at=T - 10 * MINUTE)
    assert row["why"] == "confirmation"
    assert row["next_check_at"] == datetime(2026, 12, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("failures", "minutes"), [(1, 5), (2, 10), (3, 20), (6, 160), (8, 640), (9, 1280), (10, 1440), (60, 1440)]
)
def test_failures_wait_exponentially_to_a_day(failures: int, minutes: int) -> None:
    window = 5 * MINUTE
    at = [
        one(
            window=window,
            now=T,
            source_url_id=n,
            evidence="none",
            evidence_reason="connect_timeout",
            consecutive_failures=failures,
        )["next_check_at"]
        - T
        for n in range(200)
    ]
    floor = datetime(2026, 12, 1, 10, 10, tzinfo=UTC) - T
    assert min(at) >= max(0.9 * minutes * MINUTE, floor)
    assert max(at) <= min(1.1 * minutes * MINUTE, DAY)
    assert len(set(at)) > 50, "spread"


def test_retry_after_is_honoured_up_to_seven_days() -> None:
    def at(seconds: int) -> datetime:
        return one(evidence="none", evidence_reason="http_429", consecutive_failures=1, retry_after_s=seconds)[
            "next_check_at"
        ]

    assert at(3 * 3600) == T + 3 * HOUR
    assert at(90 * 86_400) == T + LONGEST
    assert at(1) == datetime(2026, 12, 1, 11, tzinfo=UTC), "the next window is the earliest"


@pytest.mark.parametrize("reason", sorted(NOT_ASKED))
def test_what_was_not_asked_is_asked_in_the_next_window_however_often(reason: Reason) -> None:
    row = one(evidence="none", evidence_reason=reason.value, consecutive_failures=9)
    assert (row["why"], row["next_check_at"]) == ("not_asked", datetime(2026, 12, 1, 11, tzinfo=UTC))


def test_lost_edges() -> None:
    fresh = one(state="lost", evidence="missing", misses=2, first_miss_at=T - HOUR, lost_at=T)
    assert (fresh["why"], fresh["next_check_at"], fresh["confirm_not_before"]) == ("interval", T + DAY, None)
    old = one(state="lost", evidence="missing", misses=40, first_miss_at=T - 40 * DAY, lost_at=T - 30 * DAY - MINUTE)
    assert old["why"] == "long_lost"
    assert T + 6.3 * DAY <= old["next_check_at"] <= T + 7 * DAY


def test_edges_of_one_source_stay_together_and_a_rerun_is_the_same() -> None:
    rows = [edge(backlink_id=n, change_interval_s=1e9) for n in range(50)]
    first = checks(*rows)
    assert len({row["next_check_at"] for row in first}) == 1
    assert checks(*rows) == first
    assert [row["backlink_id"] for row in first] == list(range(50))


instants = st.integers(0, 40 * 86_400).map(lambda s: T + timedelta(seconds=s))


@st.composite
def edges(draw: st.DrawFn) -> dict[str, Any]:
    seen = draw(instants)
    state = draw(st.sampled_from(["unknown", "live", "lost"]))
    evidence = draw(st.sampled_from(["found", "missing", "none"]))
    misses = draw(st.integers(0, 5)) if evidence != "found" else 0
    if evidence == "missing":
        misses = max(misses, 1)
    first_miss = seen - timedelta(seconds=draw(st.integers(0, 100_000))) if misses else None
    return edge(
        backlink_id=draw(st.integers(0, 2**64 - 1)), source_url_id=draw(st.integers(0, 2**64 - 1)), observed_at=seen,
        state=state, evidence=evidence, misses=misses, first_miss_at=first_miss,
        evidence_reason="link_absent" if evidence == "missing" else draw(st.sampled_from([r.value for r in Reason])),
        lost_at=seen - timedelta(seconds=draw(st.integers(0, 90 * 86_400))) if state == "lost" else None,
        consecutive_failures=draw(st.integers(0, 65_535)) if evidence == "none" else 0,
        retry_after_s=draw(st.none() | st.integers(0, 2**32 - 1)),
        interval_s=draw(st.none() | st.integers(0, 2**32 - 1)),
        change_interval_s=draw(st.none() | st.floats(0, 1e12)),
    )  # fmt: skip


@settings(max_examples=150)
@given(
    st.lists(edges(), min_size=1, max_size=8),
    st.integers(0, 3 * 86_400).map(lambda s: timedelta(seconds=s)),
    st.sampled_from([5, 15, 60, 240, 1440]).map(lambda m: m * MINUTE),
)
def test_what_must_hold_for_every_edge(rows: list[dict[str, Any]], later: timedelta, window: timedelta) -> None:
    now = max(row["observed_at"] for row in rows) + later
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for row, answer in zip(rows, checks(*rows, now=now, window=window), strict=True):
        at, seen = answer["next_check_at"], row["observed_at"]
        assert at >= now, "never in the past"
        window_end = epoch + ((seen - epoch) // window + 1) * window
        assert at >= window_end, "never again in the window that checked it"
        assert at <= max(seen + LONGEST, now, window_end), "never more than 7 days"
        waits = row["misses"] > 0 and row["state"] != "lost"
        assert (answer["confirm_not_before"] is not None) == waits
        if waits:
            assert answer["confirm_not_before"] >= row["first_miss_at"] + CONFIRM_EARLIEST
            assert at >= answer["confirm_not_before"]
        if answer["why"] == "confirmation":
            assert at <= max(row["first_miss_at"] + 120 * MINUTE, now, window_end)


def test_jitter_is_even_and_known() -> None:
    ids = pl.Series(range(10_000), dtype=pl.UInt64)
    values = jitter(ids, pl.Series([T] * 10_000, dtype=UTC_US))
    assert 0 <= values.min() < 0.001  # type: ignore[operator]
    assert 0.999 < values.max() < 1  # type: ignore[operator]
    assert values.hist(bins=[n / 10 for n in range(11)])["count"].min() > 850  # type: ignore[operator]
    # A change of the function would move every schedule: this value may only change knowingly.
    mask = 2**64 - 1
    z = (77 * 0x9E3779B97F4A7C15 + int(T.timestamp()) * 1_000_000) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    expected = ((z ^ (z >> 31)) >> 11) / 2**53
    assert jitter(pl.Series([77], dtype=pl.UInt64), pl.Series([T], dtype=UTC_US))[0] == expected


# -- how often a page changes


@pytest.mark.parametrize(
    ("average_s", "quiet_h", "expected_s"),
    [
        (None, None, None),  # never fetched with a body
        (None, 10, 36_000.0),  # never seen to change: at least as slow as it has been quiet
        (72_000.0, 10, 72_000.0),  # quiet for less than its average: the average
        (3_600.0, 10, 0.3 * 36_000 + 0.7 * 3_600),  # quiet for longer: pulled up
        (72_000.0, None, 72_000.0),
    ],
)
def test_how_often_a_page_is_expected_to_change(
    average_s: float | None, quiet_h: int | None, expected_s: float | None
) -> None:
    frame = pl.DataFrame(
        {"a": [average_s], "c": [None if quiet_h is None else T - quiet_h * HOUR], "o": [T]},
        schema={"a": pl.Float64, "c": UTC_US, "o": UTC_US},
    )
    (estimate,) = frame.select(change_estimate(pl.col("a"), pl.col("c"), pl.col("o"))).to_series()
    assert estimate == (expected_s if expected_s is None else pytest.approx(expected_s))


def test_projected_coverage_names_the_hosts_that_cannot_be_reached() -> None:
    hosts = pl.DataFrame(
        {"host": ["slow", "fine", "giant", "idle"], "sources": [50_000, 100, 1_000_000, 0],
         "gap_s": [30.0, 30.0, 1.0, 1.0],
         "in_flight": [1, 1, 2, 1]}
    )  # fmt: skip
    answer = {row["host"]: row for row in projected_coverage(hosts).to_dicts()}
    # 7 d = 604,800 s; 80 % at 1.2 requests a source: 403,200 s of gaps -> 13,440 at 30 s, 806,400 at 0.5 s
    assert (answer["slow"]["capacity"], answer["slow"]["is_short"]) == (13_440, True)
    assert answer["slow"]["covered"] == pytest.approx(13_440 / 50_000)
    assert answer["slow"]["days_needed"] == pytest.approx(26.04, abs=0.01)
    assert (answer["giant"]["capacity"], answer["giant"]["is_short"]) == (806_400, True)
    assert not answer["fine"]["is_short"]
    assert answer["idle"]["covered"] == 1


@pytest.mark.parametrize(
    ("reason", "values", "why", "least", "most"),
    [
        ("link_collapse", {}, "look_again", 5.4 * HOUR, 6.6 * HOUR),
        ("maintenance", {"retry_after_s": 8 * 3600}, "look_again", 8 * HOUR, 8 * HOUR),
        ("redirect_unchecked", {"interval_s": 3 * 3600}, "look_again", 3 * HOUR, 3 * HOUR),
        ("script_shell", {}, "interval", DAY, DAY),  # it answers: nothing failed, asking hourly shows no more
        ("placeholder", {}, "interval", DAY, DAY),
        ("script_shell", {"misses": 1, "first_miss_at": T - HOUR}, "look_again", 5.4 * HOUR, 6.6 * HOUR),
        (
            "challenge",
            {"consecutive_failures": 4},
            "failure",
            53 * MINUTE,
            HOUR,
        ),  # the crawler itself saw it: a failure
    ],
)
def test_pages_that_answer_and_prove_nothing(
    reason: str, values: dict[str, Any], why: str, least: timedelta, most: timedelta
) -> None:
    row = one(evidence="none", evidence_reason=reason, **values)
    assert row["why"] == why
    assert T + least <= row["next_check_at"] <= T + most
    assert row["next_check_at"] >= T + 53 * MINUTE  # never in the window that checked it
