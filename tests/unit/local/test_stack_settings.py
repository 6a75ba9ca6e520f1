"""The account a private MySQL is given, the sentences for what its log says, and where relative folders lie."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from warehouse.ledger.config import LedgerSettings
from warehouse.local import mysql
from warehouse.local.config import StackSettings
from warehouse.local.errors import StackError
from warehouse.local.paths import StackFolder, cache_folder, project_root, resolve
from warehouse.local.stack import is_here


def test_grants_cover_names_that_begin_like_the_databases_and_no_others() -> None:
    sql = mysql.account_sql(LedgerSettings(database="my_db", identity_database="ident"))
    assert "GRANT ALL PRIVILEGES ON `my\\_db%`.* TO 'backlinks'@'%'" in sql
    assert "GRANT ALL PRIVILEGES ON `ident%`.* TO 'backlinks'@'%'" in sql
    assert "ON *.* TO 'backlinks'" in sql  # PROCESS alone
    assert [line for line in sql.splitlines() if "ON *.*" in line] == ["GRANT PROCESS ON *.* TO 'backlinks'@'%';"]
    assert "ALTER USER 'root'@'localhost' ACCOUNT LOCK;" in sql


def test_a_password_with_quotes_stays_inside_its_literal() -> None:
    sql = mysql.account_sql(LedgerSettings(password="it's \\ a; DROP"))
    assert "IDENTIFIED BY 'it\\'s \\\\ a; DROP'" in sql
    with pytest.raises(StackError, match="control characters"):
        mysql.account_sql(LedgerSettings(password="two\nlines"))


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            "[ERROR] [MY-012592] [InnoDB] Operating system error number 28 in a file operation.",
            "disk (or a quota) is full",
        ),
        (
            "[ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11",
            "another mysqld uses the data directory /s/mysql",
        ),
        (
            "[ERROR] [MY-010262] [Server] Can't start server: Bind on TCP/IP port: Address already in use",
            "BACKLINKS_LEDGER__PORT=<port>",
        ),
        ("[ERROR] [MY-012960] [InnoDB] Cannot create redo log files because data files are corrupt", "is damaged"),
        ("[ERROR] [MY-000000] [Server] Something new.", "did not start: Something new; see /s/logs/mysql.log"),
    ],
)
def test_log_lines_become_one_sentence(log: str, sentence: str) -> None:
    said = mysql.explain(
        f"2026-12-01T00:00:00Z 0 [System] starting\n2026-12-01T00:00:00Z 0 {log}\n", StackFolder(Path("/s"))
    )
    assert said is not None
    assert sentence in said
    assert said.count("\n") == 0


def test_no_error_no_sentence() -> None:
    assert mysql.explain("[Warning] nothing\n", StackFolder(Path("/s"))) is None


def test_a_relative_folder_is_taken_from_the_project_and_not_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (project_root() / "pyproject.toml").is_file()
    assert resolve(".stack") == project_root() / ".stack"
    assert resolve("/x") == Path("/x")


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(StackSettings()) == tmp_path / "backlinks"
    assert cache_folder(StackSettings(cache=Path("/elsewhere"))) == Path("/elsewhere")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a home that cannot hold folders
    assert cache_folder(StackSettings(folder=tmp_path / "stack")) == tmp_path / "stack/cache"


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("db.internal", False), ("10.0.0.1", False)],
)
def test_only_loopback_is_here(host: str, here: bool) -> None:
    assert is_here(host) is here


def test_compose_file_is_yaml_whose_environment_the_settings_understand(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestration.settings import Settings

    compose = yaml.safe_load((project_root() / "compose.yaml").read_text())
    for name in ("dagster-webserver", "dagster-daemon", "prepare"):
        for key, value in compose["services"][name]["environment"].items():
            monkeypatch.setenv(
                key, value.replace("${BACKLINKS_PASSWORD:?set BACKLINKS_PASSWORD, for example in .env}", "pw")
            )
    settings = Settings(_env_file=None)
    assert (settings.ledger.host, settings.ledger.port) == ("mysql", 3306)
    assert (settings.clickhouse.host, settings.clickhouse.port) == ("clickhouse", 8123)
    assert settings.objects.url == "s3://backlinks/objects"
    assert settings.ledger.password.get_secret_value() == settings.clickhouse.password.get_secret_value() == "pw"
    for service in compose["services"].values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")  # loopback only
