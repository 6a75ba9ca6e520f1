"""When an edge is checked next. A pure, set-based policy over what the last check said. Here: next checks, the
estimate of how often a page changes, projected coverage. Not here: claiming
(`warehouse.ledger`).

| the edge | next check |
|---|---|
| a miss waits for confirmation | 30 to 120 min after the first miss, in the first window that allows it |
| the check failed (evidence `none`) | 5 min, doubled with each failure in a row, to 24 h, ±10 %; honours Retry-After |
| it was not asked (budget, stop signal) | the next window |
| the page answered and will be itself again (`AGAIN_SOON`) | 6 h ±10 %, or a shorter interval; honours Retry-After |
| the page answered and proves nothing (`PROVES_NOTHING`) | as a live edge; where a miss waits, as above |
| live, or lost for less than 30 days | the estimated change interval, between the project's interval and 7 days |
| lost for more than 30 days | weekly |

Always: never more than 7 days after the check, whatever a project or a server asks for; never in the past; never in the
window that checked it (a source is validated once a window). Waits at the 7-day limit come up to 10 % early, which
leaves room for the queue and keeps hosts that were lost together from coming back together.

A confirmation is due at a random point between "30 minutes after the first miss" and the start of the next window from
there, so that this window's first run takes it. With windows of an hour it runs 30 to 90 minutes after the miss, and
the crawl has half an hour to stay under two hours; windows longer than 90 minutes cannot promise that.

Jitter is made of the source's id and the time of the check: the edges of a source stay together, and a rerun gives the
same times.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import numpy as np
import polars as pl

from transforms.reasons import Evidence, Reason

CONFIRM_EARLIEST = timedelta(minutes=30)
CONFIRM_LATEST = timedelta(minutes=120)
FAILURE_FIRST = timedelta(minutes=5)
FAILURE_LONGEST = timedelta(hours=24)
FAILURE_JITTER = 0.10
LOOK_AGAIN = timedelta(hours=6)
LONGEST = timedelta(days=7)
EARLY_SHARE = 0.10
LOST_LONG_AGO = timedelta(days=30)
EMA_ALPHA = 0.3

NOT_ASKED = frozenset({Reason.WINDOW_BUDGET, Reason.STOPPED, Reason.NOT_FETCHED})
"""Reasons that say nothing about the source: coverage debt, to be paid in the next window."""

AGAIN_SOON = frozenset({Reason.LINK_COLLAPSE, Reason.MAINTENANCE, Reason.REDIRECT_UNCHECKED})
"""The page answered and is likely to be itself again. Often enough to believe a collapse after a day
(`transforms.collapse`), and no burden to anybody."""

PROVES_NOTHING = frozenset({
    Reason.BODY_TRUNCATED, Reason.PARSE_TRUNCATED, Reason.PARSE_TIMEOUT, Reason.PARSE_FAILED, Reason.SCRIPT_SHELL,
    Reason.CHALLENGE, Reason.CONSENT_WALL, Reason.EMPTY_BODY, Reason.PLACEHOLDER,
})  # fmt: skip
"""What a page may be that was fetched without failure and still proves nothing. Where the fetch counts as a failure (a
challenge that the crawler itself saw), the failures' wait holds."""

_US: Literal["us"] = "us"


def next_checks(
    edges: pl.DataFrame, *, now: datetime, window_length: timedelta, default_interval: timedelta = timedelta(days=1)
) -> pl.DataFrame:
    """`backlink_id`, `next_check_at`, `confirm_not_before` (null unless a miss waits), `why` — in the order of `edges`.

    `why` is confirmation | failure | not_asked | look_again | interval | long_lost. `edges` has one row per edge, as it stands after
    its newest observation:

    - `backlink_id`, `source_url_id` (UInt64)
    - `observed_at` (Datetime UTC), `evidence`, `evidence_reason` of that observation
    - `state` (unknown | live | lost), `misses`, `first_miss_at`, `lost_at` after it
    - `consecutive_failures`: fetches of the source in a row, this one included, that failed (0: it answered)
    - `retry_after_s`: Retry-After of the last fetch, or null
    - `interval_s`: the project's interval in seconds, or null (then `default_interval`)
    - `change_interval_s`: estimated change interval of the source (`change_estimate`), or null
    """
    seen = pl.col("observed_at").dt.cast_time_unit(_US)
    length_us = window_length // timedelta(microseconds=1)
    frame = edges.with_columns(
        _seen=seen.dt.epoch(_US),
        _u=jitter(edges["source_url_id"], edges["observed_at"]),
    ).with_columns(
        # The window that holds the check has ended, and it is not yesterday.
        _floor=pl.max_horizontal((pl.col("_seen") // length_us + 1) * length_us, pl.lit(_us(now))),
    )
    waits = (pl.col("misses") > 0) & (pl.col("state") != "lost") & pl.col("first_miss_at").is_not_null()
    is_none = pl.col("evidence") == Evidence.NONE.value
    not_asked = is_none & pl.col("evidence_reason").is_in([reason.value for reason in NOT_ASKED])
    soon = is_none & pl.col("evidence_reason").is_in([reason.value for reason in AGAIN_SOON])
    idle = (
        is_none
        & pl.col("evidence_reason").is_in([reason.value for reason in PROVES_NOTHING])
        & (pl.col("consecutive_failures") == 0)
    )
    long_lost = (pl.col("state") == "lost") & (
        pl.col("_seen") - pl.col("lost_at").dt.epoch(_US) > LOST_LONG_AGO // timedelta(microseconds=1)
    ).fill_null(value=False)
    frame = frame.with_columns(
        why=pl.when(not_asked)
        .then(pl.lit("not_asked"))
        .when(soon | (idle & waits))
        .then(pl.lit("look_again"))
        .when(is_none & ~idle)
        .then(pl.lit("failure"))
        .when(waits & ~is_none)
        .then(pl.lit("confirmation"))
        .when(long_lost)
        .then(pl.lit("long_lost"))
        .otherwise(pl.lit("interval")),
        _earliest=pl.when(waits).then(pl.col("first_miss_at").dt.epoch(_US) + _span(CONFIRM_EARLIEST)),
    ).with_columns(
        _at=pl.when(pl.col("why") == "not_asked")
        .then(pl.max_horizontal("_floor", "_earliest"))
        .when(pl.col("why") == "failure")
        .then(pl.max_horizontal(pl.col("_seen") + _failure_wait(), "_floor", "_earliest"))
        .when(pl.col("why") == "look_again")
        .then(pl.max_horizontal(pl.col("_seen") + _look_again(default_interval), "_floor", "_earliest"))
        .when(pl.col("why") == "confirmation")
        .then(_confirmation(length_us))
        .otherwise(pl.max_horizontal(pl.col("_seen") + _interval(default_interval), "_floor")),
    )
    # 7 days always; a check that came that late already is due at once, not in the past.
    latest = pl.max_horizontal(pl.col("_seen") + _span(LONGEST), "_floor")
    at = pl.min_horizontal("_at", latest)
    utc = pl.Datetime(_US, "UTC")
    return frame.select(
        "backlink_id",
        next_check_at=at.cast(pl.Int64).cast(utc),
        confirm_not_before=pl.when(waits & (pl.col("why") == "confirmation"))
        .then(at)
        .when(waits)
        .then("_earliest")
        .cast(pl.Int64)
        .cast(utc),
        why="why",
    )


def _failure_wait() -> pl.Expr:
    """Microseconds after the check. Retry-After comes on top of nothing: it is a lower bound."""
    doublings = pl.col("consecutive_failures").clip(1, 20).cast(pl.Int64) - 1
    wait = pl.lit(_span(FAILURE_FIRST)) * pl.lit(2, pl.Int64).pow(doublings)
    wait = pl.min_horizontal(wait, pl.lit(_span(FAILURE_LONGEST)))
    jittered = (wait * (1 - FAILURE_JITTER + 2 * FAILURE_JITTER * pl.col("_u"))).cast(pl.Int64)
    asked = pl.col("retry_after_s").fill_null(0).cast(pl.Int64) * 1_000_000
    return pl.max_horizontal(pl.min_horizontal(jittered, pl.lit(_span(FAILURE_LONGEST))), asked)


def _look_again(default: timedelta) -> pl.Expr:
    """Microseconds after the check: a quarter of a day, or what the project wants if that is shorter."""
    jittered = (_span(LOOK_AGAIN) * (1 - FAILURE_JITTER + 2 * FAILURE_JITTER * pl.col("_u"))).cast(pl.Int64)
    interval = pl.coalesce(pl.col("interval_s").cast(pl.Int64) * 1_000_000, pl.lit(_span(default)))
    asked = pl.col("retry_after_s").fill_null(0).cast(pl.Int64) * 1_000_000
    return pl.max_horizontal(pl.min_horizontal(jittered, interval), asked)


def _confirmation(length_us: int) -> pl.Expr:
    base = pl.max_horizontal("_earliest", "_floor")
    boundary = -(-base // length_us) * length_us
    latest = pl.max_horizontal(pl.col("_earliest") + _span(CONFIRM_LATEST - CONFIRM_EARLIEST), base)
    return base + ((pl.min_horizontal(boundary, latest) - base) * pl.col("_u")).cast(pl.Int64)


def _interval(default: timedelta) -> pl.Expr:
    longest = pl.lit(_span(LONGEST))
    least = pl.coalesce(pl.col("interval_s").cast(pl.Int64) * 1_000_000, pl.lit(_span(default)))
    estimate = (pl.col("change_interval_s").cast(pl.Float64) * 1_000_000).clip(0, 10 * _span(LONGEST)).cast(pl.Int64)
    wait = pl.max_horizontal(least, estimate)  # a null estimate leaves the project's interval
    early = (longest * (1 - EARLY_SHARE * pl.col("_u"))).cast(pl.Int64)
    return pl.when((pl.col("why") == "long_lost") | (wait >= longest)).then(early).otherwise(wait)


def change_estimate(average_s: pl.Expr, last_changed_at: pl.Expr, observed_at: pl.Expr) -> pl.Expr:
    """Seconds between two changes of a page, as should be expected now; null while nothing is known of it.

    `average_s` is the exponential average that the ledger keeps (weight 0.3 for the newest interval, see
    `warehouse/ledger/sql/fetches/commit.sql`). A page that has been quiet for longer than that pulls it up, without
    being written back; one that was never seen to change is at least as slow as it has been quiet.
    """
    quiet = (observed_at - last_changed_at).dt.total_microseconds() / 1e6
    pulled = pl.when(quiet > average_s).then(EMA_ALPHA * quiet + (1 - EMA_ALPHA) * average_s).otherwise(average_s)
    return pl.coalesce(pulled, quiet)


def projected_coverage(
    hosts: pl.DataFrame, *, busy_share: float = 0.8, requests_per_source: float = 1.2
) -> pl.DataFrame:
    """Hosts whose permitted rate cannot reach their sources in 7 days: to be shown, never to be pushed.

    `hosts`: `host`, `sources` (pages that need a check a week), `gap_s` (seconds between requests that the host, its
    robots.txt or an operator allows), `in_flight` (requests at once). Adds `capacity` (sources a week, when
    `busy_share` of the time is used and a source takes `requests_per_source` with redirects and robots),
    `days_needed`, `covered` (0 to 1) and `is_short`; the shortest first.
    """
    per_second = pl.col("in_flight").clip(1) / pl.col("gap_s").clip(0.001)
    capacity = (LONGEST.total_seconds() * busy_share / requests_per_source * per_second).floor()
    return (
        hosts.with_columns(capacity=capacity.cast(pl.UInt64))
        .with_columns(
            days_needed=(pl.col("sources") / pl.col("capacity").clip(1) * 7).round(2),
            covered=(pl.col("capacity") / pl.col("sources").clip(1)).clip(0, 1),
            is_short=pl.col("sources") > pl.col("capacity"),
        )
        .sort("covered", "host")
    )


def jitter(source_url_ids: pl.Series, observed_at: pl.Series) -> pl.Series:
    """A number in [0, 1) made of a source and an instant: evenly spread, the same in every rerun and everywhere."""
    times = observed_at.dt.epoch(_US).cast(pl.UInt64)
    return pl.Series(_unit(source_url_ids.cast(pl.UInt64).to_numpy(), times.to_numpy()))


def _unit(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele, Lea and Flood 2014) over both numbers; the top 53 bits as a fraction."""
    with np.errstate(over="ignore"):
        z = left * np.uint64(0x9E3779B97F4A7C15) + right
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _span(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _us(at: datetime) -> int:
    if at.tzinfo is None:
        raise ValueError(f"time without a zone: {at!r}")
    return round(at.timestamp() * 1_000_000)
