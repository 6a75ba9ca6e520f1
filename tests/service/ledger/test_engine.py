"""Connections: times, staging, a pool that waits, retries, and one clear sentence for each way a server can refuse."""

# ruff: noqa: DTZ001
from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.fixtures.stack import free_port
from transforms.errors import PermanentError, TransientError
from transforms.schemas.dataset import TIME
from warehouse.ledger import Ledger, LedgerBusy, LedgerRefused, LedgerUnavailable, Transaction
from warehouse.ledger.config import LedgerSettings
from warehouse.ledger.errors import translate

pytestmark = pytest.mark.service

ALL = pa.schema(
    [
        ("id", pa.uint64()),
        ("flag", pa.bool_()),
        ("small", pa.int16()),
        ("ratio", pa.float64()),
        ("at", TIME),
        ("day", pa.date32()),
        ("text", pa.string()),
        ("key", pa.binary(16)),
        ("blob", pa.binary()),
    ]
)
# JSON has no lone surrogates and MySQL no years before 1000.
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**64 - 1),
        st.none() | st.booleans(),
        st.none() | st.integers(-(2**15), 2**15 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
        st.none() | st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)),
        st.none() | st.dates(datetime(1000, 1, 1).date(), datetime(9999, 12, 31).date()),
        st.none() | st.text(st.characters(codec="utf-8"), max_size=50),
        st.none() | st.binary(min_size=16, max_size=16),
        st.none() | st.binary(max_size=50),
    ),
    max_size=20,
    unique_by=lambda row: row[0],
)


@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_what_is_staged_comes_back_as_it_was(ledger: Ledger, rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(ALL)
    columns[4] = tuple(None if at is None else at.replace(tzinfo=UTC) for at in columns[4])
    table = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, ALL, strict=True)], schema=ALL
    )
    with ledger.transaction() as tx:
        assert tx.stage("stage_all", table, key=["id"]) == len(rows)
        found = tx.table("SELECT id, flag, small, ratio, at, day, text, `key`, `blob` FROM stage_all ORDER BY id", ALL)
    assert found.to_pylist() == table.sort_by("id").to_pylist()


def test_lists_and_structs_are_staged_as_json_in_several_chunks(ledger: Ledger) -> None:
    count = 12_001
    table = pa.table(
        {
            "id": pa.array(range(count), pa.uint32()),
            "names": pa.array([["a", 'q"', "é"]] * count, pa.list_(pa.string())),
        }
    )
    with ledger.transaction() as tx:
        tx.stage("stage_lists", table, key=["id"])
        sql = "SELECT COUNT(*), MIN(JSON_LENGTH(names)), MAX(names->>'$[1]') FROM stage_lists"
        assert tx.row(sql) == (count, 3, 'q"')


def test_times_are_utc_on_both_sides(ledger: Ledger) -> None:
    at = datetime(2039, 7, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))  # after TIMESTAMP has ended
    with ledger.transaction() as tx:
        assert tx.row("SELECT %(at)s", {"at": at}) == ("2039-07-01 10:00:00.123456",)
        assert tx.row("SELECT CAST(%(at)s AS DATETIME(6))", {"at": at}) == (at.astimezone(UTC),)
        (offset,) = tx.row("SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW())") or (None,)
        assert offset == 0
    with pytest.raises(ValueError, match="UTC-aware"), ledger.transaction() as tx:
        tx.row("SELECT %(at)s", {"at": datetime(2026, 1, 1)})
    with pytest.raises(ValueError, match="time zone"), ledger.transaction() as tx:
        tx.stage("stage_naive", pa.table({"at": pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))}))


def test_the_pool_waits_for_a_connection_and_then_says_so(ledger_settings: LedgerSettings) -> None:
    with Ledger(ledger_settings, pool_size=1, pool_timeout_s=0.2) as small:
        with small.transaction() as tx:
            tx.row("SELECT 1")
            with (
                pytest.raises(LedgerUnavailable, match=r"all 1 connections .* were busy for 0.2 s"),
                small.transaction(),
            ):
                pass
        with small.transaction() as tx:
            assert tx.row("SELECT 1") == (1,)
    with Ledger(ledger_settings, pool_size=2, pool_timeout_s=30) as small:
        results: list[int] = []

        def work(number: int) -> None:
            with small.transaction() as tx:
                results.append(int((tx.row("SELECT %(n)s + 0", {"n": number}) or (0,))[0]))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == list(range(12))


def test_a_failed_transaction_leaves_nothing_and_its_connection_is_clean(ledger_settings: LedgerSettings) -> None:
    with Ledger(ledger_settings, pool_size=1) as small:
        with pytest.raises(RuntimeError), small.transaction() as tx:  # noqa: PT012
            tx.stage("stage_left", pa.table({"id": pa.array([1], pa.uint32())}))
            tx.execute("INSERT INTO shard_leases (name) VALUES ('left over')")
            raise RuntimeError
        with small.transaction() as tx:
            assert tx.row("SELECT COUNT(*) FROM shard_leases WHERE name = 'left over'") == (0,)
        with pytest.raises(LedgerRefused, match="stage_left"), small.transaction() as tx:
            tx.row("SELECT * FROM stage_left")


def test_deadlocks_are_run_again(ledger: Ledger) -> None:
    with ledger.transaction() as tx:
        tx.execute("INSERT INTO shard_leases (name) VALUES ('dl1'), ('dl2')")
    both = threading.Barrier(2)
    runs: list[str] = []

    def work(first: str, second: str) -> None:
        def inside(tx: Transaction) -> None:
            runs.append(first)
            tx.execute("UPDATE shard_leases SET fence = fence + 1 WHERE name = %(n)s", {"n": first})
            if len(runs) <= 2:
                both.wait(10)
            tx.execute("UPDATE shard_leases SET fence = fence + 1 WHERE name = %(n)s", {"n": second})

        ledger.run(inside)

    threads = [threading.Thread(target=work, args=names) for names in (("dl1", "dl2"), ("dl2", "dl1"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 3, "one of them was the victim and ran again"
    with ledger.transaction() as tx:
        assert tx.rows("SELECT fence FROM shard_leases WHERE name IN ('dl1', 'dl2')") == [(2,), (2,)]


def test_a_lock_that_does_not_come_is_a_busy_ledger(ledger: Ledger) -> None:
    with ledger.transaction() as holder:
        holder.execute("INSERT INTO shard_leases (name) VALUES ('held')")
        with pytest.raises(LedgerBusy, match="gave up waiting for a lock"), ledger.transaction() as tx:  # noqa: PT012
            tx.execute("SET SESSION innodb_lock_wait_timeout = 1")
            tx.execute("INSERT INTO shard_leases (name) VALUES ('held')")
    ledger.close()  # the session setting goes with its connection


def test_each_refusal_is_one_sentence(ledger_settings: LedgerSettings) -> None:
    port = free_port()
    cases: list[tuple[LedgerSettings, type[Exception], str]] = [
        (
            ledger_settings.model_copy(update={"port": port}),
            TransientError,
            rf"MySQL at 127.0.0.1:{port} does not answer .*make up",
        ),
        (ledger_settings.model_copy(update={"password": SecretStr("wrong")}), PermanentError, "the password is wrong"),
        (ledger_settings.model_copy(update={"database": "test_nowhere"}), PermanentError, "no database 'test_nowhere'"),
    ]
    for given_settings, kind, text in cases:
        with pytest.raises(kind, match=text) as caught, Ledger(given_settings) as broken, broken.transaction():
            pass
        assert "\n" not in str(caught.value)
        assert ledger_settings.password.get_secret_value() not in str(caught.value)


def test_a_full_disk_is_told_as_such(ledger_settings: LedgerSettings) -> None:
    """A full disk cannot be had here: what MySQL says then (ER_RECORD_FILE_FULL, ER_DISK_FULL_NOWAIT) is translated."""
    import mysql.connector

    for number in (1021, 1114, 3019):
        error = mysql.connector.DatabaseError(msg="The table 'backlinks' is full", errno=number)
        told = translate(error, ledger_settings)
        assert isinstance(told, PermanentError)
        assert "no room left on its disk" in str(told)


def test_a_table_that_is_full_really_is_refused_so(ledger: Ledger) -> None:
    """As near as one gets without a disk of one's own: a MEMORY table at its limit raises what a full disk raises."""
    with pytest.raises(LedgerRefused, match="no room left"), ledger.transaction() as tx:  # noqa: PT012
        tx.execute("SET SESSION max_heap_table_size = 16384")
        tx.execute("CREATE TEMPORARY TABLE full_table (t CHAR(255)) ENGINE = MEMORY")
        tx.execute(
            "INSERT INTO full_table SELECT REPEAT('x', 255) FROM JSON_TABLE(CONCAT('[', REPEAT('1,', 5000), '1]'), '$[*]' "
            "COLUMNS (n INT PATH '$')) AS j"
        )
    ledger.close()
