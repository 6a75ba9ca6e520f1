"""`kill -9` at every stage, then the same window again: the stores end as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

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
    1: ["fetches in the ledger", "manifests written, not in the ledger", "history folded, states not",
        "state written, run not recorded"],
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


def _killed(play: plays.Play, window: Window, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.kill_run", window.key, point],
        env={**os.environ, "BACKLINKS_ENV_FILE": str(play.env_file)}, cwd=resources.ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, f"{point}: {done.returncode}\n{done.stderr[-2000:]}"


def _rows(play: plays.Play) -> dict[str, list[str]]:
    platform = resources.platform(play.at(2))
    try:
        return business_rows(platform, window_start(3))
    finally:
        platform.close()


def test_every_point_is_tried() -> None:
    assert sorted(point for points in KILLS.values() for point in points) == sorted(POINTS)


def test_killed_at_every_stage_and_run_again_the_stores_hold_the_same(new_play: Callable[[], plays.Play]) -> None:
    control, killed = new_play(), new_play()
    with flow.instance(control.settings) as instance:
        for _ in plays.run_windows(control, on=instance, progress=lambda _: None, windows=range(3)):
            pass
    for number, points in KILLS.items():
        window = _prepare(killed, number)
        for point in points:
            _killed(killed, window, point)
        with flow.instance(killed.settings) as instance:
            flow.run_window(killed.at(number), window, on=instance)

    expected, found = _rows(control), _rows(killed)
    for table, rows in expected.items():
        assert rows, table
        assert found[table] == rows, table
