"""The arguments of dbt, which are a pure function, and the environment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from transforms.windows import Window
from warehouse.clickhouse import dbt_arguments, dbt_environment
from warehouse.clickhouse.config import ClickHouseSettings

TEN = datetime(2026, 12, 1, 10, tzinfo=UTC)


def test_a_window_becomes_two_variables() -> None:
    arguments = dbt_arguments("build", Window(TEN, timedelta(minutes=15)), ["tag:fold", "marts"])
    assert arguments[:2] == ["build", "--vars"]
    assert json.loads(arguments[2]) == {"window_start": "2026-12-01 10:00:00", "window_end": "2026-12-01 10:15:00"}
    assert arguments[3:] == ["--select", "tag:fold", "marts"]


def test_a_range_of_windows() -> None:
    arguments = dbt_arguments("run", (TEN, TEN + timedelta(days=2)), variables={"check_all_history": True})
    assert json.loads(arguments[2]) == {
        "check_all_history": True, "window_start": "2026-12-01 10:00:00", "window_end": "2026-12-03 10:00:00",
    }  # fmt: skip


def test_without_a_window() -> None:
    assert dbt_arguments("parse") == ["parse"]
    assert dbt_arguments("run", full_refresh=True, select="marts") == ["run", "--select", "marts", "--full-refresh"]


def test_the_password_is_in_a_variable_that_dbt_hides_and_nowhere_else() -> None:
    environment = dbt_environment(ClickHouseSettings(password=SecretStr("hush"), secure=True, port=8443))
    assert [name for name, value in environment.items() if value == "hush"] == [
        "DBT_ENV_SECRET_BACKLINKS_CLICKHOUSE_PASSWORD"
    ]
    assert environment["BACKLINKS_CLICKHOUSE__SECURE"] == "true"
    assert environment["BACKLINKS_CLICKHOUSE__PORT"] == "8443"
