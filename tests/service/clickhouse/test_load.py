"""Loading facts: versions, reruns, corrections, kills in the middle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client

from tests.fixtures.clickhouse import PROJECT, T0, key, observation, observations, window
from transforms.errors import PermanentError
from transforms.schemas import LINK_OBSERVATIONS, PAGE_FETCHES, TARGET_HEALTH
from warehouse.clickhouse import (
    LoadCounts,
    load,
    load_fetches,
    load_observations,
    load_target_health,
    read_observations,
    target_health_as_of,
)

pytestmark = pytest.mark.service


def versions(client: Client) -> dict[int, int]:
    return {
        row["backlink_id"]: row["ingest_version"] for row in read_observations(client, window(0)).to_pylist()
    }  # fmt: skip


def raw_rows(client: Client, table: str = "backlink_observations_fact") -> int:
    return int(client.query(f"SELECT count() FROM {table}").result_rows[0][0])


def test_every_value_comes_back_as_it_went_in(clickhouse: Client) -> None:
    full = observation(
        1, 0, tolerated=["www", "tracking"], target_rule_ids=[key("a"), key("b")], anchor_text="Füße 'n\\\t\0 «q»",
        source_canonical_url="https://site1.example/x", source_robots_indexable=False,
    )  # fmt: skip
    empty = {
        name: None for name in LINK_OBSERVATIONS.columns if LINK_OBSERVATIONS.schema.field(name).nullable
    }  # fmt: skip
    bare = observation(2, 0, "none", **{**empty, "tolerated": [], "target_rule_ids": []})
    load_observations(clickhouse, observations(full, bare))
    back = read_observations(clickhouse, window(0)).to_pylist()
    for sent, got in zip([full, bare], back, strict=True):
        assert got.pop("ingest_version") > 0
        assert got == {name: value for name, value in sent.items() if name != "ingest_version"}


def test_uuid_columns_read_as_the_ledger_spells_them(clickhouse: Client) -> None:
    load_observations(clickhouse, observations(observation(1, 0)))
    found = clickhouse.query(
        "SELECT toString(project_id), hex(source_url_hash) FROM backlink_observations_fact"
    ).result_rows
    assert str(found[0][0]).replace("-", "") == PROJECT.hex()
    assert found[0][1] == observation(1, 0)["source_url_hash"].hex().upper()


def test_unchanged_keeps_its_version_corrected_rises_new_is_new(clickhouse: Client) -> None:
    first = [observation(1, 0), observation(2, 0)]
    assert load_observations(clickhouse, observations(*first)) == LoadCounts(rows=2, new=2, corrected=0, unchanged=0)
    before = versions(clickhouse)
    again = [observation(1, 0), observation(2, 0, "missing"), observation(3, 0)]
    assert load_observations(clickhouse, observations(*again)) == LoadCounts(rows=3, new=1, corrected=1, unchanged=1)
    after = versions(clickhouse)
    assert after[1] == before[1]
    assert after[2] > before[2]
    assert after.keys() == {1, 2, 3}
    assert raw_rows(clickhouse) == 4  # the unchanged row was not written


def test_corrected_back_to_what_it_was_rises_again(clickhouse: Client) -> None:
    seen = []
    for evidence in ("found", "missing", "found"):
        load_observations(clickhouse, observations(observation(1, 0, evidence)))
        seen.append(versions(clickhouse)[1])
    assert seen == sorted(set(seen))
    assert read_observations(clickhouse, window(0))["evidence"].to_pylist() == ["found"]


def test_version_rises_when_the_clock_went_back(clickhouse: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.time, "time_ns", lambda: 2_000_000_000_000_000_000)
    load_observations(clickhouse, observations(observation(1, 0)))
    monkeypatch.setattr(load.time, "time_ns", lambda: 1_900_000_000_000_000_000)
    load_observations(clickhouse, observations(observation(1, 0, "missing"), observation(2, 0)))
    assert versions(clickhouse) == {1: 2_000_000_000_000_001, 2: 1_900_000_000_000_000}


def test_one_observation_twice_in_a_load_the_last_counts(clickhouse: Client) -> None:
    counts = load_observations(clickhouse, observations(observation(1, 0, "found"), observation(1, 0, "missing")))
    assert counts.written == 1
    assert read_observations(clickhouse, window(0))["evidence"].to_pylist() == ["missing"]


def test_killed_in_the_middle_then_run_again(clickhouse: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of three inserts is written, the second dies; the rerun writes what is missing and nothing twice."""
    monkeypatch.setattr(load, "INSERT_ROWS", 2)
    table = observations(*(observation(edge, 0) for edge in range(1, 6)))
    real, calls = clickhouse.insert_arrow, []

    def dies(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(clickhouse, "insert_arrow", dies)
    with pytest.raises(KeyboardInterrupt):
        load_observations(clickhouse, table)
    kept = versions(clickhouse)
    assert kept.keys() == {1, 2}
    assert load_observations(clickhouse, table) == LoadCounts(rows=5, new=3, corrected=0, unchanged=2)
    after = versions(clickhouse)
    assert after.keys() == {1, 2, 3, 4, 5}
    assert {edge: after[edge] for edge in kept} == kept
    assert raw_rows(clickhouse) == 5


def test_a_moved_observation_is_one_observation(clickhouse: Client) -> None:
    """Fetched again after midnight of a month's last day: another partition, still one observation."""
    last_hour = window(13)  # 2026-11-30 23:00
    load_observations(clickhouse, observations(observation(1, last_hour, minute=59)))
    load_observations(clickhouse, observations(observation(1, last_hour, minute=65)))
    got = read_observations(clickhouse, last_hour)
    assert got["observed_at"].to_pylist() == [T0 + timedelta(hours=14, minutes=5)]
    assert clickhouse.query("SELECT count() FROM backlink_observations_fact FINAL").result_rows[0][0] == 1


def test_read_by_id_and_by_window(clickhouse: Client) -> None:
    rows = [observation(edge, at) for edge in (1, 2) for at in (0, 1)]
    load_observations(clickhouse, observations(*rows))
    wanted = [rows[0]["observation_id"], rows[3]["observation_id"]]
    assert sorted(read_observations(clickhouse, observation_ids=wanted)["observation_id"].to_pylist()) == sorted(wanted)
    assert read_observations(clickhouse, window(1), observation_ids=wanted)["backlink_id"].to_pylist() == [2]
    assert read_observations(clickhouse, observation_ids=[]).num_rows == 0
    with pytest.raises(ValueError, match="window, observation ids, or both"):
        read_observations(clickhouse)


def test_nothing_is_loaded_of_rows_that_do_not_fit(clickhouse: Client) -> None:
    table = observations(observation(1, 0))
    with pytest.raises(PermanentError, match="columns are missing: evidence_hash"):
        load_observations(clickhouse, table.drop_columns(["evidence_hash"]))
    nothing = pa.nulls(1, pa.string())
    holed = table.set_column(table.schema.get_field_index("evidence"), "evidence", nothing)
    with pytest.raises(PermanentError, match="column evidence is empty in row 0"):
        load_observations(clickhouse, holed)
    with pytest.raises(PermanentError, match="could not load observations"):
        load_observations(clickhouse, observations(observation(1, 0, "perhaps")))
    assert raw_rows(clickhouse) == 0
    assert load_observations(clickhouse, LINK_OBSERVATIONS.empty()) == LoadCounts(0, 0, 0, 0)


def fetch(source: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "source_url_id": source, "source_url": f"https://site{source}.example/", "fetch_job_id": 1,
        "registrable_domain": f"site{source}.example", "outcome": "fetched", "reason": "ok",
        "http_status": 200, "is_redirected": False,
        "hops": [{"url": "https://x.example/", "gate": "response", "reason": "ok", "address": None, "status": 200}],
        "fetched_at": T0, "elapsed_ms": 12, "validation_method": "full_body", "wire_bytes": 10, "body_bytes": 20,
        "x_robots_tag": [], "link_header": ["<https://x.example/>; rel=canonical"], "warnings": [], "attempt": 1,
    }  # fmt: skip
    return row | changes


def test_fetches_loaded_again_replace(clickhouse: Client) -> None:
    load_fetches(clickhouse, PAGE_FETCHES.table([fetch(1), fetch(2, outcome="failed", reason="dns_failed")]), window(0))
    counts = load_fetches(clickhouse, PAGE_FETCHES.table([fetch(2), fetch(3)]), window(0))
    assert (counts.new, counts.corrected) == (1, 1)
    load_fetches(clickhouse, PAGE_FETCHES.table([fetch(1, outcome="gone", reason="http_404")]), window(1))
    found = clickhouse.query(
        "SELECT window_start, source_url_id, outcome, hops[1].status, link_header FROM page_fetches_fact FINAL "
        "ORDER BY 1, 2"
    ).result_rows
    hour = [at.start.replace(tzinfo=None) for at in (window(0), window(1))]
    header = ["<https://x.example/>; rel=canonical"]
    assert [tuple(row) for row in found] == [
        (hour[0], 1, "fetched", 200, header), (hour[0], 2, "fetched", 200, header),
        (hour[0], 3, "fetched", 200, header),
        (hour[1], 1, "gone", 200, header),
    ]  # fmt: skip


def health(target: int, at: int, state: str, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "target_url_id": target, "target_url": f"https://customer.example/{target}", "outcome": "fetched",
        "reason": "ok", "health": state, "http_status": 200, "is_redirected": False, "robots_indexable": True,
        "checked_at": window(at).start + timedelta(minutes=10), "elapsed_ms": 5,
    }  # fmt: skip
    return row | changes


def test_target_health_as_of_takes_the_newest_check_until_then(clickhouse: Client) -> None:
    load_target_health(clickhouse, TARGET_HEALTH.table([health(1, 0, "ok"), health(2, 0, "ok")]), window(0))
    load_target_health(clickhouse, TARGET_HEALTH.table([health(1, 1, "error"), health(3, 1, "ok")]), window(1))

    def as_of(hours: float) -> dict[int, str]:
        table = target_health_as_of(clickhouse, [1, 2, 3, 4], T0 + timedelta(hours=hours))
        assert table.schema.equals(TARGET_HEALTH.schema)
        return dict(zip(table["target_url_id"].to_pylist(), table["health"].to_pylist(), strict=True))

    assert as_of(0) == {}  # checked at 10:10
    assert as_of(1) == {1: "ok", 2: "ok"}
    assert as_of(2) == {1: "error", 2: "ok", 3: "ok"}  # 4 was never checked
    # window 1 is checked again later: its first answer no longer counts, at any time
    late = health(1, 1, "ok", checked_at=window(1).start + timedelta(minutes=50))
    load_target_health(clickhouse, TARGET_HEALTH.table([late]), window(1))
    assert as_of(1.5) == {1: "ok", 2: "ok", 3: "ok"}
    assert target_health_as_of(clickhouse, pa.array([], pa.uint64()), T0).num_rows == 0
