"""Makes and upgrades the ledger's schema. Here: `migrate`. Not here: the schema (`migrations/`).

Alembic keeps the order; each version runs the statements of `.sql` files one by one. MySQL commits every DDL statement
by itself, so a migration that was killed half-way is resumed: statements whose work is already there are passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import mysql.connector
import sqlalchemy
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from transforms.errors import TransientError
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.engine import connect
from warehouse.ledger.errors import LedgerRefused, translate
from warehouse.ledger.sql import split

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_WAIT_S = 30
"""How long a statement waits for running queries to let go of a table, and one migration for another."""

_ALREADY_DONE = frozenset({1050, 1060, 1061, 1091, 1826, 3822})
"""Table, column, key, dropped key, foreign key and check that are already there."""


def migrate(settings: LedgerSettings) -> None:
    """Create both databases where that is allowed, and bring the schema to this code's version.

    Safe to call from several processes at once (one works, the others wait) and again and again. Raises `LedgerRefused`
    when the schema is newer than this code or the account may not do it, `TransientError` when it takes too long.
    """
    _create_databases(settings)
    with _only_one(settings):
        engine = sqlalchemy.create_engine(
            "mysql+mysqlconnector://",
            creator=lambda: connect(settings, database=settings.database),
            poolclass=sqlalchemy.pool.NullPool,
        )
        try:
            with engine.connect() as connection:
                _refuse_newer(settings, connection)
                connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {LOCK_WAIT_S}")
                config = alembic_config(settings)
                config.attributes["connection"] = connection
                alembic.command.upgrade(config, "head")
                connection.commit()
        except sqlalchemy.exc.DBAPIError as error:
            if isinstance(error.orig, mysql.connector.Error):
                raise translate(error.orig, settings) from error
            raise
        finally:
            engine.dispose()


def current_revision(settings: LedgerSettings) -> str | None:
    """The schema's version; None before the first migration."""
    engine = sqlalchemy.create_engine(
        "mysql+mysqlconnector://",
        creator=lambda: connect(settings, database=settings.database),
        poolclass=sqlalchemy.pool.NullPool,
    )
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """The version that this code wants."""
    head = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    assert head is not None
    return head


def alembic_config(settings: LedgerSettings) -> Config:
    """Alembic's configuration, made here so that nothing depends on a file or on the working directory."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["identity"] = settings.identity_database
    return config


def run_sql_files(connection: sqlalchemy.Connection, identity: str, *names: str) -> None:
    """Run the statements of `migrations/sql/<name>.sql`, in order; what is already there is passed over."""
    for name in names:
        for statement in split((MIGRATIONS / "sql" / f"{name}.sql").read_text("utf-8")):
            try:
                connection.exec_driver_sql(statement.replace("{identity}", f"`{identity}`"))
            except sqlalchemy.exc.DBAPIError as error:
                if getattr(error.orig, "errno", None) not in _ALREADY_DONE:
                    raise


def _create_databases(settings: LedgerSettings) -> None:
    connection = connect(settings, database=None)
    try:
        cursor = connection.cursor()
        for name in (settings.database, settings.identity_database):
            try:
                cursor.execute(
                    f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
                )
            except mysql.connector.Error as error:
                cursor.execute(
                    "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = %(name)s", {"name": name}
                )
                if cursor.fetchall()[0][0] == 0:  # somebody may have made it for us
                    raise translate(error, settings) from error
    finally:
        connection.close()


@contextmanager
def _only_one(settings: LedgerSettings) -> Iterator[None]:
    """One migration of a database at a time, whoever runs it; the lock goes with its connection."""
    name = "migrate:" + hashlib.sha256(settings.database.encode()).hexdigest()[:40]
    connection = connect(settings, database=None)
    try:
        if _ask(connection, "SELECT GET_LOCK(%(name)s, %(wait)s)", name=name, wait=4 * LOCK_WAIT_S) != 1:
            raise TransientError(
                f"another migration of {settings.database!r} has been running for {4 * LOCK_WAIT_S} s: wait for its end"
            )
        yield
    finally:
        connection.close()


def _ask(connection: Any, sql: str, **params: Any) -> Any:
    cursor = connection.cursor()
    cursor.execute(sql, params)
    return cursor.fetchall()[0][0]


def _refuse_newer(settings: LedgerSettings, connection: sqlalchemy.Connection) -> None:
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    connection.rollback()
    if current is not None and current not in known:
        raise LedgerRefused(
            f"the ledger {settings.database!r} is at schema version {current!r}, which is newer than this code "
            f"(it knows up to {head_revision()!r}): update the code"
        )
