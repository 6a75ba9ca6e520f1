"""Connections and transactions. Here: the pool, the session every connection starts with, time zones, retries, and how
Arrow tables come and go. Not here: what is asked (the modules beside this one).

Time: values are UTC-aware on our side and naive UTC in MySQL; the conversion happens in one converter below. Sessions
run at READ COMMITTED in strict mode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import mysql.connector
import pyarrow as pa
import sqlalchemy
import sqlalchemy.exc
import stamina
from mysql.connector.conversion import MySQLConverter

from transforms.urls import CURRENT, Normalization
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.errors import LedgerBusy, LedgerUnavailable, translate
from warehouse.ledger.staging import stage_sql

T = TypeVar("T")
Params = Mapping[str, Any] | None

SQL_MODE = "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
LOCK_WAIT_S = 20
_FETCH = 10_000
_ATTEMPTS = 8


class UtcConverter(MySQLConverter):
    """UTC-aware `datetime` on our side, naive UTC in MySQL."""

    @staticmethod
    def _datetime_to_mysql(value: datetime) -> bytes:
        return MySQLConverter._datetime_to_mysql(value.astimezone(UTC).replace(tzinfo=None))

    @staticmethod
    def _datetime_to_python(value: bytes, dsc: Any = None) -> datetime | None:
        found = MySQLConverter._datetime_to_python(value, dsc)
        return found.replace(tzinfo=UTC) if isinstance(found, datetime) else found

    _timestamp_to_python = _datetime_to_python


def _bound(params: Params) -> Params:
    """Parameters as the driver takes them. A naive time is refused: anybody could only guess what it means."""
    for name, value in (params or {}).items():
        if isinstance(value, datetime) and value.tzinfo is None:
            raise ValueError(f"the ledger takes UTC-aware times only, got {name} = {value!r}")
    return params


def connect(settings: LedgerSettings, *, database: str | None) -> Any:
    """One plain connection with our session settings. Raises what `errors.translate` makes of a refusal."""
    try:
        return mysql.connector.connect(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            password=settings.password.get_secret_value(),
            database=database,
            use_pure=True,
            autocommit=False,
            charset="utf8mb4",
            collation="utf8mb4_0900_ai_ci",
            time_zone="+00:00",
            sql_mode=SQL_MODE,
            connection_timeout=max(1, round(settings.connect_timeout_s)),
            converter_class=UtcConverter,
            init_command=(
                "SET SESSION transaction_isolation = 'READ-COMMITTED', "
                f"SESSION innodb_lock_wait_timeout = {LOCK_WAIT_S}, SESSION lock_wait_timeout = {LOCK_WAIT_S}, "
                "SESSION group_concat_max_len = 1048576"
            ),
        )
    except mysql.connector.Error as error:
        raise translate(error, settings) from error


class Transaction:
    """What runs inside one transaction. Made by `Ledger.transaction`; not to be kept."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._staged: set[str] = set()

    def execute(self, sql: str, params: Params = None) -> int:
        """Run a statement; returns the rows it changed (MySQL's count; rows of an answer are read and dropped)."""
        with self._cursor() as cursor:
            cursor.execute(sql, _bound(params))
            if cursor.with_rows:
                cursor.fetchall()
            return int(cursor.rowcount)

    def rows(self, sql: str, params: Params = None) -> list[tuple[Any, ...]]:
        """All rows of a (small) answer; times are UTC-aware."""
        with self._cursor() as cursor:
            cursor.execute(sql, _bound(params))
            return list(cursor.fetchall())

    def row(self, sql: str, params: Params = None) -> tuple[Any, ...] | None:
        rows = self.rows(sql, params)
        return rows[0] if rows else None

    def table(self, sql: str, schema: pa.Schema, params: Params = None) -> pa.Table:
        """An answer as an Arrow table: its columns are those of the schema, in order."""
        batches: list[pa.RecordBatch] = []
        with self._cursor() as cursor:
            cursor.execute(sql, _bound(params))
            while rows := cursor.fetchmany(_FETCH):
                columns = zip(*rows, strict=True)
                arrays = [_array(values, field) for values, field in zip(columns, schema, strict=True)]
                batches.append(pa.record_batch(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema=schema)

    def stage(
        self,
        name: str,
        table: pa.Table,
        *,
        key: Sequence[str] = (),
        index: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
    ) -> int:
        """The rows of an Arrow table as the session's temporary table `name` (replaces an earlier one).

        `key` is its primary key, `index` a further index, `types` overrides the MySQL type of a column. Types follow
        the Arrow types; lists and structs become JSON. Times must be timestamps with a zone. Returns the number of
        rows.
        """
        with self._cursor() as cursor:
            for sql, params in stage_sql(name, table, key=tuple(key), index=tuple(index), types=types or {}):
                cursor.execute(sql, params)
        self._staged.add(name)
        return table.num_rows

    def derive(self, name: str, select: str, *, key: Sequence[str]) -> None:
        """The answer of a SELECT as the session's temporary table `name`, without a way through Python."""
        self.execute(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        self.execute(f"CREATE TEMPORARY TABLE {name} (PRIMARY KEY ({', '.join(key)})) {select}")
        self._staged.add(name)

    def drop_staged(self) -> None:
        if self._staged:
            self.execute(f"DROP TEMPORARY TABLE IF EXISTS {', '.join(sorted(self._staged))}")
            self._staged.clear()

    @property
    def connection_id(self) -> int:
        return int(self._connection.connection_id)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


def _array(values: tuple[Any, ...], field: pa.Field) -> pa.Array:
    if pa.types.is_boolean(field.type):
        values = tuple(None if value is None else bool(value) for value in values)
    elif pa.types.is_string(field.type):
        values = tuple(value.decode() if isinstance(value, (bytes, bytearray)) else value for value in values)
    return pa.array(values, field.type)


class Ledger:
    """The ledger's connections. Thread-safe; cheap until first used; close it when done.

    `pool_size` connections are kept and never exceeded: whoever finds all of them busy waits up to `pool_timeout_s`,
    then gets `LedgerUnavailable`. `rules` are the rules of URL identity that whoever uses this ledger works under.
    """

    def __init__(
        self,
        settings: LedgerSettings,
        *,
        pool_size: int = 8,
        pool_timeout_s: float = 30.0,
        rules: Normalization = CURRENT,
    ) -> None:
        self.settings = settings
        self.rules = rules
        self._pool_size = pool_size
        self._pool_timeout_s = pool_timeout_s
        self._lock = threading.Lock()
        self._engine: sqlalchemy.Engine | None = None

    def connect(self) -> Any:
        """A connection outside the pool, for what holds one for long (leases, migrations). The caller closes it."""
        return connect(self.settings, database=self.settings.database)

    @property
    def engine(self) -> sqlalchemy.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = sqlalchemy.create_engine(
                    "mysql+mysqlconnector://",
                    creator=self.connect,
                    pool_size=self._pool_size,
                    max_overflow=0,
                    pool_timeout=self._pool_timeout_s,
                    pool_pre_ping=True,
                    pool_recycle=3600,
                    isolation_level=None,
                )
            return self._engine

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit at the end, roll back on any error. Database errors come out as the types of
        `warehouse.ledger.errors`."""
        pooled = self._checkout()
        try:
            tx = Transaction(pooled.driver_connection)
            try:
                yield tx
                tx.drop_staged()
                pooled.driver_connection.commit()
            except BaseException:
                self._undo(pooled, tx)
                raise
        except mysql.connector.Error as error:
            raise translate(error, self.settings) from error
        finally:
            pooled.close()

    def run(self, work: Callable[[Transaction], T]) -> T:
        """`work` in a transaction, run again as a whole after a deadlock, a lock timeout, or a connection that broke
        before the commit was sent. Safe for work that gives the same result when it is run twice, as everything
        here does."""
        for attempt in stamina.retry_context(
            on=(LedgerBusy, LedgerUnavailable),
            attempts=_ATTEMPTS,
            timeout=60.0,
            wait_initial=0.02,
            wait_max=2.0,
            wait_jitter=0.2,
        ):
            with attempt, self.transaction() as tx:
                return work(tx)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections. Safe to call twice; the ledger opens new ones when it is used again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _checkout(self) -> Any:
        try:
            return self.engine.raw_connection()
        except sqlalchemy.exc.TimeoutError as error:
            raise LedgerUnavailable(
                f"all {self._pool_size} connections to MySQL at {self.settings.host}:{self.settings.port} were busy "
                f"for {self._pool_timeout_s:g} s: ask with fewer threads or give the ledger a bigger pool"
            ) from error
        except sqlalchemy.exc.DBAPIError as error:
            if isinstance(error.orig, mysql.connector.Error):
                raise translate(error.orig, self.settings) from error
            raise
        except mysql.connector.Error as error:
            raise translate(error, self.settings) from error

    def _undo(self, pooled: Any, tx: Transaction) -> None:
        """Roll back; a connection that cannot even do that is thrown away, and with it whatever it held."""
        try:
            pooled.driver_connection.rollback()
            tx.drop_staged()
        except Exception:
            pooled.invalidate()
