"""The `backlinks` command as a person runs it: a process of its own, settings from the environment. What goes wrong is
one sentence on stderr and an exit code; what goes right is shown."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from orchestration import resources
from orchestration.cli import main
from orchestration.demo import play as plays
from orchestration.demo.scenario import Edge, load_scenario
from tests.fixtures.stack import free_port
from warehouse.ledger import Ledger, keys, projects

pytestmark = [pytest.mark.e2e, pytest.mark.service]

PROGRAM = "import sys; sys.argv[0] = 'backlinks'; from orchestration.cli import main; main()"
WINDOW = 4
"""The window with the most different answers."""
REDIRECTED = next(edge for edge in load_scenario().edges if edge.source == "http://coupon-corner.test/trowels")
GOOD = "Source URL,Target URL\nhttp://gardening-weekly.test/best-trowels,http://acme-tools.test/trowels\n"


@dataclass
class Shell:
    """Runs `backlinks` in a folder with the settings of a play (its own databases and scripted web)."""

    play: plays.Play
    folder: Path

    def __call__(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own."""
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments], cwd=self.folder, env=self._environment(settings),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def here(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """In this process: the same words, without seconds of imports. For what starts nothing."""
        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            mock.patch.dict(os.environ, self._environment(settings), clear=True),
            mock.patch.object(sys, "argv", ["backlinks", *arguments]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as exited:
                code = exited.code if isinstance(exited.code, int) else 1
        return subprocess.CompletedProcess(["backlinks", *arguments], code, out.getvalue(), err.getvalue())

    def _environment(self, settings: dict[str, str]) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("BACKLINKS_", "DAGSTER_"))},
            "BACKLINKS_ENV_FILE": str(self.play.env_file),
            "PYTHONPATH": str(resources.ROOT),
            **{f"BACKLINKS_{name.upper()}": value for name, value in settings.items()},
        }


@pytest.fixture(scope="module")
def shell(new_play: Callable[[], plays.Play], tmp_path_factory: pytest.TempPathFactory) -> Shell:
    play = new_play()
    play.at(WINDOW).write_env(play.env_file)
    play.web.set_window(WINDOW)
    folder = tmp_path_factory.mktemp("commands")
    (folder / "good.csv").write_text(GOOD)
    (folder / "headings.csv").write_text("when,what\n2026-11-02,a link somewhere\n")
    (folder / "empty.csv").write_text("")
    (folder / "folder").mkdir()
    return Shell(play, folder)


def the_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed command says: one line, for a person."""
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("backlinks: ")
    assert "Traceback" not in done.stdout
    return lines[0]


def project_names(shell: Shell) -> list[str]:
    with Ledger(shell.play.settings.ledger) as ledger:
        found = projects.list_projects(ledger, tenant_id=keys.tenant_id(shell.play.settings.tenant))
    return sorted(project.name for project in found)


@pytest.mark.parametrize(
    ("command", "file", "says"),
    [
        ("import", "missing.csv", "missing.csv"),
        ("import", "headings.csv", "headings.csv"),
        ("import", "empty.csv", "empty"),
        ("import", "folder", "folder"),
        ("check", "missing.csv", "missing.csv"),
        ("check", "headings.csv", "headings.csv"),
    ],
)
def test_a_file_that_is_no_export_is_named_and_nothing_is_kept(
    shell: Shell, command: str, file: str, says: str
) -> None:
    sentence = the_sentence(shell.here(command, file, "--project", "Never made", "--target", "acme-tools.test"))
    assert says in sentence
    assert project_names(shell) == ["Acme Tools", "Blue River Analytics"]


IMPORT = ("import", "good.csv", "--project", "Never made", "--target", "acme-tools.test")


@pytest.mark.parametrize(
    ("store", "command"),
    [("ledger", ("run",)), ("ledger", IMPORT), ("clickhouse", ("run",)), ("clickhouse", ("status",))],
)
def test_a_store_that_does_not_answer(shell: Shell, store: str, command: tuple[str, ...]) -> None:
    port = str(free_port())
    run = shell if (store, command) == ("ledger", ("run",)) else shell.here  # once as a person does
    sentence = the_sentence(run(*command, **{f"{store}__port": port}))
    assert f"127.0.0.1:{port}" in sentence
    assert "make up" in sentence


@pytest.mark.parametrize("store", ["ledger", "clickhouse"])
def test_a_wrong_password_is_said_and_never_shown(shell: Shell, store: str) -> None:
    done = shell.here("check", "good.csv", "--target", "acme-tools.test", **{f"{store}__password": "no-such-word"})
    assert "password" in the_sentence(done).lower()
    assert "no-such-word" not in done.stdout + done.stderr
    assert project_names(shell) == ["Acme Tools", "Blue River Analytics"]


@pytest.mark.parametrize("window", ["yesterday", "2026-11-02-08:30"])
def test_a_window_that_does_not_exist(shell: Shell, window: str) -> None:
    assert window in the_sentence(shell.here("run", "--window", window))


def test_an_edge_that_nobody_monitors(shell: Shell) -> None:
    sentence = the_sentence(shell.here("explain", "http://nowhere.test/page", "http://acme-tools.test/trowels"))
    assert "http://nowhere.test/page" in sentence
    sentence = the_sentence(shell.here("explain", "not a url", "http://acme-tools.test/trowels"))
    assert "not a url" in sentence


@pytest.fixture(scope="module")
def some(shell: Shell) -> list[Edge]:
    """An export of one's own: up to three edges of the script for each reason that its truth knows in this window.

    Without those whose truth stands on an earlier check of the same page.
    """
    edges = [edge for edge in shell.play.scenario.edges if edge.project == "acme" and not edge.discovered]
    by_reason: dict[frozenset[str], list[Edge]] = {}
    for edge in edges:
        if WINDOW in edge.truth and not edge.truth[WINDOW].reasons & {"link_collapse", "redirect_unchecked"}:
            by_reason.setdefault(edge.truth[WINDOW].reasons, []).append(edge)
    chosen = [edge for group in by_reason.values() for edge in group[:3]]
    with open(shell.folder / "mine.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Source URL", "Target URL"])
        writer.writerows([edge.source, edge.target] for edge in chosen)
    return chosen


def test_check_gives_each_row_of_the_file_a_state_and_a_reason(shell: Shell, some: list[Edge]) -> None:
    assert len(some) >= 18
    done = shell("check", "mine.csv", "--target", "acme-tools.test", "--output", "json")
    assert done.returncode == 0, done.stderr
    rows = {(row["source_url"], row["target_url"]): row for row in json.loads(done.stdout)}
    for edge in some:
        row, truth = rows.pop((edge.source, edge.target)), edge.truth[WINDOW]
        assert row["evidence"] == truth.evidence, edge
        assert row["reason"] in truth.reasons, edge
        assert row["state"] == ("live" if truth.evidence == "found" else "unknown"), edge  # never seen before
        assert row["last_checked_at"], edge
        assert row["target_health"], edge
        assert (row["link_redirects"] is not None) == (row["reason"] == "link_found_via_redirect"), edge
        if edge.source == REDIRECTED.source:
            assert row["link_redirects"] == (
                "http://coupon-corner.test/go/acme-trowels (302) → http://acme-tools.test/trowels?utm_source=coupon-corner"
            )
    assert {row["state"] for row in rows.values()} <= {"live"}  # what the same pages hold besides


def test_run_status_and_explain_show_what_they_are_for(shell: Shell) -> None:
    ran = shell("run")
    assert ran.returncode == 0, ran.stderr
    assert "window 2026-11-02-16:00" in ran.stdout
    for stage in (
        "due_sources",
        "page_fetches",
        "link_manifests",
        "target_health",
        "link_observations",
        "current_state",
    ):
        assert stage in ran.stdout

    status = shell.here("status")
    assert status.returncode == 0, status.stderr
    for said in ("Acme Tools", "Blue River", "2026-11-02 16:00"):
        assert said in status.stdout

    live = next(
        edge for edge in shell.play.scenario.edges
        if edge.project == "acme" and not edge.discovered and WINDOW in edge.truth and edge.truth[WINDOW].evidence == "found"
    )  # fmt: skip
    explained = shell.here("explain", live.source, live.target)
    assert explained.returncode == 0, explained.stderr
    for said in (live.source, live.target, "Acme Tools", "live", "found", "200"):
        assert said in explained.stdout
    explained = shell.here("explain", REDIRECTED.source, REDIRECTED.target)
    assert explained.returncode == 0, explained.stderr
    for said in ("link_found_via_redirect", "Redirectors of the source's own", "proven", "/go/acme-trowels (302)"):
        assert said in explained.stdout
