"""Settings: nested environment variables, and the env file that the demo writes."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from crawl.config import CrawlSettings
from orchestration.settings import Settings
from warehouse.ledger.config import LedgerSettings


def test_a_nested_variable_changes_one_field_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKLINKS_LEDGER__HOST", "db.internal")
    settings = Settings(_env_file=None)
    assert (settings.ledger.host, settings.ledger.port) == ("db.internal", 13306)


def test_secrets_are_not_shown() -> None:
    settings = Settings(ledger=LedgerSettings(password=SecretStr("s3cret-word")), _env_file=None)
    assert "s3cret-word" not in repr(settings)
    assert "s3cret-word" not in str(settings.ledger)


def test_an_env_file_brings_the_same_settings_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Settings(
        ledger=LedgerSettings(database="backlinks_demo", password=SecretStr('it\'s "quoted" #1')),
        crawl=CrawlSettings(test_hosts={"a.test": "127.10.0.1:8080"}, origin_gap_s=0.1),
        clock_now=datetime(2026, 11, 20, 2, 5, tzinfo=UTC),
        shards=2,
        _env_file=None,
    )
    path = tmp_path / "demo" / "settings.env"
    written.write_env(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    monkeypatch.setenv("BACKLINKS_ENV_FILE", str(path))
    assert Settings() == written
