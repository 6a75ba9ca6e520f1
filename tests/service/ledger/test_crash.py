"""Killed in the middle: the server drops our connection between any two statements, and nothing is left half-written."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from warehouse.ledger import Ledger, LedgerUnavailable, claims, projects
from warehouse.ledger.engine import Transaction, connect
from warehouse.ledger.writeback import apply_batch

pytestmark = pytest.mark.service

TABLES = (
    "backlinks", "backlink_observations", "backlink_occurrences", "backlink_target_matches", "alert_events", "alert_deliveries",
    "transactional_outbox", "crawl_runs", "crawl_pages", "page_fetch_jobs", "crawl_page_fetch_consumers",
    "project_backlink_daily_stats", "tenant_crawl_usage_daily", "url_revalidation_state",
)  # fmt: skip


def contents(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that the work writes, without the times of writing."""
    with ledger.transaction() as tx:
        found = {}
        for table in TABLES:
            columns = [
                name
                for (name,) in tx.rows(
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = %(t)s "
                    "AND column_name NOT IN ('created_at', 'updated_at') AND extra NOT LIKE '%auto_increment%' ORDER BY ordinal_position",
                    {"t": table},
                )
            ]
            rows = tx.rows(f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM {table}")
            found[table] = sorted(rows, key=repr)
    return found


@contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, server: Any, statement: int) -> Iterator[Callable[[], bool]]:
    """The connection is killed by somebody else right before the n-th statement of the next transactions; tells whether
    there were that many."""
    original = Transaction.execute
    seen = 0

    def execute(self: Transaction, sql: str, params: Any = None) -> int:
        nonlocal seen
        seen += 1
        if seen == statement:
            killer = connect(server, database=None)
            killer.cursor().execute(f"KILL {self.connection_id}")
            killer.close()
        return original(self, sql, params)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "execute", execute)
        yield lambda: seen >= statement


def once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """No second try: what a killed process leaves."""

    def run(work: Callable[[Transaction], Any]) -> Any:
        with ledger.transaction() as tx:
            return work(tx)

    monkeypatch.setattr(ledger, "run", run)


def test_write_back_is_whole_or_not_at_all(fresh_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = fresh_ledger
    scene = data.scene(ledger, sources=2)
    expected = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test").expected.to_pylist()
    channel = [{"channel": "email", "destination": "a@b.c"}]
    rule = projects.add_alert_rule(ledger, scene.project.id, name="l", event_types=[], channels=channel, now=NOW)
    seen = [
        data.observation_row(expected[0], target_rule_ids=[scene.target_rule]),
        data.observation_row(expected[1], evidence="missing"),
    ]
    states = [data.state_row(seen[0], "live", event="new"), data.state_row(seen[1], "lost", event="lost")]
    occurrence = {
        "backlink_id": expected[0]["backlink_id"], "occurrence_key": b"k" * 32, "position": 0, "kind": "a", "link_url": expected[0]["target_url"],
        "anchor_text": "x", "rel_nofollow": False, "rel_ugc": False, "rel_sponsored": False, "follow": "follow", "is_image": False,
        "placement": "content", "observed_at": NOW,
    }  # fmt: skip
    batch = data.batch(states, seen, alerts=[data.alert_row(states[1], rule)], occurrences=[occurrence])
    before = contents(ledger)
    with monkeypatch.context() as patch:
        once(ledger, patch)
        statement = 0
        while True:
            statement += 1
            with killed_at(patch, ledger.settings, statement) as reached:
                try:
                    apply_batch(ledger, batch, now=NOW)
                except LedgerUnavailable:
                    assert contents(ledger) == before, f"half-written before statement {statement}"
                    continue
            assert not reached()
            break
    assert statement > 20
    after = contents(ledger)
    assert len(after["alert_events"]) == len(after["alert_deliveries"]) == 1
    assert len(after["transactional_outbox"]) == 2
    apply_batch(ledger, batch, now=NOW)
    assert contents(ledger) == after


def test_a_claim_is_whole_or_not_at_all(fresh_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = fresh_ledger
    data.scene(ledger, sources=3)
    before = contents(ledger)

    def work() -> claims.Claim:
        return claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")

    with monkeypatch.context() as patch:
        once(ledger, patch)
        statement = 0
        while True:
            statement += 1
            with killed_at(patch, ledger.settings, statement) as reached:
                try:
                    work()
                except LedgerUnavailable:
                    found = contents(ledger)
                    assert found == before or len(found["page_fetch_jobs"]) == 3, (
                        f"half-claimed before statement {statement}"
                    )
                    if found != before:
                        break  # the claim was committed; the kill hit the reading afterwards
                    continue
            assert not reached()
            break
    assert statement > 10
    whole = work()
    assert whole.due.num_rows == 3


def test_a_broken_connection_is_retried_and_the_result_is_the_same(
    fresh_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.scene(fresh_ledger, sources=3)
    with killed_at(monkeypatch, fresh_ledger.settings, 7) as reached:
        claim = claims.claim_due(fresh_ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
        assert reached()
    assert claim.due.num_rows == 3
