"""Write-back: one transaction, idempotent, never backwards, corrections replace what was wrong."""

# ruff: noqa: E501
from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from warehouse.ledger import Ledger, LedgerConstraint, claims, projects
from warehouse.ledger.tables import ALERT_OUTBOX
from warehouse.ledger.writeback import apply_batch, read_intervals, recent_alerts

pytestmark = pytest.mark.service


@pytest.fixture
def claimed(ledger: Ledger) -> tuple[data.Scene, list[dict[str, Any]]]:
    """A project with three edges that the window has claimed."""
    made = data.scene(ledger)
    claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    return made, [row for row in claim.expected.to_pylist() if row["project_id"] == made.project.id]


def rows(ledger: Ledger, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    with ledger.transaction() as tx:
        return tx.rows(sql, params)


def table_state(ledger: Ledger, project: bytes) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that write-back writes for a project, without times of writing."""
    of = "backlink_id IN (SELECT id FROM backlinks WHERE project_id = %(p)s)"
    queries = {
        "backlinks": "SELECT id, current_state, state_version, consecutive_failures, next_check_at, last_observation_id FROM backlinks WHERE project_id = %(p)s",
        "observations": f"SELECT id, state, transition_event, state_version FROM backlink_observations WHERE {of}",
        "occurrences": f"SELECT backlink_id, occurrence_key, is_live FROM backlink_occurrences WHERE {of}",
        "matches": "SELECT backlink_id, project_target_id, is_active FROM backlink_target_matches WHERE project_id = %(p)s",
        "alerts": "SELECT id, event_type, retracted_at IS NOT NULL FROM alert_events WHERE project_id = %(p)s",
        "deliveries": "SELECT d.alert_event_id, d.channel, d.status FROM alert_deliveries d JOIN alert_events e ON e.id = d.alert_event_id WHERE e.project_id = %(p)s",
        "outbox": "SELECT id, event_key FROM transactional_outbox WHERE partition_key LIKE CONCAT(LOWER(HEX(%(p)s)), '%%')".replace(
            "%%", "%"
        ),
        "stats": "SELECT stat_date, observations_count, new_count, lost_count, recovered_count FROM project_backlink_daily_stats WHERE project_id = %(p)s",
        "runs": "SELECT id, status, pages_planned, pages_completed, pages_failed FROM crawl_runs WHERE project_id = %(p)s",
    }
    return {name: sorted(rows(ledger, sql, p=project), key=repr) for name, sql in queries.items()}


def test_a_window_is_written_whole_and_once(ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]) -> None:
    scene, edges = claimed
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="all",
        event_types=["backlink.new"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    observations = [
        data.observation_row(edges[0], target_rule_ids=[scene.target_rule]),
        data.observation_row(edges[1], evidence="none"),
        data.observation_row(edges[2], evidence="missing"),
    ]
    states = [
        data.state_row(observations[0], "live", event="new"),
        data.state_row(observations[1], "unknown"),
        data.state_row(observations[2], "unknown", misses=1, first_miss_at=NOW),
    ]
    confirm = NOW + timedelta(minutes=45)
    batch = data.batch(
        states,
        observations,
        alerts=[data.alert_row(states[0], rule, "backlink.new")],
        occurrences=[{
            "backlink_id": edges[0]["backlink_id"], "occurrence_key": b"k" * 32, "position": 4, "kind": "a", "link_url": edges[0]["target_url"],
            "anchor_text": "our friends", "rel_nofollow": False, "rel_ugc": False, "rel_sponsored": False, "follow": "follow",
            "is_image": False, "placement": "content", "locator": "main>p>a", "observed_at": NOW,
        }],
        schedule=[
            {"backlink_id": edges[0]["backlink_id"], "next_check_at": NOW + timedelta(days=30)},
            {"backlink_id": edges[1]["backlink_id"], "next_check_at": NOW + timedelta(minutes=5)},
            {"backlink_id": edges[2]["backlink_id"], "next_check_at": confirm, "confirm_not_before": confirm},
        ],
    )  # fmt: skip

    counts = apply_batch(ledger, batch, now=NOW)

    assert counts == {
        "observations": 3,
        "edges": 3,
        "occurrences": 1,
        "alert_events": 1,
        "retracted": 0,
        "deliveries": 1,
        "outbox": 1,
        "pages": 3,
    }
    assert rows(
        ledger,
        "SELECT current_state, last_evidence, last_reason, consecutive_failures, next_check_at, confirm_not_before, anchor_text, follow, "
        "source_http_status, ever_live, last_seen_live_at FROM backlinks WHERE project_id = %(p)s ORDER BY id",
        p=scene.project.id,
    ) == [
        # no edge waits longer than seven days, whatever the schedule says
        ("live", "found", "link_found", 0, NOW + timedelta(days=7), None, "our friends", "follow", 200, 1, NOW),
        ("unknown", "none", "http_5xx", 0, NOW + timedelta(minutes=5), None, None, None, 503, 0, None),
        ("unknown", "missing", "link_absent", 1, confirm, confirm, None, None, 200, 0, None),
    ]
    after = table_state(ledger, scene.project.id)
    assert after["runs"] == [(edges[0]["crawl_run_id"], "partial", 3, 2, 1)]
    assert after["stats"] == [(NOW.date(), 3, 1, 0, 0)]
    assert after["matches"] == [(edges[0]["backlink_id"], scene.target_rule, 1)]

    again = apply_batch(ledger, batch, now=NOW + timedelta(minutes=1))
    assert set(again.values()) == {0}
    assert table_state(ledger, scene.project.id) == after


def test_an_older_batch_moves_nothing_backwards(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    scene, edges = claimed
    old = data.observation_row(edges[0], version=5)
    new = data.observation_row(edges[0], evidence="missing", version=9)
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="n",
        event_types=["backlink.new"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    apply_batch(ledger, data.batch([data.state_row(new, "unknown", misses=1)], [new]), now=NOW)
    before = table_state(ledger, scene.project.id)

    stale = data.state_row(old, "live", event="new")
    counts = apply_batch(
        ledger, data.batch([stale], [old], alerts=[data.alert_row(stale, rule, "backlink.new")]), now=NOW
    )

    assert (
        counts["edges"]
        == counts["observations"]
        == counts["alert_events"]
        == counts["deliveries"]
        == counts["outbox"]
        == 0
    )
    assert table_state(ledger, scene.project.id) == before


def test_a_correction_retracts_the_alert_and_tells_the_outbox(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    scene, edges = claimed
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="l",
        event_types=["backlink.lost"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    wrong = data.observation_row(edges[0], evidence="missing", version=10)
    lost = data.state_row(wrong, "lost", event="lost")
    alert = data.alert_row(lost, rule)
    apply_batch(ledger, data.batch([lost], [wrong], alerts=[alert]), now=NOW)
    state = table_state(ledger, scene.project.id)
    assert state["backlinks"][0][1] == "lost" or any(row[1] == "lost" for row in state["backlinks"])
    assert [row[2] for row in state["deliveries"]] == ["pending"]

    right = data.observation_row(edges[0], version=20)  # a parser fix found it after all
    live = data.state_row(right, "live")
    counts = apply_batch(ledger, data.batch([live], [right]), now=NOW)

    assert (counts["edges"], counts["observations"], counts["retracted"], counts["outbox"]) == (
        1,
        2,
        1,
        1,
    )  # upsert counts 2
    state = table_state(ledger, scene.project.id)
    assert [row[1:] for row in state["alerts"]] == [("backlink.lost", 1)]
    assert [row[2] for row in state["deliveries"]] == ["cancelled"]
    assert state["stats"] == [(NOW.date(), 1, 0, 0, 0)]
    assert len(state["outbox"]) == 2

    lost_again = {**lost, "state_version": 30}
    wrong_again = {**wrong, "ingest_version": 30}
    apply_batch(ledger, data.batch([lost_again], [wrong_again], alerts=[alert]), now=NOW)
    state = table_state(ledger, scene.project.id)
    assert [row[1:] for row in state["alerts"]] == [("backlink.lost", 0)]
    assert [row[2] for row in state["deliveries"]] == ["pending"]


@pytest.mark.parametrize(("told", "deliveries"), [("delivered", 0), ("pending", 1)])
def test_an_event_that_only_moves_to_another_check_is_told_once(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]], told: str, deliveries: int
) -> None:
    """A fixed parser finds the link one window earlier: its NEW is another event, and no news to who had heard of it."""
    scene, edges = claimed
    channels = [{"channel": "email", "destination": "a@b.c"}]
    rule = projects.add_alert_rule(
        ledger, scene.project.id, name="n", event_types=["backlink.new"], channels=channels, now=NOW
    )
    key = hashlib.sha256(b"the window before").digest()
    earlier = {"observation_id": int.from_bytes(key[:8], "big"), "idempotency_key": key}
    missed = data.observation_row(edges[0], NOW - timedelta(hours=1), evidence="missing", **earlier)
    found = data.observation_row(edges[0])
    first = data.state_row(found, "live", event="new")
    new = data.alert_row(first, rule, "backlink.new")
    unknown = data.state_row(missed, "unknown", misses=1, is_latest=False)
    apply_batch(ledger, data.batch([unknown, first], [missed, found], alerts=[new]), now=NOW)
    with ledger.transaction() as tx:
        of_event = (
            "UPDATE alert_deliveries AS d JOIN alert_events AS e ON e.id = d.alert_event_id SET d.status = %(told)s "
        )
        tx.execute(of_event + "WHERE e.project_id = %(p)s", {"told": told, "p": scene.project.id})

    seen = data.observation_row(edges[0], NOW - timedelta(hours=1), version=2, **earlier)
    before = data.state_row(seen, "live", event="new", is_latest=False)
    after = data.state_row(found, "live", state_version=2)
    moved = data.alert_row(before, rule, "backlink.new")
    apply_batch(ledger, data.batch([before, after], [seen, found], alerts=[moved]), now=NOW + timedelta(hours=1))
    sql = (
        "SELECT e.retracted_at IS NULL, COUNT(d.id) FROM alert_events AS e LEFT JOIN alert_deliveries AS d "
        "ON d.alert_event_id = e.id AND d.status = 'pending' WHERE e.project_id = %(p)s GROUP BY e.id, e.retracted_at ORDER BY 1"
    )
    assert rows(ledger, sql, p=scene.project.id) == [(0, 0), (1, deliveries)]


def test_an_old_observation_without_its_row_gets_its_state_only(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    _scene, edges = claimed
    first = data.observation_row(edges[0], version=1)
    apply_batch(ledger, data.batch([data.state_row(first, "live", event="new")], [first]), now=NOW)
    refolded = data.state_row(first, "live", state_version=7)  # an earlier window turned out to hold the first find

    counts = apply_batch(ledger, data.batch([refolded], []), now=NOW)

    assert (counts["edges"], counts["observations"]) == (1, 0)
    assert rows(
        ledger,
        "SELECT transition_event, state_version, anchor_text FROM backlink_observations WHERE id = %(i)s",
        i=first["observation_id"],
    ) == [("none", 7, "our friends")]
    assert rows(
        ledger, "SELECT anchor_text, last_reason FROM backlinks WHERE id = %(i)s", i=edges[0]["backlink_id"]
    ) == [("our friends", "link_found")]


def test_lost_without_complete_evidence_is_refused_and_nothing_is_written(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    scene, edges = claimed
    good = data.observation_row(edges[0])
    bad = data.observation_row(edges[1], evidence="none")
    before = table_state(ledger, scene.project.id)
    with pytest.raises(LedgerConstraint, match="observations_lost"):
        apply_batch(
            ledger,
            data.batch(
                [data.state_row(good, "live", event="new"), data.state_row(bad, "lost", event="lost")], [good, bad]
            ),
            now=NOW,
        )
    assert table_state(ledger, scene.project.id) == before


def test_an_edge_that_was_lost_may_be_checked_without_evidence(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    _scene, edges = claimed
    blocked = data.observation_row(edges[0], evidence="none")
    lost_before = data.state_row(blocked, "lost", lost_at=NOW - timedelta(days=3))
    assert apply_batch(ledger, data.batch([lost_before], [blocked]), now=NOW)["edges"] == 1


def test_matches_end_and_occurrences_go_when_the_page_says_so(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    scene, edges = claimed
    edge = edges[0]
    occurrence = {
        "backlink_id": edge["backlink_id"], "position": 0, "kind": "a", "link_url": edge["target_url"], "anchor_text": "x", "rel_nofollow": False,
        "rel_ugc": False, "rel_sponsored": False, "follow": "follow", "is_image": False, "placement": "content", "observed_at": NOW,
    }  # fmt: skip
    first = data.observation_row(edge, version=1, target_rule_ids=[scene.target_rule])
    apply_batch(
        ledger,
        data.batch(
            [data.state_row(first, "live", event="new")],
            [first],
            occurrences=[{**occurrence, "occurrence_key": b"a" * 32}, {**occurrence, "occurrence_key": b"b" * 32}],
        ),
        now=NOW,
    )
    later = NOW + timedelta(hours=1)
    second_edge = {**edge, "crawl_run_id": edge["crawl_run_id"][::-1]}
    second = data.observation_row(second_edge, later, version=2, crawl_page_id=None)
    kept = {**occurrence, "occurrence_key": b"b" * 32, "observed_at": later}
    apply_batch(ledger, data.batch([data.state_row(second, "live")], [second], occurrences=[kept]), now=later)
    assert rows(
        ledger,
        "SELECT occurrence_key, is_live, last_seen_at FROM backlink_occurrences WHERE backlink_id = %(i)s ORDER BY 1",
        i=edge["backlink_id"],
    ) == [
        (b"a" * 32, 0, NOW),
        (b"b" * 32, 1, later),
    ]
    assert rows(
        ledger,
        "SELECT is_active, ended_at FROM backlink_target_matches WHERE backlink_id = %(i)s",
        i=edge["backlink_id"],
    ) == [(0, later)]

    blocked_edge = {**edge, "crawl_run_id": b"z" * 16}
    blocked = data.observation_row(
        blocked_edge, later + timedelta(hours=1), evidence="none", version=3, crawl_page_id=None
    )
    apply_batch(ledger, data.batch([data.state_row(blocked, "live", last_live_at=later)], [blocked]), now=later)
    live = rows(
        ledger, "SELECT SUM(is_live) FROM backlink_occurrences WHERE backlink_id = %(i)s", i=edge["backlink_id"]
    )
    assert live == [(1,)], "no evidence says nothing about occurrences"


def test_lookups_for_policy_and_cooldown(ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]) -> None:
    scene, edges = claimed
    missing = data.observation_row(edges[0], evidence="missing")
    lost = data.state_row(missing, "lost", event="lost")
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="l",
        event_types=["backlink.lost"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    apply_batch(ledger, data.batch([lost], [missing], alerts=[data.alert_row(lost, rule)]), now=NOW)
    ids = [edge["backlink_id"] for edge in edges]
    assert [
        (row["backlink_id"], row["event_type"])
        for row in recent_alerts(ledger, ids, since=NOW - timedelta(hours=1)).to_pylist()
    ] == [(edges[0]["backlink_id"], "backlink.lost")]
    assert recent_alerts(ledger, ids, since=NOW + timedelta(hours=1)).num_rows == 0
    intervals = {row["backlink_id"]: row for row in read_intervals(ledger, ids).to_pylist()}
    assert intervals[edges[0]["backlink_id"]]["misses"] == 2
    assert intervals[edges[0]["backlink_id"]]["recrawl_interval_seconds"] == 86400


def test_a_correction_of_other_things_keeps_the_alert(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    """A newer version of an observation that still holds the event retracts nothing, also when no rule asks any more."""
    scene, edges = claimed
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="m",
        event_types=["*"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    first = data.observation_row(edges[0], version=1, rel_nofollow=True)
    state = data.state_row(first, "live", changes=["rel", "source_indexability"])
    kept = [
        data.alert_row(state, rule, name)
        for name in ("backlink.rel_changed", "source.indexable", "source.canonical_changed")
    ]
    apply_batch(ledger, data.batch([state], [first], alerts=kept), now=NOW)

    better = data.observation_row(edges[0], version=2, rel_nofollow=True, anchor_text="our best friends")
    newer = data.state_row(better, "live", changes=["rel", "source_indexability"])
    assert apply_batch(ledger, data.batch([newer], [better]), now=NOW)["retracted"] == 1
    standing = rows(
        ledger,
        "SELECT event_type, retracted_at IS NULL FROM alert_events WHERE project_id = %(p)s ORDER BY 1",
        p=scene.project.id,
    )
    assert standing == [("backlink.rel_changed", 1), ("source.canonical_changed", 0), ("source.indexable", 1)]


def test_broker_events_of_alerts_are_written_with_them(
    ledger: Ledger, claimed: tuple[data.Scene, list[dict[str, Any]]]
) -> None:
    scene, edges = claimed
    rule = projects.add_alert_rule(
        ledger,
        scene.project.id,
        name="o",
        event_types=["*"],
        channels=[{"channel": "email", "destination": "a@b.c"}],
        now=NOW,
    )
    seen = data.observation_row(edges[0])
    state = data.state_row(seen, "live", event="new")
    alert = data.alert_row(state, rule, "backlink.new")
    event = {
        "event_key": hashlib.sha256(f"alert:{alert['deduplication_key'].hex()}".encode()).digest(),
        "topic": "alert-events",
        "partition_key": scene.project.id.hex(),
        "payload": "{}",
        "occurred_at": NOW,
    }
    batch = replace(data.batch([state], [seen], alerts=[alert]), outbox=ALERT_OUTBOX.table([event]))
    assert apply_batch(ledger, batch, now=NOW)["outbox"] == 2, "the alert's, and the edge's own"
    assert apply_batch(ledger, batch, now=NOW)["outbox"] == 0
