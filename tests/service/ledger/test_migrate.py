"""Migrations: idempotent, safe at once, resumable after a kill, honest about a newer schema."""

from __future__ import annotations

import threading

import pytest

from tests.fixtures.ledger import database_pair
from warehouse.ledger import Ledger, LedgerRefused, migrate
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.engine import connect
from warehouse.ledger.migrate import MIGRATIONS, current_revision, head_revision
from warehouse.ledger.sql import split

pytestmark = pytest.mark.service


def tables(settings: LedgerSettings) -> dict[str, int]:
    connection = connect(settings, database=None)
    cursor = connection.cursor()
    cursor.execute(
        "SELECT table_schema, COUNT(*) FROM information_schema.tables WHERE table_schema IN (%(a)s, %(b)s) GROUP BY table_schema",
        {"a": settings.database, "b": settings.identity_database},
    )
    found = dict(cursor.fetchall())
    connection.close()
    return found


def shape(settings: LedgerSettings) -> list[tuple[object, ...]]:
    """Every column and index, to compare two schemas."""
    with Ledger(settings) as ledger, ledger.transaction() as tx:
        return tx.rows(
            "SELECT table_name, column_name, column_type, is_nullable, ordinal_position FROM information_schema.columns "
            "WHERE table_schema = DATABASE() UNION ALL SELECT table_name, index_name, column_name, non_unique, seq_in_index "
            "FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1, 2, 5, 3"
        )


def test_several_at_once_then_again(mysql_server: LedgerSettings) -> None:
    with database_pair(mysql_server) as settings:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                migrate(settings)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert current_revision(settings) == head_revision()
        migrate(settings)
        # 36 tables of the blueprint, 8 of the flow, 3 of URL identity, Alembic's own; the identity tables stand apart
        assert tables(settings) == {settings.database: 48, settings.identity_database: 4}


def test_a_killed_migration_is_resumed(mysql_server: LedgerSettings, ledger_settings: LedgerSettings) -> None:
    with database_pair(mysql_server) as settings:
        connection = connect(settings, database=None)
        cursor = connection.cursor()
        for name in (settings.database, settings.identity_database):
            cursor.execute(f"CREATE DATABASE `{name}`")
        cursor.execute(f"USE `{settings.database}`")
        done = 0
        for file in ("0001_identity", "0001_domain1_control_plane", "0001_domain2_crawl"):  # killed somewhere here
            for statement in split((MIGRATIONS / "sql" / f"{file}.sql").read_text("utf-8"))[:5]:
                cursor.execute(statement.replace("{identity}", f"`{settings.identity_database}`"))
                done += 1
        connection.close()
        assert done == 14
        migrate(settings)
        assert shape(settings) == shape(ledger_settings)


def test_a_newer_schema_is_refused(mysql_server: LedgerSettings) -> None:
    with database_pair(mysql_server) as settings:
        migrate(settings)
        with Ledger(settings) as ledger, ledger.transaction() as tx:
            tx.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(LedgerRefused, match=r"schema version '9999', which is newer than this code"):
            migrate(settings)


def test_an_account_that_may_not_is_told_so(mysql_server: LedgerSettings) -> None:
    settings = mysql_server.model_copy(update={"database": "not_ours", "identity_database": "not_ours_identity"})
    with pytest.raises(LedgerRefused, match=r"lets user 'backlinks' in, but not do this"):
        migrate(settings)


def test_an_unmigrated_ledger_says_what_to_do(mysql_server: LedgerSettings) -> None:
    with database_pair(mysql_server) as settings:
        connection = connect(settings, database=None)
        connection.cursor().execute(f"CREATE DATABASE `{settings.database}`")
        connection.close()
        with (
            pytest.raises(LedgerRefused, match="not migrated to this version"),
            Ledger(settings) as ledger,
            ledger.transaction() as tx,
        ):
            tx.row("SELECT 1 FROM projects")
