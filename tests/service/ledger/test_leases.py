"""Shard leases and fences: one owner at a time, and nobody who lost a shard changes anything."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from warehouse.ledger import LeaseHeld, Ledger, StaleFence, claims, fetches, leases
from warehouse.ledger.leases import Lease
from warehouse.ledger.sql import query

pytestmark = pytest.mark.service


def test_a_living_owner_is_respected_until_its_time_is_up(ledger: Ledger) -> None:
    first = leases.acquire_shard(ledger, "s1", owner="a", ttl_s=60, now=NOW)
    with pytest.raises(LeaseHeld, match=r"s1 is owned by a until 2026-12-01 10:06:00 UTC"):
        leases.acquire_shard(ledger, "s1", owner="b", ttl_s=60, now=NOW + timedelta(seconds=59))
    with pytest.raises(LeaseHeld):
        leases.acquire_shard(ledger, "s1", owner="a", ttl_s=60, now=NOW)  # a second task of the same process
    leases.extend(ledger, first, now=NOW + timedelta(seconds=50))
    with pytest.raises(LeaseHeld):
        leases.acquire_shard(ledger, "s1", owner="b", ttl_s=60, now=NOW + timedelta(seconds=100))
    second = leases.acquire_shard(ledger, "s1", owner="b", ttl_s=60, now=NOW + timedelta(seconds=111))
    assert second.fence == first.fence + 1
    with pytest.raises(StaleFence, match="s1 is no longer owned by a"):
        leases.extend(ledger, first, now=NOW + timedelta(seconds=112))
    assert not leases.release(ledger, first), "not the owner any more"
    assert leases.release(ledger, second)
    assert not leases.release(ledger, second)


def test_a_dead_owners_shard_is_taken_at_once(ledger: Ledger) -> None:
    dead = leases.acquire_shard(ledger, "s2", owner="a", ttl_s=3600, now=NOW)
    dead.holder.close()  # what the server sees of a killed process
    heir = leases.acquire_shard(ledger, "s2", owner="b", ttl_s=60, now=NOW)
    assert heir.fence == dead.fence + 1
    with pytest.raises(StaleFence):
        leases.extend(ledger, dead, now=NOW)
    leases.release(ledger, heir)


def test_a_lock_that_a_restart_of_the_server_dropped_is_no_death(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The soak's finding: MySQL came back, a rival took the shard at once, and both asked its hosts for a while."""

    def restarted() -> None:  # as the rival finds it: the lock is gone, the lease is of an earlier run of the server
        first.holder.close()
        with ledger.transaction() as tx:
            tx.execute(
                "UPDATE shard_leases SET server_started_at = server_started_at - INTERVAL 1 HOUR WHERE name = 's3'"
            )

    first = leases.acquire_shard(ledger, "s3", owner="a", ttl_s=60, now=NOW)
    restarted()
    monkeypatch.setattr(leases, "RESTART_GRACE_S", 1e9)  # this server has run for a while
    with pytest.raises(LeaseHeld, match="s3 was owned by a when MySQL went away, and it may be at work"):
        leases.acquire_shard(ledger, "s3", owner="b", ttl_s=60, now=NOW)
    assert leases.hold_again(ledger, first)
    with pytest.raises(LeaseHeld, match="s3 is owned by a until"):
        leases.acquire_shard(ledger, "s3", owner="b", ttl_s=60, now=NOW)
    assert leases.hold_again(ledger, first), "its lock is still there"
    leases.extend(ledger, first, now=NOW)
    restarted()
    monkeypatch.setattr(leases, "RESTART_GRACE_S", 0.0)  # long after: an owner that lives has its lock again
    second = leases.acquire_shard(ledger, "s3", owner="b", ttl_s=60, now=NOW)
    assert second.is_orphan
    assert not leases.hold_again(ledger, first)
    assert leases.release(ledger, second)
    assert not leases.hold_again(ledger, first), "the lock is free, the lease is not ours"


def test_one_of_many_gets_it(ledger: Ledger) -> None:
    start = threading.Barrier(6)
    got: list[Lease] = []
    held: list[LeaseHeld] = []

    def contend(number: int) -> None:
        start.wait()
        try:
            got.append(leases.acquire_shard(ledger, "s3", owner=f"w{number}", ttl_s=60, now=NOW))
        except LeaseHeld as error:
            held.append(error)

    threads = [threading.Thread(target=contend, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(held)) == (1, 5)
    leases.release(ledger, got[0])


class LeaseMachine(RuleBasedStateMachine):
    """Owners that take, extend, lose, and give back one shard, and commit under whatever fence they believe in.

    The model is the fence and the end of the newest lease. What must hold: fences only rise, at most the newest lease
    can extend or commit, and a refused commit changes nothing.
    """

    ledger: Ledger
    due: list[dict[str, Any]]
    round = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.fence = 0
        self.owned: Lease | None = None
        self.until: datetime | None = None
        self.stale: list[Lease] = []
        with self.ledger.transaction() as tx:
            rows = tx.rows("SELECT id, fetched_at FROM page_fetch_jobs WHERE fetched_at IS NOT NULL")
        self.fetched: dict[int, datetime] = dict(rows)

    @initialize()
    def new_shard(self) -> None:
        LeaseMachine.round += 1
        self.name = f"machine:{LeaseMachine.round}"

    @rule(seconds=st.integers(1, 90))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(owner=st.sampled_from("abc"), ttl=st.integers(10, 120))
    def acquire(self, owner: str, ttl: int) -> None:
        taken = self.owned is not None and self.until is not None and self.until > self.now
        try:
            lease = leases.acquire_shard(self.ledger, self.name, owner=owner, ttl_s=ttl, now=self.now)
        except LeaseHeld:
            assert taken
            return
        assert not taken
        assert lease.fence == self.fence + 1
        if self.owned is not None:
            self.stale.append(self.owned)
        self.owned, self.fence, self.until = lease, lease.fence, self.now + timedelta(seconds=ttl)

    @precondition(lambda self: self.owned)
    @rule()
    def extend(self) -> None:
        assert self.owned is not None
        assert self.until is not None
        leases.extend(self.ledger, self.owned, now=self.now)  # also late: nobody has taken it
        self.until = max(self.until, self.now + timedelta(seconds=self.owned.ttl_s))

    @precondition(lambda self: self.owned)
    @rule()
    def release(self) -> None:
        assert self.owned is not None
        assert leases.release(self.ledger, self.owned)
        self.stale.append(self.owned)
        self.owned = self.until = None

    @precondition(lambda self: self.owned)
    @rule()
    def owner_dies(self) -> None:
        assert self.owned is not None
        if self.owned.holder is not None:
            self.owned.holder.close()
            self.stale.append(self.owned)
            self.owned = self.until = None

    @precondition(lambda self: self.owned)
    @rule(number=st.integers(0, 2))
    def commit(self, number: int) -> None:
        row = data.fetch_row(self.due[number], self.now)
        job = self.due[number]["fetch_job_id"]
        changed = fetches.commit_fetches(self.ledger, data.fetches([row]), lease=self.owned)
        known = self.fetched.get(job)
        assert changed == (known is None or known < self.now)
        self.fetched[job] = self.now if known is None else max(known, self.now)
        assert self.owned is not None
        assert self.until is not None
        self.until = max(self.until, self.now + timedelta(seconds=self.owned.ttl_s))

    @precondition(lambda self: self.stale)
    @rule(number=st.integers(0, 2), which=st.randoms(use_true_random=False))
    def commit_with_an_old_fence(self, number: int, which: Any) -> None:
        old = which.choice(self.stale)
        if self.owned is None and old.fence == self.fence and not self.released(old):
            return  # it died, and nobody has taken over: the shard is still its own
        before = self.jobs()
        row = data.fetch_row(self.due[number], self.now + timedelta(days=1))
        with pytest.raises(StaleFence):
            fetches.commit_fetches(self.ledger, data.fetches([row]), lease=old)
        assert self.jobs() == before

    def released(self, lease: Lease) -> bool:
        with self.ledger.transaction() as tx:
            row = tx.row("SELECT owner FROM shard_leases WHERE name = %(name)s", {"name": lease.name})
        return row is None or row[0] is None

    def jobs(self) -> list[tuple[Any, ...]]:
        with self.ledger.transaction() as tx:
            return tx.rows("SELECT id, status, outcome, fetched_at FROM page_fetch_jobs ORDER BY id")

    @invariant()
    def fences_only_rise(self) -> None:
        if self.fence:
            with self.ledger.transaction() as tx:
                row = tx.row("SELECT fence FROM shard_leases WHERE name = %(name)s", {"name": self.name})
            assert row == (self.fence,)

    def teardown(self) -> None:
        for lease in [*self.stale, self.owned]:
            if lease is not None and lease.holder is not None:
                lease.holder.close()


def test_fences_hold_whatever_happens(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=3)
    claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="test")
    LeaseMachine.ledger = ledger
    LeaseMachine.due = [row for row in claim.due.to_pylist() if row["source_url_id"] in scene.source_ids]
    run_state_machine_as_test(
        LeaseMachine,
        settings=settings(
            max_examples=6,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            database=None,
        ),
    )


# -- queues ------------------------------------------------------------------------------------------------------------


def outbox(ledger: Ledger, count: int) -> list[bytes]:
    """`count` rows of the outbox that are due."""
    made = []
    with ledger.transaction() as tx:
        tx.execute("DELETE FROM transactional_outbox")
        for number in range(count):
            key = number.to_bytes(16, "big")
            tx.execute(
                "INSERT INTO transactional_outbox (id, event_key, topic, partition_key, payload, available_at) "
                "VALUES (%(id)s, %(key)s, 't', 'k', '{}', %(at)s)",
                {"id": key, "key": key * 2, "at": NOW - timedelta(minutes=count - number)},
            )
            made.append(key)
    return made


def test_queue_rows_are_leased_in_order_and_others_are_skipped_not_waited_for(ledger: Ledger) -> None:
    made = outbox(ledger, 10)
    with ledger.transaction() as busy:
        locked = busy.rows(
            "SELECT id FROM transactional_outbox WHERE status = 'pending' AND available_at <= %(now)s "
            "ORDER BY available_at, id LIMIT 3 FOR UPDATE",
            {"now": NOW},
        )
        assert [row[0] for row in locked] == made[:3]
        _, ids = leases.claim_queue(ledger, "transactional_outbox", owner="w", ttl_s=60, now=NOW, limit=4)
        assert ids == made[3:7], "the index covers filter and order: exactly the locked rows are skipped"
    token, ids = leases.claim_queue(ledger, "transactional_outbox", owner="w", ttl_s=60, now=NOW, limit=100)
    assert ids == [*made[:3], *made[7:]]
    assert leases.extend_queue(ledger, "transactional_outbox", token, ids, ttl_s=600, now=NOW) == 6
    assert leases.return_queue(ledger, "transactional_outbox", "not mine", ids, available_at=NOW) == 0
    assert (
        leases.return_queue(ledger, "transactional_outbox", token, ids[:2], available_at=NOW + timedelta(minutes=1))
        == 2
    )
    assert leases.claim_queue(ledger, "transactional_outbox", owner="w", ttl_s=60, now=NOW, limit=9)[1] == []


def test_expired_leases_go_back_in_bounded_batches_and_fail_for_good_in_the_end(ledger: Ledger) -> None:
    made = outbox(ledger, 7)
    at = NOW
    for attempt in range(1, leases.MAX_ATTEMPTS + 1):
        token, ids = leases.claim_queue(ledger, "transactional_outbox", owner="w", ttl_s=60, now=at, limit=100)
        assert sorted(ids) == made
        assert leases.recover_expired(ledger, now=at + timedelta(seconds=59))["transactional_outbox"] == (0, 0)
        at += timedelta(seconds=61)
        counts = leases.recover_expired(ledger, now=at, batch=3)["transactional_outbox"]
        assert counts == ((7, 0) if attempt < leases.MAX_ATTEMPTS else (0, 7))
        assert leases.extend_queue(ledger, "transactional_outbox", token, ids, ttl_s=60, now=at) == 0, (
            "the old token is void"
        )
        at += timedelta(seconds=61)
    with ledger.transaction() as tx:
        assert tx.rows("SELECT DISTINCT status, last_error_code FROM transactional_outbox") == [
            ("failed", "lease_expired")
        ]


def test_fetch_jobs_come_by_priority_then_age(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=3, now=NOW + timedelta(days=50))
    window = data.next_window(by=24 * 50)
    claims.claim_due(ledger, window=window, shard=0, shards=1, now=window.start + timedelta(minutes=10), owner="t")
    with ledger.transaction() as tx:
        jobs = dict(
            tx.rows(
                "SELECT source_url_id, id FROM page_fetch_jobs WHERE validation_window = %(w)s", {"w": window.start}
            )
        )
        ids = [jobs.pop(source) for source in scene.source_ids]
        tx.execute(
            "UPDATE page_fetch_jobs SET status = 'failed' WHERE id NOT BETWEEN %(a)s AND %(z)s",
            {"a": ids[0], "z": ids[-1]},
        )
        tx.execute("UPDATE page_fetch_jobs SET priority = 5 WHERE id = %(id)s", {"id": ids[2]})
        tx.execute(
            "UPDATE page_fetch_jobs SET available_at = available_at - INTERVAL 1 MINUTE WHERE id = %(id)s",
            {"id": ids[1]},
        )
    _, got = leases.claim_queue(ledger, "page_fetch_jobs", owner="w", ttl_s=60, now=window.end, limit=3)
    assert got == [ids[2], ids[1], ids[0]]


def test_a_shard_that_is_just_given_back_is_not_taken_without_its_lock(fresh_ledger: Ledger) -> None:
    """Between the release of the row and the end of the owner's connection: who took it then would look dead."""
    ending = leases.acquire_shard(fresh_ledger, "shard:9", owner="a", ttl_s=60, now=NOW)
    released = {"name": "shard:9", "fence": ending.fence}
    fresh_ledger.run(lambda tx: tx.execute(query("leases/release"), released))
    with pytest.raises(leases.LeaseHeld, match="just ending"):
        leases.acquire_shard(fresh_ledger, "shard:9", owner="b", ttl_s=60, now=NOW)
    leases.release(fresh_ledger, ending)
    taken = leases.acquire_shard(fresh_ledger, "shard:9", owner="b", ttl_s=60, now=NOW)
    assert taken.fence == ending.fence + 1
    leases.release(fresh_ledger, taken)
