"""`kill -9` at every stage, then the same window again: the stores end as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestration import flow, resources
from orchestration.demo import play as plays
from orchestration.demo.scenario import window_start
from tests.e2e.kill_run import POINTS
from tests.e2e.rows import business_rows
from transforms.windows import Window
from warehouse.ledger import due, projects

pytestmark = [pytest.mark.e2e, pytest.mark.service]

KILLS = {
    0: ["claimed", "snapshots stored, no part", "part written, not in the ledger", "new edges registered",
        "observations loaded", "in a transaction"],
    1: ["fetches in the ledger", "manifests written, not in the ledger", "redirectors asked, not written",
        "history folded, states not", "state written, run not recorded"],
    2: ["targets checked, not in the ledger", "before the first transaction", "between two transactions"],
}  # fmt: skip
"""Points by window, in the order in which a run reaches them. Window 0 holds what is new, window 2 the first losses."""


def _prepare(play: plays.Play, number: int) -> Window:
    settings = play.at(number)
    settings.write_env(play.env_file)
    play.web.set_window(number)
    platform = resources.platform(settings)
    try:
        for project in projects.list_projects(platform.ledger, tenant_id=platform.tenant_id):
            due.make_due(platform.ledger, project.id, now=settings.clock.now())
    finally:
        platform.close()
    return Window(window_start(number), settings.window_length)


@contextmanager
def _killer(play: plays.Play, log: Path) -> Iterator[Callable[[Window, str], None]]:
    """A function that runs a window until it dies at a point."""
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.kill_run"],
            env={**os.environ, "BACKLINKS_ENV_FILE": str(play.env_file)}, cwd=resources.ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def die(window: Window, point: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        print(window.key, point, sep="\t", file=process.stdin, flush=True)
        answer = process.stdout.readline().strip()
        assert answer == str(-signal.SIGKILL), f"{point}: {answer}\n{log.read_text()[-3000:]}"

    try:
        yield die
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_every_point_is_tried() -> None:
    assert sorted(point for points in KILLS.values() for point in points) == sorted(POINTS)


def test_killed_at_every_stage_and_run_again_the_stores_hold_the_same(
    new_play: Callable[[], plays.Play], undisturbed: dict[str, list[str]], tmp_path: Path
) -> None:
    play = new_play()
    with _killer(play, tmp_path / "killed.log") as die, flow.instance(play.settings) as instance:
        for number, points in KILLS.items():
            window = _prepare(play, number)
            for point in points:
                die(window, point)
            flow.run_window(play.at(number), window, on=instance)
    platform = resources.platform(play.at(2))
    try:
        found = business_rows(platform, window_start(3))
    finally:
        platform.close()
    for table, rows in undisturbed.items():
        assert rows, table
        assert found[table] == rows, table
