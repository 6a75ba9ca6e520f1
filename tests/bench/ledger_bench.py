"""How fast the ledger is: import, claim, commit, write-back. Run: `python -m tests.bench.ledger_bench [--edges N]`.

Uses the MySQL server of the settings in the environment (`BACKLINKS_LEDGER__*`) and a database pair of its own, dropped
afterwards. Figures of one run on a shared machine: compare CPU, client's and server's (the latter is read from /proc, so
only when the server runs on this machine). `--statements` lists where the server's time went, step by step.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

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


class Meter:
    """Times steps: wall clock, CPU of this process and of the server, and the server's statements."""

    def __init__(self, ledger: Ledger, *, statements: bool) -> None:
        self._ledger, self._statements = ledger, statements
        with ledger.transaction() as tx:
            row = tx.row("SELECT @@pid_file")
        try:
            self._pid: int | None = int(Path(str(row and row[0])).read_text())
        except (OSError, ValueError):
            self._pid = None

    def _server_cpu(self) -> float:
        if self._pid is None:
            return float("nan")
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def measured(self, name: str, rows: int) -> Iterator[None]:
        before = self._digests()
        wall, cpu, server = time.perf_counter(), time.process_time(), self._server_cpu()
        yield
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        server = self._server_cpu() - server
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{name:34} {rows:>9,} rows {wall:8.1f} s {rows / wall:>9,.0f} rows/s  server {server:6.1f} s CPU  "
            f"client {cpu:6.1f} s CPU  peak {peak} MB  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        spent = {text: (n - before.get(text, (0, 0))[0], s - before.get(text, (0, 0))[1]) for text, (n, s) in
                 self._digests().items()}  # fmt: skip
        for text, (count, seconds) in sorted(spent.items(), key=lambda item: -item[1][1])[:12]:
            if seconds > 0.01 * wall:
                print(f"    {seconds:7.2f} s in {count:>5} x {text[:150]}")

    def _digests(self) -> dict[str, tuple[int, float]]:
        if not self._statements:
            return {}
        with self._ledger.transaction() as tx:
            rows = tx.rows(
                "SELECT digest_text, count_star, sum_timer_wait FROM performance_schema.events_statements_summary_by_digest "
                "WHERE schema_name = DATABASE()"
            )
        return {str(text): (int(count), int(wait) / 1e12) for text, count, wait in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=100_000)
    parser.add_argument("--statements", action="store_true", help="list the statements that took longest, step by step")
    options = parser.parse_args()
    with database_pair(Settings().ledger) as settings:
        migrate(settings)
        with Ledger(settings) as ledger:
            run(ledger, options.edges, options.due, Meter(ledger, statements=options.statements))


def run(ledger: Ledger, count: int, due: int, meter: Meter) -> None:
    project = projects.ensure_project(
        ledger, tenant_id=keys.tenant_id("bench"), name="bench", now=NOW, recrawl_interval=timedelta(days=7)
    )
    (target,) = data.url_ids(ledger, ["https://target.example.com/"])
    with meter.measured("register URLs and edges", count):
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
    with meter.measured("claim (one shard of one)", due):
        claim = claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="bench")
    assert claim.due.num_rows == due
    with meter.measured("claim again (reads it back)", due):
        claims.claim_due(ledger, window=WINDOW, shard=0, shards=1, now=NOW, owner="bench")
    rows = claim.due.select(["source_url_id", "source_url", "registrable_domain", "fetch_job_id"]).to_pylist()
    results = data.fetches([data.fetch_row(row) for row in rows])
    del rows
    with meter.measured("commit fetches", due):
        fetches.commit_fetches(ledger, results)
    batch = decided(claim.expected)
    with meter.measured("write back, an outbox row each", due):
        counts = apply_batch(ledger, batch, now=NOW)
    print(counts)
    with meter.measured("write back again (nothing to do)", due):
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
