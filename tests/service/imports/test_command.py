"""`backlinks import` as a person meets it: one sentence and exit code 1 for what is wrong, a table for what went well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestration.cli import main
from warehouse.ledger import Ledger
from warehouse.ledger.config import LedgerSettings

pytestmark = pytest.mark.service


@pytest.fixture
def command(
    ledger_settings: LedgerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("BACKLINKS_LEDGER__PORT", str(ledger_settings.port))
    monkeypatch.setenv("BACKLINKS_LEDGER__DATABASE", ledger_settings.database)
    monkeypatch.setenv("BACKLINKS_LEDGER__IDENTITY_DATABASE", ledger_settings.identity_database)
    monkeypatch.setenv("BACKLINKS_LEDGER__USER", ledger_settings.user)
    monkeypatch.setenv("BACKLINKS_LEDGER__PASSWORD", ledger_settings.password.get_secret_value())

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["backlinks", "import", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


def test_a_table_and_a_rejects_file(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    Path("links.csv").write_text(
        "source,target\nhttps://a.example/,https://example.com/x\nhttps://a.example/,https://example.com/x\nnope,https://example.com/\n"
    )
    code, out, err = command(
        "links.csv",
        "--project",
        "cmd",
        "--target",
        "example.com",
        "--alert",
        "email:ops@example.com",
        "--interval-hours",
        "12",
        "--due-now",
    )
    assert (code, err.strip()) == (0, "")
    for part in (
        "table with headings (UTF-8, comma)",
        "example.com",
        "accepted",
        "repeated_in_file 1",
        "source_not_a_url 1",
        "links.csv.rejects.csv",
    ):
        assert part in out
    assert Path("links.csv.rejects.csv").read_text().splitlines()[1:] == [
        "3,duplicate,repeated_in_file,https://a.example/,https://example.com/x,first on line 2",
        "4,invalid,source_not_a_url,nope,https://example.com/,",
    ]


def test_a_second_import_of_a_file_rejects_nothing(command) -> None:  # type: ignore[no-untyped-def]
    Path("same.csv").write_text(
        "source,target\nhttps://a.example/1,https://example.com/\nhttps://a.example/2,https://example.com/\n"
    )
    assert "new links of the project" in command("same.csv", "--project", "twice", "--target", "example.com")[1]
    code, out, _ = command("same.csv", "--project", "twice")
    assert code == 0
    assert "already_known 2 (the project has the link; its history is kept)" in out
    assert "rejects.csv" not in out
    assert Path("same.csv.rejects.csv").read_text().splitlines() == ["line,result,reason,source,target,detail"]


def test_what_is_wrong_is_one_sentence(
    command, ledger_settings: LedgerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    Path("list.txt").write_text("https://a.example/\n")
    Path("bad.csv").write_text("source,target\nx,y\n")
    cases = [
        (("none.csv", "--project", "p"), "none.csv does not exist"),
        ((".", "--project", "p"), ". is a directory"),
        (("list.txt", "--project", "p"), "--target example.com"),
        (("list.txt", "--project", "p", "--target", "http://"), "Target “http://”"),
        (("list.txt", "--project", "p", "--target", "example.com", "--alert", "slack:https://x.example/"), "slack:env:NAME"),
        (("list.txt", "--project", "p", "--target", "example.com", "--format", "excel"), "--format excel is not known"),
        (("list.txt", "--project", "p", "--target", "example.com", "--interval-hours", "200"), "between 1 minute and 7 days"),
        (("bad.csv", "--project", "p", "--target", "example.com"), "Not one of the 1 rows of bad.csv"),
    ]  # fmt: skip
    for arguments, message in cases:
        code, _, err = command(*arguments)
        assert code == 1, arguments
        assert message in err
        assert len(err.strip().splitlines()) == 1, err
    monkeypatch.setenv("BACKLINKS_LEDGER__PASSWORD", "wrong")
    code, _, err = command("list.txt", "--project", "p", "--target", "example.com")
    assert code == 1
    assert "password is wrong" in err
    monkeypatch.setenv("BACKLINKS_LEDGER__PORT", "1")
    code, _, err = command("list.txt", "--project", "p", "--target", "example.com")
    assert code == 1
    assert "does not answer" in err
    with Ledger(ledger_settings) as ledger, ledger.transaction() as tx:
        assert tx.row(
            "SELECT COUNT(*) FROM backlinks AS b JOIN projects AS p ON p.id = b.project_id WHERE p.name = 'p'"
        ) == (0,)
