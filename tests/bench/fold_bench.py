"""What a window costs when there are millions of edges: `python -m tests.bench.fold_bench --edges 2000000 --weeks 4`.

Each edge is observed once a week, its hour by hash, so a window of one hour holds edges/168 observations (12,000 of 2
million). Starts a private ClickHouse front in a temporary folder and removes it. Measured: the full fold, the next
window, the same window again, a corrected window of a week ago (late: its edges have later rows), and what the
write-back reads.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clickhouse_connect.driver.client import Client

from tests.fixtures.stack import free_port
from transforms.windows import Window
from warehouse import clickhouse as ch
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.local import clickhouse as local
from warehouse.local import stack
from warehouse.local.config import StackSettings
from warehouse.local.paths import StackFolder

T0 = datetime(2026, 9, 7, tzinfo=UTC)

OBSERVATIONS = """
INSERT INTO backlink_observations_fact
(
    observation_id, idempotency_key, tenant_id, project_id, backlink_id, crawl_run_id, window_start, observed_at,
    source_url_id, source_url, source_url_hash, source_registrable_domain, target_url_id, target_url, target_url_hash,
    evidence, evidence_reason, evidence_complete, source_fetch_health, source_http_status, source_final_url,
    target_fetch_health, target_http_status, target_final_url, link_url, link_count, anchor_text, follow, placement,
    page_title, html_lang, response_time_ms, content_hash, object_key, parser_version, evidence_hash, ingest_version
)
WITH
    number + 1 AS edge,
    cityHash64(edge, {week:UInt32}) AS dice,
    multiIf(dice % 100 < 90, 'found', dice % 100 < 95, 'missing', 'none') AS seen,
    toDateTime64({start:DateTime64(6, 'UTC')}, 6, 'UTC') + toIntervalHour(edge % 168) AS hour
SELECT
    dice, SHA256(toString(dice)), toUUID('00000000-0000-0000-0000-000000000001'),
    toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(edge % 50), 12, '0'))), edge,
    toUUID('00000000-0000-0000-0000-000000000002'), hour, hour + toIntervalSecond(dice % 3000),
    edge, concat('https://site', toString(edge % 100000), '.example/articles/', toString(edge)), SHA256(toString(edge)),
    concat('site', toString(edge % 100000), '.example'), edge % 1000,
    concat('https://customer.example/', toString(edge % 1000)), SHA256(toString(edge % 1000)),
    seen, if(seen = 'found', 'link_found', if(seen = 'missing', 'link_absent', 'connect_timeout')), seen != 'none',
    if(seen = 'none', 'error', 'ok'), if(seen = 'none', NULL, 200), 'https://site.example/', 'ok', 200,
    'https://customer.example/', if(seen = 'found', 'https://customer.example/', NULL), seen = 'found',
    if(seen = 'found', concat('anchor text number ', toString(edge % 997)), NULL), if(seen = 'found', 'follow', NULL),
    if(seen = 'found', 'content', NULL), 'A title of an article', 'en', 100, SHA256(toString(edge)),
    concat('snapshots/', hex(edge)), '1', SHA256(toString((dice, {version:UInt64}))), {version:UInt64}
FROM numbers({edges:UInt64})
WHERE {hour:Int32} < 0 OR edge % 168 = {hour:Int32}
"""


def observe(client: Client, edges: int, week: int, *, hour: int = -1, version: int) -> None:
    """A week of observations, or one hour of it."""
    client.command(
        OBSERVATIONS,
        parameters={
            "edges": edges, "week": week, "start": T0 + timedelta(weeks=week), "hour": hour, "version": version,
        },
    )  # fmt: skip


@contextmanager
def server(folder: Path) -> Iterator[tuple[ClickHouseSettings, StackFolder]]:
    stack_folder, settings = StackFolder(folder / "server"), ClickHouseSettings(port=free_port())
    stack_folder.create()
    try:
        stack.ensure(
            local.process(settings, StackSettings(folder=stack_folder.root), stack_folder), stack_folder, timeout_s=60
        )
        yield settings, stack_folder
    finally:
        stack.down(stack_folder, timeout_s=30)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edges", type=int, default=2_000_000)
    options.add_argument("--weeks", type=int, default=4, help="history before the window that is measured")
    options.add_argument(
        "--folder", type=Path, default=None, help="where to put the server (default: a temporary folder)"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="fold-bench-", dir=asked.folder) as folder, server(Path(folder)) as (
        settings, stack_folder,
    ):  # fmt: skip
        pid = json.loads(stack_folder.pid_file(local.PART).read_text())["pid"]
        measure(settings, Path(folder) / "dbt", asked.edges, asked.weeks, pid)


def cpu_seconds(pid: int) -> float:
    """Processor time that the server has used: what counts on a machine that others use as well."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024


def measure(settings: ClickHouseSettings, work: Path, edges: int, weeks: int, pid: int) -> None:
    client = ch.connect(settings)
    ch.ensure_schema(client, settings)

    def timed(what: str, action: Callable[[], object]) -> object:
        began, used = time.perf_counter(), cpu_seconds(pid)
        result = action()
        took, cpu = time.perf_counter() - began, cpu_seconds(pid) - used
        print(f"{took:8.2f} s  (server cpu {cpu:7.2f} s, peak {peak_memory_mb(pid)} MB)  {what}", flush=True)
        return result

    def fold(what: str, window: Window | None, select: str | None = "tag:fold") -> None:
        report = timed(f"dbt: {what}", lambda: ch.run_dbt(settings, window, select, work=work))
        models = report.models  # type: ignore[attr-defined]
        wanted = ("int_refold_edges", "int_refold_observations", "edge_history", "edge_current")
        print("            of which " + ", ".join(f"{name} {models[name]:.2f} s" for name in wanted), flush=True)

    for week in range(weeks):
        timed(
            f"generate week {week}: {edges:,} observations", lambda week=week: observe(client, edges, week, version=1)
        )
    fold(f"full fold of {edges * weeks:,} observations", None, None)
    next_window = Window(T0 + timedelta(weeks=weeks))
    observe(client, edges, weeks, hour=0, version=1)
    fold(f"next window, {edges // 168:,} observations, from edge_current", next_window)
    timed("read edge states of it", lambda: ch.read_edge_states(client, next_window).num_rows)
    observations = timed("read its observations", lambda: ch.read_observations(client, next_window))
    counts = timed("load them again (nothing changed)", lambda: ch.load_observations(client, observations))  # type: ignore[arg-type]
    print(f"            {counts}")
    fold("the same window again (nothing changed)", next_window)
    observe(client, edges, weeks - 1, hour=0, version=2)
    late = Window(T0 + timedelta(weeks=weeks - 1))
    fold("a corrected window of a week ago (refolds its edges)", late)
    rows = timed("read edge states of it", lambda: ch.read_edge_states(client, late).num_rows)
    print(f"            {rows:,} rows")
    sizes = client.query(
        "SELECT table, formatReadableSize(sum(bytes_on_disk)), sum(rows) FROM system.parts "
        "WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table"
    ).result_rows
    for table, size, count in sizes:
        print(f"            {table}: {count:,} rows, {size}")
    client.close()


if __name__ == "__main__":
    main()
