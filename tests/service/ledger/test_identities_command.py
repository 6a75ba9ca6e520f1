"""`backlinks identities migrate` as a data engineer meets it."""

from __future__ import annotations

from io import StringIO

import pytest
from typer.testing import CliRunner

from orchestration.cli import identities
from orchestration.cli.console import PlainConsole
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.identity_migration import Example, Outcome

pytestmark = pytest.mark.service


def test_there_is_nothing_to_do(ledger_settings: LedgerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("port", "database", "identity_database", "user"):
        monkeypatch.setenv(f"BACKLINKS_LEDGER__{name.upper()}", str(getattr(ledger_settings, name)))
    monkeypatch.setenv("BACKLINKS_LEDGER__PASSWORD", ledger_settings.password.get_secret_value())
    for arguments in (["migrate", "--dry-run"], ["migrate"]):
        done = CliRunner().invoke(identities.app, arguments)
        assert (done.exit_code, done.stdout) == (0, "All URL identities are of version 1: nothing to do.\n")


def test_counts_and_examples_are_shown() -> None:
    out = StringIO()
    outcome = Outcome(
        1, 2, 1_000, 20, 3, 1, 4,
        (
            Example("merged", "https://a.example/index.html", "https://a.example/", 2),
            Example("refused", "https://b.example/\x1b[31m", "bad_host", 7),
        ),
    )  # fmt: skip
    identities.show(outcome, PlainConsole(file=out, width=120), done=True)
    text = out.getvalue()
    for part in (
        "version 1 to 2",
        "1,000",
        "4 edges became one",
        "https://a.example/index.html",
        "bad_host",
        "\ufffd[31m",
    ):
        assert part in text
    assert "dry run" not in text
