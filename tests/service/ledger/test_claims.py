"""Claims: nothing twice, nobody waits, quotas and shares, what a claim brings along."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest

from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from transforms.windows import buckets_of_shard, shard_of_domain
from warehouse.ledger import Ledger, claims, projects
from warehouse.ledger.claims import ClaimLimits

pytestmark = pytest.mark.service


def mine(claim: claims.Claim, scene: data.Scene) -> list[int]:
    return [row["backlink_id"] for row in claim.expected.to_pylist() if row["project_id"] == scene.project.id]


def claim(ledger: Ledger, **changes: Any) -> claims.Claim:
    return claims.claim_due(
        ledger, **{"window": WINDOW, "shard": 0, "shards": 1, "now": NOW, "owner": "test", **changes}
    )


def test_two_claims_at_once_claim_nothing_twice(fresh_ledger: Ledger) -> None:
    scene = data.scene(fresh_ledger, sources=300)
    start = threading.Barrier(3)
    counts: list[dict[str, int]] = []

    def work() -> None:
        start.wait()
        counts.append(claim(fresh_ledger, limits=ClaimLimits(batch=20)).counts)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each["new"] for each in counts) == 300
    whole = claim(fresh_ledger)
    assert (whole.counts["new"], whole.due.num_rows, mine(whole, scene)) == (0, 300, scene.backlink_ids)
    with fresh_ledger.transaction() as tx:
        assert tx.rows("SELECT COUNT(*), COUNT(DISTINCT source_url_id) FROM page_fetch_jobs") == [(300, 300)]
        assert tx.rows("SELECT pages_planned FROM crawl_runs") == [(300,)]
        assert tx.rows("SELECT page_checks_reserved FROM tenant_crawl_usage_daily") == [(300,)]
        assert tx.rows("SELECT DISTINCT next_check_at FROM backlinks") == [(WINDOW.end + timedelta(hours=1),)]


def test_what_another_claim_holds_is_skipped_not_waited_for(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=4)
    with ledger.transaction() as busy:
        busy.rows(
            "SELECT 1 FROM url_revalidation_state WHERE source_url_id = %(s)s FOR UPDATE", {"s": scene.source_ids[0]}
        )
        got = claim(ledger)  # returns although the row is locked
        assert mine(got, scene) == scene.backlink_ids[1:]
        assert got.counts["skipped"] == 1
    assert mine(claim(ledger), scene) == scene.backlink_ids


def test_shards_share_the_hosts_and_no_domain_is_in_two(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=40)
    parts = [claim(ledger, shard=shard, shards=4) for shard in range(4)]
    found = [mine(part, scene) for part in parts]
    assert sorted(chain.from_iterable(found)) == scene.backlink_ids
    for shard, part in enumerate(parts):
        assert {shard_of_domain(row["registrable_domain"], 4) for row in part.due.to_pylist()} <= {shard}
    assert sorted(chain.from_iterable(buckets_of_shard(shard, 4) for shard in range(4))) == list(range(256))


def test_a_source_is_one_job_whoever_asks_and_all_its_edges_come_along(ledger: Ledger) -> None:
    first = data.scene(ledger, sources=1)
    second = data.scene(ledger, sources=1)
    shared = first.source_ids[0]
    (extra,) = data.register(second, [(shared, second.target_ids[0])], due_now=False)
    with ledger.transaction() as tx:
        far = NOW + timedelta(days=3)
        tx.execute("UPDATE backlinks SET next_check_at = %(far)s WHERE id = %(id)s", {"far": far, "id": extra})
    got = claim(ledger)
    assert mine(got, first) == first.backlink_ids
    assert extra in mine(got, second), "not due, but its page is fetched anyway"
    (source,) = [row for row in got.due.to_pylist() if row["source_url_id"] == shared]
    assert source["edges"] == 2
    runs = {row["project_id"]: row["crawl_run_id"] for row in got.expected.to_pylist()}
    from warehouse.ledger.keys import run_key

    assert runs[first.project.id] == run_key(first.project.id, WINDOW)[:16], "deterministic"
    with ledger.transaction() as tx:
        assert tx.row("SELECT next_check_at FROM backlinks WHERE id = %(id)s", {"id": extra}) == (far,), (
            "kept: it is later"
        )


def test_confirmations_wait_for_their_time_even_when_the_page_is_fetched_for_others(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=1)
    (waiting,) = data.register(scene, [(scene.source_ids[0], data.url_ids(ledger, ["https://second-target.com/"])[0])])
    confirm = NOW + timedelta(minutes=30)
    with ledger.transaction() as tx:
        tx.execute(
            "UPDATE backlinks SET next_check_at = %(at)s, confirm_not_before = %(at)s WHERE id = %(id)s",
            {"at": confirm, "id": waiting},
        )
    got = claim(ledger)
    assert waiting in mine(got, scene)
    with ledger.transaction() as tx:
        row = tx.row("SELECT next_check_at, confirm_not_before FROM backlinks WHERE id = %(id)s", {"id": waiting})
    assert row == (confirm, confirm), "its confirmation is not put off by it"


def test_paused_and_removed_edges_are_not_claimed(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=2)
    projects.set_active(ledger, scene.project.id, False)
    assert mine(claim(ledger), scene) == []
    projects.set_active(ledger, scene.project.id, True)
    assert mine(claim(ledger), scene) == scene.backlink_ids


def test_a_new_edge_on_a_claimed_page_joins_the_window(ledger: Ledger) -> None:
    scene = data.scene(ledger, sources=1)
    before = claim(ledger)
    (extra,) = data.register(scene, [(scene.source_ids[0], data.url_ids(ledger, ["https://late-target.com/"])[0])])
    after = claim(ledger)
    assert after.counts["new"] == 0
    assert mine(after, scene) == [*mine(before, scene), extra]


def test_daily_quota_is_never_exceeded_by_shards_at_once(fresh_ledger: Ledger) -> None:
    scene = data.scene(fresh_ledger, sources=200)
    free = data.scene(fresh_ledger, sources=50)
    with fresh_ledger.transaction() as tx:
        tx.execute(
            "INSERT INTO tenant_crawl_limits (tenant_id, daily_page_check_limit) VALUES (%(t)s, 60)",
            {"t": scene.tenant},
        )
    start = threading.Barrier(4)
    got: list[claims.Claim] = []

    def work(shard: int) -> None:
        start.wait()
        got.append(claim(fresh_ledger, shard=shard, shards=4, limits=ClaimLimits(batch=10)))

    threads = [threading.Thread(target=work, args=(shard,)) for shard in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = [claim(fresh_ledger, shard=shard, shards=4) for shard in range(4)]  # whatever racing left over
    assert sum(len(mine(each, scene)) for each in again) == 60
    assert sum(len(mine(each, free)) for each in again) == 50
    assert sum(each.counts["deferred"] for each in again) == 140
    with fresh_ledger.transaction() as tx:
        row = tx.row(
            "SELECT page_checks_reserved FROM tenant_crawl_usage_daily WHERE tenant_id = %(t)s", {"t": scene.tenant}
        )
    assert row == (60,)


def test_a_capped_claim_is_shared_by_weight(fresh_ledger: Ledger) -> None:
    big = data.scene(fresh_ledger, sources=100)
    small = data.scene(fresh_ledger, sources=5)
    heavy = data.scene(fresh_ledger, sources=100)
    with fresh_ledger.transaction() as tx:
        sql = "INSERT INTO tenant_crawl_limits (tenant_id, daily_page_check_limit, scheduler_weight) VALUES (%(t)s, 1000, 2)"
        tx.execute(sql, {"t": heavy.tenant})
    got = claim(fresh_ledger, limits=ClaimLimits(max_sources=65))
    # the small one needs only 5 of its share; of the other 60 the heavy tenant gets two of three
    assert [len(mine(got, each)) for each in (big, small, heavy)] == [20, 5, 40]
    assert got.counts["deferred"] == 140
