"""How fast the ledger is: import, claim, commit, write-back. Run: `python -m tests.bench.ledger_bench [--edges N]`.

Uses the MySQL server of the settings in the environment (`BACKLINKS_LEDGER__*`) and a database pair of its own, dropped
afterwards. Figures of one run on a shared machine: compare them with each other, not with other machines.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pyarrow as pa

from orchestration.settings import Settings
from tests.fixtures.ledger import database_pair
from tests.service.ledger import data
from tests.service.ledger.data import NOW, WINDOW
from transforms.schemas import EDGE_STATES, LINK_OBSERVATIONS
from transforms.urls import identify_many
from warehouse.ledger import Ledger, claims, edges, fetches, keys, migrate, projects
from warehouse.ledger.tables import EDGES, SCHEDULE
from warehouse.ledger.writeback import WritebackBatch, apply_batch

CHUNK = 50_000


@contextmanager
def measured(name: str, rows: int) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:34} {rows:>9,} rows {wall:8.1f} s {rows / wall:>9,.0f} rows/s  client {cpu:6.1f} s CPU  peak {peak} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=100_000)
    options = parser.parse_args()
    with database_pair(Settings().ledger) as settings:
        migrate(settings)
        with Ledger(settings) as ledger:
            run(ledger, options.edges, options.due)


def run(ledger: Ledger, count: int, due: int) -> None:
    project = projects.ensure_project(
        ledger, tenant_id=keys.tenant_id("bench"), name="bench", now=NOW, recrawl_interval=timedelta(days=7)
    )
    (target,) = data.url_ids(ledger, ["https://target.example.com/"])
    with measured("register URLs and edges", count):
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            urls = edges.urls_of(
                identify_many(
                    [f"https://www.site{n % 50_000}.com/articles/{n}/a-page" for n in range(start, start + size)]
                )
            )
            ids = edges.register_urls(ledger, urls)["url_id"]
            table = pa.table(
                {
                    "project_id": pa.array([project.id] * size, pa.binary(16)),
                    "source_url_id": ids,
                    "target_url_id": pa.array([target] * size, pa.uint64()),
                    "any_target": pa.array([False] * size),
                }
            )
            edges.register_edges(ledger, EDGES.conform(table), source="api", now=NOW)
    with ledger.transaction() as tx:
        tx.execute("UPDATE backlinks SET next_check_at = %(later)s", {"later": NOW + timedelta(days=3)})
        tx.execute("UPDATE backlinks SET next_check_at = %(now)s ORDER BY id LIMIT %(due)s", {"now": NOW, "due": due})
        tx.execute("ANALYZE TABLE backlinks, urls, domains, url_revalidation_state")
    with measured("claim (one shard of one)", due):
        claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="bench")
    assert claim.due.num_rows == due
    with measured("claim again (reads it back)", due):
        claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="bench")
    rows = claim.due.select(["source_url_id", "source_url", "registrable_domain", "fetch_job_id"]).to_pylist()
    results = data.fetches([data.fetch_row(row) for row in rows])
    del rows
    with measured("commit fetches", due):
        fetches.commit_fetches(ledger, results)
    batch = decided(claim.expected)
    with measured("write back, an outbox row each", due):
        counts = apply_batch(ledger, batch, now=NOW)
    print(counts)
    with measured("write back again (nothing to do)", due):
        apply_batch(ledger, batch, now=NOW)


def decided(expected: pa.Table) -> WritebackBatch:
    """Every edge found for the first time: a state row, an observation and a NEW event each."""
    observations, states, schedule = [], [], []
    for row in expected.to_pylist():
        seen = data.observation_row(row)
        observations.append(seen)
        states.append(data.state_row(seen, "live", event="new"))
        schedule.append({"backlink_id": row["backlink_id"], "next_check_at": NOW + timedelta(days=3)})
    return WritebackBatch(
        EDGE_STATES.table(states), LINK_OBSERVATIONS.table(observations), schedule=SCHEDULE.table(schedule)
    )


if __name__ == "__main__":
    main()
