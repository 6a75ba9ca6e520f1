"""The soak's judge sees what it is there to see: a judge that finds nothing must not be blind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.bench.crawling.cases import slope_kb
from tests.bench.soak.conductor import growth
from tests.bench.soak.scene import Scene, shard_of_host
from tests.bench.soak.verdict import Fault, Verdict, no_gap_violated, nothing_asked_again, nothing_lost, was_sent_apart
from tests.bench.soak.web import Arrival, names_itself, page

START = datetime(2026, 12, 1, 10, tzinfo=UTC)
URL = "http://www.s0.test/page/1"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def job(source: int, outcome: str | None, fetched: float | None, url: str = URL, begun: float = 0.0) -> dict[str, Any]:
    return {
        "window": START, "source_url_id": source, "url": url, "outcome": outcome,
        "fetched_at": None if fetched is None else at(fetched), "begun_at": at(begun),
    }  # fmt: skip


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema_overrides={"fetched_at": pl.Datetime("us", "UTC"), "outcome": pl.String})


def test_a_source_without_an_outcome_or_with_two_different_ones_is_seen() -> None:
    jobs = frame([job(1, "fetched", 5), job(2, None, None), job(3, "fetched", 5), job(4, "gone", 5), job(5, "gone", 5)])
    latest = frame([job(1, "fetched", 5), job(2, "fetched", 5), job(4, "gone", 6), job(5, "gone", 5)])
    verdict = Verdict()
    nothing_lost(verdict, jobs, jobs.filter(pl.col("source_url_id") != 5), latest)
    assert verdict.broken == {
        "due sources without an outcome": 2,  # 2: none in the ledger; 3: none in Parquet
        "outcomes that differ between ledger and Parquet": 1,  # 4: other times
        "due sources in only one of ledger and Parquet": 1,  # 5
    }


@pytest.mark.parametrize(
    ("arrived", "again"),
    [
        (0.5, 0),  # after the claim, before the outcome
        (5.0, 0),
        (5.2, 1),  # after the outcome
        (301.0, 0),  # the next window's job
        (-1.0, 1),  # before anybody claimed it
    ],
)
def test_a_request_outside_of_every_job_was_one_too_many(arrived: float, again: int) -> None:
    jobs = frame([job(1, "fetched", 5), job(1, "fetched", 306, begun=300)])
    verdict = Verdict()
    seen = {"http://www.s0.test": [Arrival(at(arrived).timestamp(), "/page/1?again")]}
    nothing_asked_again(verdict, jobs, seen)
    assert verdict.broken == ({"requests of a page after its outcome was committed": 1} if again else {})
    assert verdict.figures["page requests (retries and hops included)"] == 1


def test_a_deferred_page_may_be_asked_again() -> None:
    verdict = Verdict()
    seen = {"http://www.s0.test": [Arrival(at(60).timestamp(), "/page/1")]}
    nothing_asked_again(verdict, frame([job(1, "deferred", 5)]), seen)
    assert verdict.broken == {}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(str(tmp_path), hosts=8, pages=1, shards=4, window_s=300, gap_s=1.0)


def judged(scene: Scene, arrivals: list[Arrival], sends: str = "", faults: list[Fault] | None = None) -> Verdict:
    (scene.path / "sends-0-0.log").write_text(sends)
    verdict = Verdict()
    no_gap_violated(verdict, scene, {"http://www.s0.test": arrivals}, faults or [])
    return verdict


GAPS = "gaps below 80% of 1 s at the server"


def test_a_short_gap_is_seen_and_told_from_a_late_arrival(scene: Scene) -> None:
    pages = [Arrival(100.0, "/page/1"), Arrival(100.5, "/page/2"), Arrival(101.51, "/page/3")]
    assert judged(scene, pages).broken == {GAPS: 1}
    apart = "99.500000 http://www.s0.test\n100.500000 http://www.s0.test\n101.500000 http://www.s0.test\n"
    verdict = judged(scene, pages, apart)  # the first arrived half a second late
    assert verdict.broken == {}
    assert verdict.figures["  besides, short at the server but sent a gap apart (jitter)"] == 1
    close = "99.990000 http://www.s0.test\n100.490000 http://www.s0.test\n"
    assert judged(scene, pages, close).broken == {GAPS: 1}


def test_a_short_gap_names_what_went_before(scene: Scene) -> None:
    shard = shard_of_host("www.s0.test", 4)
    other = next(f"www.s{n}.test" for n in range(1, 8) if shard_of_host(f"www.s{n}.test", 4) != shard)
    hop = [Arrival(100.0, "/page/1"), Arrival(100.1, f"/hop/from/{other}")]
    assert judged(scene, hop).figures["  by what went before"] == {"a hop from another shard": 1}
    robots = [Arrival(100.0, "/page/1"), Arrival(100.1, "/robots.txt"), Arrival(101.1, f"/hop/from/{other}")]
    assert judged(scene, robots).figures["  by what went before"] == {"a hop from another shard": 1}
    plain = [Arrival(100.0, "/page/1"), Arrival(100.1, "/page/2")]
    faults = [Fault(99.0, "SIGKILL", shard), Fault(99.5, "SIGTERM", shard + 1), Fault(99.8, "store down")]
    assert judged(scene, plain, faults=faults).figures["  by what went before"] == {"after SIGKILL, store down": 1}
    assert judged(scene, plain).figures["  by what went before"] == {"nothing special": 1}


def test_what_is_not_known_to_have_been_sent_apart_was_not() -> None:
    assert was_sent_apart([99.0, 100.0], 99.6, 100.0, 1.0)
    assert not was_sent_apart([99.0], 99.6, 100.0, 1.0)  # the second's sending was not noted
    assert not was_sent_apart([], 99.6, 100.0, 1.0)


def test_a_page_names_itself_and_no_other() -> None:
    assert names_itself(page("www.s1.test/page/1", "7"), "www.s1.test/page/1")
    assert not names_itself(page("www.s1.test/page/11", "7"), "www.s1.test/page/1")


def test_growth_is_that_of_the_last_third_over_the_first() -> None:
    flat = [(float(n), 200.0, 40) for n in range(60)]
    assert growth(flat) == (0.0, 0)
    rising = [(float(n), 200.0 + n, 40 + n) for n in range(60)]
    assert growth(rising) == (34.0, 34)  # 50 samples after the warm-up; medians of the outer 16
    assert growth([]) == (0.0, 0)


def test_the_slope_is_in_kib_per_thousand_pages() -> None:
    assert slope_kb([[1000, 100.0], [2000, 101.0], [3000, 102.0]]) == pytest.approx(1024)
    assert slope_kb([[1000, 100.0]]) == 0.0
