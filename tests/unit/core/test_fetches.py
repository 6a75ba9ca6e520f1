"""Which outcome of a source stands for a window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from transforms.fetches import latest_fetches
from transforms.schemas import PAGE_FETCHES

T0 = datetime(2026, 12, 1, 10, tzinfo=UTC)


def row(source: int, outcome: str, minute: int, attempt: int = 1, status: int | None = None) -> dict[str, Any]:
    return {
        "source_url_id": source, "source_url": f"https://s{source}.test/", "registrable_domain": f"s{source}.test",
        "fetch_job_id": source, "outcome": outcome, "reason": "ok", "is_redirected": False, "hops": [],
        "fetched_at": T0 + timedelta(minutes=minute), "elapsed_ms": 1, "validation_method": "no_body", "wire_bytes": 0,
        "body_bytes": 0, "x_robots_tag": [], "link_header": [], "warnings": [], "attempt": attempt,
        "http_status": status,
    }  # fmt: skip


def chosen(*rows: dict[str, Any]) -> list[tuple[int, str, int]]:
    table = latest_fetches(PAGE_FETCHES.table(list(rows)))
    return [(r["source_url_id"], r["outcome"], (r["fetched_at"] - T0).seconds // 60) for r in table.to_pylist()]


def test_no_rows_no_outcomes() -> None:
    assert chosen() == []


def test_the_newest_answer_stands() -> None:
    assert chosen(row(1, "fetched", 1), row(1, "fetched", 5), row(2, "gone", 3)) == [(1, "fetched", 5), (2, "gone", 3)]


def test_an_answer_stands_before_a_later_deferral() -> None:
    assert chosen(row(1, "fetched", 1), row(1, "deferred", 5)) == [(1, "fetched", 1)]


def test_a_deferral_stands_when_there_is_nothing_else() -> None:
    assert chosen(row(1, "deferred", 1), row(1, "deferred", 2)) == [(1, "deferred", 2)]


def test_a_deferral_that_the_server_asked_for_stands_before_one_that_was_never_sent() -> None:
    table = latest_fetches(PAGE_FETCHES.table([row(1, "deferred", 1, status=503), row(1, "deferred", 2)]))
    assert table["http_status"].to_pylist() == [503]
