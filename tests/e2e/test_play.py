"""The demo's seven windows, judged by its ground truth, and what materializing again does to them."""

from __future__ import annotations

from collections import Counter

import pytest

from assets.platform import Platform
from orchestration import flow
from orchestration.demo import play as plays
from orchestration.demo.scenario import WINDOWS, window_start
from orchestration.demo.web import asked_again
from tests.e2e.rows import raw_rows
from transforms.windows import Window

pytestmark = [pytest.mark.e2e, pytest.mark.service]


def test_everything_that_is_true_was_reported_and_nothing_else(played: plays.Play, platform: Platform) -> None:
    verdict = plays.judge(played, platform)
    assert verdict.ok, "\n".join(map(str, verdict.differences[:20]))
    assert verdict.right_events == {"new": 97, "lost": 15, "recovered": 2}  # scenario.toml, [totals]
    assert verdict.false_losses == []


def test_the_imports_rejected_what_is_no_backlink(played: plays.Play) -> None:
    counts = {
        export.project.key: (report.counts.accepted, report.counts.duplicate, report.counts.invalid)
        for export, report in zip(played.exports.values(), played.imports, strict=True)
    }
    assert counts == {"acme": (86, 2, 4), "blueriver": (12, 1, 3)}


def test_the_ledger_says_what_clickhouse_says(platform: Platform) -> None:
    with platform.ledger.transaction() as tx:
        ledger = dict(tx.rows("SELECT id, current_state FROM backlinks"))
        unproven = tx.row(
            "SELECT COUNT(*) FROM backlink_observations WHERE transition_event = 'lost' AND evidence_complete = 0"
        )
    rows = platform.clickhouse.query("SELECT backlink_id, toString(state) FROM edge_current FINAL").result_rows
    folded = {int(edge): str(state) for edge, state in rows}
    assert len(ledger) == 101
    assert ledger == folded
    assert unproven == (0,)


def test_each_loss_is_an_alert_with_a_delivery_for_each_channel_and_an_outbox_row(platform: Platform) -> None:
    with platform.ledger.transaction() as tx:
        events = Counter(dict(tx.rows("SELECT event_type, COUNT(*) FROM alert_events GROUP BY event_type")))
        deliveries = tx.rows(
            "SELECT d.channel, d.status, COUNT(*) FROM alert_deliveries AS d JOIN alert_events AS e ON e.id = d.alert_event_id "
            "WHERE e.event_type = 'backlink.lost' GROUP BY d.channel, d.status ORDER BY d.channel"
        )
        outbox = dict(
            tx.rows("SELECT topic, COUNT(*) FROM transactional_outbox WHERE status = 'pending' GROUP BY topic")
        )
    assert (events["backlink.lost"], events["backlink.recovered"]) == (15, 2)
    assert deliveries == [("email", "pending", 15), ("webhook", "pending", 15)]
    assert outbox["alert-events"] == sum(events.values())
    assert outbox["backlink-state-events"] >= 97 + 15 + 2


def test_a_page_is_asked_once_a_window_whoever_monitors_it(played: plays.Play) -> None:
    assert asked_again(played.web.requests()) == []


def test_materializing_a_past_window_again_changes_nothing_and_asks_nobody(
    played: plays.Play, platform: Platform
) -> None:
    before, asked = raw_rows(platform), len(played.web.requests())
    with flow.instance(played.settings) as instance:
        for number in (3, 2):
            window = Window(window_start(number), platform.window_length)
            flow.run_window(played.at(WINDOWS - 1), window, on=instance, platform=platform)
    after = raw_rows(platform)
    for table, rows in before.items():
        assert after[table] == rows, table
    assert len(played.web.requests()) == asked
