"""The conductor of a soak: crawlers that are started and ended, MySQL and the store that go away, progress, the report.
Here: when what happens. Not here: the command line (`tests.bench.crawl_soak`), the judgement (`verdict`).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import stamina.instrumentation
from rich.console import Console
from rich.table import Table

from assets.platform import Platform
from tests.bench.soak import worker
from tests.bench.soak.database import Database
from tests.bench.soak.scene import TARGET, Scene
from tests.bench.soak.verdict import Fault, Verdict, judge
from tests.bench.soak.web import WebProcess
from transforms.errors import TransientError
from transforms.urls import identify_many
from transforms.windows import Window
from warehouse.ledger import edges, migrate, projects
from warehouse.ledger.due import make_due
from warehouse.ledger.tables import EDGES

CONSOLE = Console(soft_wrap=True)
if CONSOLE.width < 120:
    CONSOLE = Console(soft_wrap=True, width=120)
STEADY = 0
"""The shard whose crawler is never killed."""
RIVALS = {1: 2, 2: 2}
"""Shards that more than one process crawls at once."""
ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)
FORKS = multiprocessing.get_context("forkserver")
"""Crawlers are forked from one process that has imported everything: starting is not what is tested."""
Child = multiprocessing.context.ForkServerProcess
GIVEN_UP = "internal error at "
SAMPLES = 60
"""Growth is judged from ten minutes on: before, pools and caches fill."""
OPEN_HANDLES = 50
GROWTH_MB = 60
"""By so much may the last third of the soak be above the first."""


class Soak:
    """What happens while the time runs: crawlers, faults, progress."""

    def __init__(self, scene: Scene, web: WebProcess, database: Database, seed: int) -> None:
        self.scene, self.web, self.database, self.seed = scene, web, database, seed
        self.done = threading.Event()
        self.lock = threading.Lock()
        self.faults: list[Fault] = []
        self.unexpected: list[str] = []
        self.starts = 0
        self.memory: list[tuple[float, float, int]] = []
        """(seconds, MB, handles) of the steady crawler."""
        self.steady: Child | None = None

    def note(self, kind: str, shard: int | None = None) -> None:
        with self.lock:
            self.faults.append(Fault(time.time(), kind, shard))

    def run(self, seconds: float, platform: Platform, project: bytes) -> None:
        jobs: list[Callable[[], None]] = [self._restart_mysql, self._stop_store]
        for shard in range(self.scene.shards):
            jobs += [lambda s=shard, n=slot: self._crawl(s, n) for slot in range(RIVALS.get(shard, 1))]  # type: ignore[misc]
        threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]
        began = said = time.monotonic()
        try:
            for thread in threads:
                thread.start()
            due_in: Window | None = None
            while (now := time.monotonic()) - began < seconds:
                window = Window.containing(platform.clock.now(), platform.window_length)
                if window != due_in and self._fall_due(platform, project):
                    due_in = window
                if now - said >= 10.0:
                    said = now
                    self._sample(now - began)
                    self._progress(now - began, seconds)
                time.sleep(0.5)
        finally:
            self.done.set()
            for thread in threads:
                thread.join(120)

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            self.unexpected.append(f"the soak itself: {type(error).__name__}: {error}")

    def _fall_due(self, platform: Platform, project: bytes) -> bool:
        try:
            make_due(platform.ledger, project, now=platform.clock.now())
        except TransientError:
            return False
        return True

    # -- crawlers ------------------------------------------------------------------------------------------------------

    def start_worker(self, shard: int, slot: int, drain: list[str] | None = None) -> Child:
        with self.lock:
            self.starts += 1
            child = FORKS.Process(target=worker.run, args=(self.scene.folder, shard, slot, self.starts, drain))
            child.start()
        return child

    def _crawl(self, shard: int, slot: int) -> None:
        rng = random.Random(f"{self.seed} crawler {shard} {slot}")
        while not self.done.is_set():
            child = self.start_worker(shard, slot)
            if shard == STEADY:
                self.steady = child
            until = time.monotonic() + (float("inf") if shard == STEADY else rng.uniform(15, 75))
            while child.is_alive() and time.monotonic() < until and not self.done.wait(0.2):
                pass
            if child.is_alive() and child.pid is not None:
                number = signal.SIGTERM if self.done.is_set() else rng.choice(ENDS)
                self.note(number.name, shard)
                os.kill(child.pid, number)
                child.join(60)
            if child.is_alive():
                self.unexpected.append(f"a crawler of shard {shard} did not end within 60 s of SIGTERM")
                child.kill()
                child.join()
            if child.exitcode not in (0, -signal.SIGKILL, -signal.SIGTERM):
                self.unexpected.append(f"a crawler of shard {shard} ended with {child.exitcode}")

    # -- faults --------------------------------------------------------------------------------------------------------

    def _restart_mysql(self) -> None:
        rng, kill = random.Random(f"{self.seed} mysql"), False
        while not self.done.wait(rng.uniform(25, 70)):
            self.note("MySQL killed" if kill else "MySQL restarted")
            self.database.restart(kill=kill, away_s=rng.choice([0.0, 0.5, 5.0]))
            self.note("MySQL is back")
            kill = not kill

    def _stop_store(self) -> None:
        rng = random.Random(f"{self.seed} store")
        while not self.done.wait(rng.uniform(30, 80)):
            self.note("store down")
            self.scene.store_down.touch()
            self.done.wait(rng.uniform(1, 6))
            self.scene.store_down.unlink()

    # -- watching ------------------------------------------------------------------------------------------------------

    def _sample(self, at: float) -> None:
        if self.steady is not None and self.steady.is_alive():
            process = Path(f"/proc/{self.steady.pid}")
            try:
                status = (process / "status").read_text()
                handles = len(list((process / "fd").iterdir()))
            except OSError:
                return
            rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            self.memory.append((round(at), rss / 1024, handles))

    def _progress(self, at: float, seconds: float) -> None:
        kinds = Counter(fault.kind for fault in self.faults)
        memory = f"{self.memory[-1][1]:.0f} MB, {self.memory[-1][2]} handles" if self.memory else "-"
        mysql = kinds["MySQL killed"] + kinds["MySQL restarted"]
        CONSOLE.print(
            f"{at:5.0f} of {seconds:.0f} s  {self.web.requests_seen:,} requests, {self.web.answered_badly:,} of "
            f"them answered badly; crawlers ended {kinds['SIGKILL']} + {kinds['SIGTERM']}, MySQL {mysql}, store "
            f"{kinds['store down']}; steady crawler {memory}",
            highlight=False,
        )

    def drain(self, windows: list[str], timeout_s: float) -> None:
        """Without faults, finish every window of every shard."""
        self.web.calm()
        self.scene.store_down.unlink(missing_ok=True)
        began = time.monotonic()
        children = [self.start_worker(shard, 9, windows) for shard in range(self.scene.shards)]
        for shard, child in enumerate(children):
            child.join(max(1.0, timeout_s - (time.monotonic() - began)))
            if child.is_alive():
                self.unexpected.append(f"shard {shard} was not finished within {timeout_s:.0f} s")
                child.kill()
                child.join()
            elif child.exitcode:
                self.unexpected.append(f"finishing shard {shard} ended with {child.exitcode}")


def warm() -> None:
    """Start the process that crawlers are forked from; it has everything imported then."""
    FORKS.set_forkserver_preload([worker.__name__])
    first = FORKS.Process(target=int)
    first.start()
    first.join()


# -- before and after ----------------------------------------------------------------------------------------------------


def register(scene: Scene, platform: Platform) -> bytes:
    """One project whose edges lead from every page of the web to one target."""
    ledger, now = platform.ledger, platform.clock.now()
    project = projects.ensure_project(
        ledger, tenant_id=platform.tenant_id, name="soak", now=now, recrawl_interval=timedelta(days=7)
    )
    (target,) = edges.register_urls(ledger, edges.urls_of(identify_many([TARGET])))["url_id"].to_pylist()
    sources = edges.register_urls(ledger, edges.urls_of(identify_many(scene.urls)))["url_id"].to_pylist()
    rows = [
        {"project_id": project.id, "source_url_id": source, "target_url_id": target, "any_target": False}
        for source in sources
    ]
    edges.register_edges(ledger, EDGES.table(rows), source="manual", now=now)
    return project.id


def windows_of(platform: Platform) -> list[str]:
    with platform.ledger.transaction() as tx:
        starts = tx.rows("SELECT DISTINCT validation_window FROM page_fetch_jobs ORDER BY validation_window")
    return [Window(start, platform.window_length).key for (start,) in starts]


def events_of(scene: Scene) -> tuple[list[Fault], int]:
    """What crawlers said went wrong, and how often they logged that a page broke them."""
    events: list[Fault] = []
    given_up = 0
    for said in sorted(scene.path.glob("worker-*.jsonl")):
        for line in said.read_text(errors="replace").splitlines():
            row: dict[str, Any] = json.loads(line)
            events.append(Fault(row["at"], row.get("error", row["event"]), int(said.stem.split("-")[1])))
    for log in sorted(scene.path.glob("worker-*.log")):
        given_up += sum(1 for line in log.read_text(errors="replace").splitlines() if line.startswith(GIVEN_UP))
    return sorted(events, key=lambda event: event.at), given_up


def growth(memory: list[tuple[float, float, int]]) -> tuple[float, int]:
    """(MB, handles) by which the median of the last third is above that of the first third after a warm-up."""
    steady = memory[len(memory) // 6 :]
    third = max(1, len(steady) // 3)
    if not steady:
        return 0.0, 0
    middle = third // 2
    first, last = steady[:third], steady[-third:]
    return (
        sorted(row[1] for row in last)[middle] - sorted(row[1] for row in first)[middle],
        sorted(row[2] for row in last)[middle] - sorted(row[2] for row in first)[middle],
    )


def report(verdict: Verdict, console: Console) -> None:
    table = Table(title="Soak", title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value in verdict.figures.items():
        text = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(name, f"[red]{text}" if name in verdict.broken else text)
    console.print(table)
    for example in verdict.examples:
        console.print(f"  {example}", highlight=False, markup=False)
    if verdict.broken:
        console.print(f"[red]Broken: {', '.join(verdict.broken)}")
    else:
        console.print("Every promise was kept.")


def soak(scene: Scene, seconds: float, seed: int) -> Verdict:
    """Run it, finish it, judge it. Everything that it starts is stopped at the end."""
    warm()
    stamina.instrumentation.set_on_retry_hooks([])  # the database goes away because we make it
    folder = scene.path
    scene.write()
    web = WebProcess(scene.hosts, seed, folder)
    database = Database(folder / "stack")
    began = time.monotonic()
    try:
        settings = scene.settings(mysql_port=database.ledger.port, web_port=web.port, ca_file=web.ca_file)
        settings.write_env(scene.env_file)
        migrate(settings.ledger)
        platform = scene.platform(settings)
        project = register(scene, platform)
        CONSOLE.print(
            f"{scene.hosts} hosts with {scene.pages} pages each, due once every {scene.window_s} s; {scene.shards} "
            f"shards; gap {scene.gap_s:g} s; {folder}",
            highlight=False,
        )
        run = Soak(scene, web, database, seed)
        run.run(seconds, platform, project)
        faults_took = time.monotonic() - began
        database.start()  # should it be away, whatever the reason: what is judged is what comes after
        CONSOLE.print("The time is up: no more faults; every window is being finished.")
        run.drain(windows_of(platform), timeout_s=2.0 * scene.window_s + 300.0)
        events, given_up = events_of(scene)
        hard = [event for event in events if event.kind not in ("pass", "ended")]
        arrivals, web_faults = web.end()
        verdict = judge(scene, platform, arrivals, sorted(run.faults + hard, key=lambda fault: fault.at))
        more_mb, more_handles = growth(run.memory)
        samples = run.memory[:: max(1, len(run.memory) // 8)]
        if len(run.memory) >= SAMPLES:
            verdict.promise(f"growth of the steady crawler above {GROWTH_MB} MB", int(more_mb > GROWTH_MB))
            verdict.promise("growth of its open handles", int(more_handles > OPEN_HANDLES))
        verdict.promise("crawlers that did not end as asked", len(run.unexpected))
        verdict.examples += run.unexpected[:20]
        verdict.figures |= {
            "seconds with faults / in all": f"{faults_took:.0f} / {time.monotonic() - began:.0f}",
            "internal errors logged by crawlers": given_up,
            "crawler processes started": run.starts,
            "faults of ours": dict(Counter(fault.kind for fault in run.faults)),
            "faults of the web": dict(web_faults),
            "what crawlers said": dict(Counter(event.kind for event in events)),
            "steady crawler, MB (first, last third)": f"{more_mb:+.0f} MB, {more_handles:+d} handles",
            "steady crawler, samples": ", ".join(f"{at:.0f} s {mb:.0f} MB {n}" for at, mb, n in samples),
        }
        platform.close()
    finally:
        database.stop()
        web.kill()
    return verdict
