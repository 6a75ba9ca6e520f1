"""Connecting, and the one sentence when it does not work."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from tests.fixtures.clickhouse import own_database
from tests.fixtures.stack import free_port
from transforms.errors import PermanentError, TransientError
from warehouse.clickhouse import connect, explained
from warehouse.clickhouse.config import ClickHouseSettings

pytestmark = pytest.mark.service


def test_server_down_names_the_address_and_the_remedy() -> None:
    settings = ClickHouseSettings(port=free_port())
    with pytest.raises(TransientError, match=rf"does not answer at 127\.0\.0\.1:{settings.port}.*make up"):
        connect(settings)


def test_wrong_password_names_the_user_and_not_the_password(clickhouse_server: ClickHouseSettings) -> None:
    settings = clickhouse_server.model_copy(update={"password": SecretStr("guessed-wrong")})
    with pytest.raises(PermanentError, match="refused user 'backlinks'") as caught:
        connect(settings)
    assert "guessed-wrong" not in str(caught.value)


def test_missing_database_is_named_when_it_must_exist(clickhouse_server: ClickHouseSettings) -> None:
    settings = own_database(clickhouse_server)
    with pytest.raises(PermanentError, match=f"has no database '{settings.database}'"):
        connect(settings, database_must_exist=True)


def test_missing_database_is_named_by_a_later_query(clickhouse_server: ClickHouseSettings) -> None:
    settings = own_database(clickhouse_server)
    client = connect(settings)
    with pytest.raises(PermanentError, match=f"has no database '{settings.database}'"), explained(settings, "look"):
        client.query("SELECT 1")
    client.close()


def test_a_query_that_cannot_run_is_permanent(clickhouse_server: ClickHouseSettings) -> None:
    client = connect(clickhouse_server)
    client.database = None
    with (
        pytest.raises(PermanentError, match="could not count on ClickHouse at 127"),
        explained(clickhouse_server, "count"),
    ):
        client.query("SELECT no_such_function(1)")
    client.close()
