"""The demo's seven windows, judged by its ground truth, and what materializing again does to them."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc
import pytest

from assets.platform import Platform
from orchestration import flow
from orchestration.definitions import WINDOW_JOB, build_defs
from orchestration.demo import play as plays
from orchestration.demo.scenario import WINDOWS, window_start
from orchestration.demo.web import asked_again
from tests.e2e.rows import business_rows, raw_rows
from transforms.schemas import LINK_MANIFESTS
from transforms.windows import Window

pytestmark = [pytest.mark.e2e, pytest.mark.service]


def test_everything_that_is_true_was_reported_and_nothing_else(played: plays.Play, platform: Platform) -> None:
    verdict = plays.judge(played, platform)
    assert verdict.ok, "\n".join(map(str, verdict.differences[:20]))
    assert verdict.right_events == {"new": 103, "lost": 15, "recovered": 2}  # scenario.toml, [totals]
    assert verdict.false_losses == []


def test_the_imports_rejected_what_is_no_backlink(played: plays.Play) -> None:
    counts = {
        export.project.key: (report.counts.accepted, report.counts.duplicate, report.counts.invalid)
        for export, report in zip(played.exports.values(), played.imports, strict=True)
    }
    assert counts == {"acme": (93, 2, 4), "blueriver": (12, 1, 3)}


def test_the_ledger_says_what_clickhouse_says(platform: Platform) -> None:
    with platform.ledger.transaction() as tx:
        ledger = dict(tx.rows("SELECT id, current_state FROM backlinks"))
        unproven = tx.row(
            "SELECT COUNT(*) FROM backlink_observations WHERE transition_event = 'lost' AND evidence_complete = 0"
        )
    rows = platform.clickhouse.query("SELECT backlink_id, toString(state) FROM edge_current FINAL").result_rows
    folded = {int(edge): str(state) for edge, state in rows}
    assert len(ledger) == 108
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
    assert outbox["backlink-state-events"] >= 103 + 15 + 2


def test_a_page_is_asked_once_a_window_whoever_monitors_it(played: plays.Play) -> None:
    assert asked_again(played.web.requests()) == []


def test_materializing_a_past_window_again_changes_nothing_and_asks_nobody(
    played: plays.Play, platform: Platform
) -> None:
    before, asked = raw_rows(platform), len(played.web.requests())
    with flow.instance(played.settings) as instance:
        for number in (3, 2, 4):
            window = Window(window_start(number), platform.window_length)
            flow.run_window(played.at(WINDOWS - 1), window, on=instance, platform=platform)
    after = raw_rows(platform)
    for table, rows in before.items():
        assert after[table] == rows, table
    assert len(played.web.requests()) == asked


SOURCE, TARGET = "http://gardening-weekly.test/best-trowels", "http://acme-tools.test/trowels"
"""A link that is there in all seven windows."""
EDGE = """
SELECT o.observed_at, o.transition_event, o.state, o.state_version FROM backlink_observations AS o
JOIN backlinks AS b ON b.id = o.backlink_id JOIN projects AS p ON p.id = b.project_id
JOIN urls AS s ON s.id = b.source_url_id JOIN urls AS t ON t.id = b.target_url_id
WHERE p.name = 'Acme Tools' AND s.normalized_url = %(source)s AND t.normalized_url = %(target)s ORDER BY o.observed_at
"""
ALERTS = """
SELECT e.event_type, e.retracted_at IS NOT NULL FROM alert_events AS e JOIN backlinks AS b ON b.id = e.backlink_id
JOIN projects AS p ON p.id = b.project_id JOIN urls AS s ON s.id = b.source_url_id
JOIN urls AS t ON t.id = b.target_url_id WHERE p.name = 'Acme Tools' AND s.normalized_url = %(source)s
AND t.normalized_url = %(target)s AND e.event_type IN ('backlink.lost', 'backlink.recovered') ORDER BY e.event_type
"""


def test_what_a_wrong_parser_reported_is_replaced_and_retracted_once_it_is_right(
    played: plays.Play, platform: Platform
) -> None:
    """A parser that overlooks a link in two windows, then the one that does not: only versions and retractions remain."""
    windows = [Window(window_start(number), platform.window_length) for number in (2, 3)]
    until, edge = window_start(WINDOWS), {"source": SOURCE, "target": TARGET}

    def fold_again() -> None:
        defs = build_defs(settings=played.at(WINDOWS - 1), platform=platform)
        with flow.instance(played.settings) as instance:
            for window in windows:
                flow._execute(defs.resolve_job_def(WINDOW_JOB), instance, window.key)

    def history() -> tuple[list[tuple[str, str]], list[int], list[tuple[str, int]]]:
        with platform.ledger.transaction() as tx:
            rows, alerts = tx.rows(EDGE, edge), tx.rows(ALERTS, edge)
        return [(event, state) for _, event, state, _ in rows], [version for *_, version in rows], list(alerts)

    right = business_rows(platform, until)
    was, versions, alerts = history()
    assert was == [("new", "live"), *[("none", "live")] * 6]
    assert alerts == []
    asked = len(played.web.requests())

    manifests = {}
    for window in windows:
        for shard in range(platform.shards):
            links = platform.datasets.read(LINK_MANIFESTS, window, shard)
            overlooked = pc.equal(links["identity"], TARGET)
            if pc.any(overlooked).as_py():
                manifests[window, shard] = links
                kept = links.filter(pc.invert(pc.fill_null(overlooked, False)))
                platform.datasets.write_part(LINK_MANIFESTS, window, shard, kept, "all")
    fold_again()
    wrong, wrong_versions, wrong_alerts = history()
    assert wrong == [
        ("new", "live"), ("none", "live"), ("none", "live"), ("lost", "lost"), ("recovered", "live"),
        ("none", "live"), ("none", "live"),
    ]  # fmt: skip
    assert all(after > before for before, after in zip(versions[2:], wrong_versions[2:], strict=True))
    assert wrong_versions[:2] == versions[:2]
    assert wrong_alerts == [("backlink.lost", 0), ("backlink.recovered", 0)]

    for (window, shard), links in manifests.items():
        platform.datasets.write_part(LINK_MANIFESTS, window, shard, links, "all")
    fold_again()
    now, now_versions, now_alerts = history()
    assert now == was
    assert all(after > before for before, after in zip(wrong_versions[2:], now_versions[2:], strict=True))
    assert now_alerts == [("backlink.lost", 1), ("backlink.recovered", 1)]
    again = business_rows(platform, until)
    for table in right.keys() - {"alerts"}:
        assert again[table] == right[table], table
    assert set(right["alerts"]) <= set(again["alerts"])
    assert len(played.web.requests()) == asked
