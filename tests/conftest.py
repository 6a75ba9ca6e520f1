"""Fixtures for every test live in `tests/fixtures/`, one module per kind of server. Here: only how `make test` shares
tests out between processes."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

pytest_plugins = [
    "tests.fixtures.stack",
    "tests.fixtures.ledger",
    "tests.fixtures.clickhouse",
    "tests.fixtures.objects",
    "tests.fixtures.web",
    "tests.fixtures.hostile",
    "tests.fixtures.chromium",
    "tests.fixtures.flow",
    "tests.fixtures.scene",
]

READ_THE_PLAY = ("tests/e2e/test_kill.py", "tests/e2e/test_play.py")


class Sharing(LoadFileScheduling):
    """A module stays in one process, because its tests may share rows; so do the modules that read the one play of the
    demo, because playing it takes a minute."""

    def _split_scope(self, nodeid: str) -> str:
        module = super()._split_scope(nodeid)
        return "the play" if module in READ_THE_PLAY else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)
