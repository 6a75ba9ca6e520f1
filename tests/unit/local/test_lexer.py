"""What the front must read of a statement: heads of INSERTs, formats, kinds. The engine itself is not needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse.local.front.lexer import Insert, MoreNeeded, insert_head, literal, statement, tokens


@pytest.mark.parametrize(
    ("sql", "head", "data_format", "data"),
    [
        (b"INSERT INTO t FORMAT CSV\n1,2\n", b"INSERT INTO t", "CSV", b"1,2\n"),
        (b"insert into db.t (a, b) format Native\n\x02\x01", b"insert into db.t (a, b)", "Native", b"\x02\x01"),
        # ten columns: the first byte of a Native block is a line end, and only one line end belongs to the clause
        (b"INSERT INTO t FORMAT Native\n\n\x01", b"INSERT INTO t", "Native", b"\n\x01"),
        (b"INSERT INTO t FORMAT Native \r\n\r\n", b"INSERT INTO t", "Native", b"\r\n"),
        (b"INSERT INTO t VALUES (1, 'FORMAT CSV')", b"INSERT INTO t", "Values", b" (1, 'FORMAT CSV')"),
        (b"INSERT INTO t (format, values) VALUES (1, 2)", b"INSERT INTO t (format, values)", "Values", b" (1, 2)"),
        (b"INSERT INTO `a FORMAT b` FORMAT TSV\nx", b"INSERT INTO `a FORMAT b`", "TSV", b"x"),
        (b"INSERT INTO t -- FORMAT CSV\n FORMAT TSV\nx", b"INSERT INTO t -- FORMAT CSV", "TSV", b"x"),
        (
            b"/* INSERT */ INSERT INTO t /* VALUES */ FORMAT TSV\nx",
            b"/* INSERT */ INSERT INTO t /* VALUES */",
            "TSV",
            b"x",
        ),
        (
            b"INSERT INTO FUNCTION file('x FORMAT CSV', 'TSV') SETTINGS a = 1 FORMAT TSV\nx",
            b"INSERT INTO FUNCTION file('x FORMAT CSV', 'TSV') SETTINGS a = 1",
            "TSV",
            b"x",
        ),
        (b"INSERT INTO t FORMAT Values (1)", b"INSERT INTO t", "Values", b"(1)"),
        (b"INSERT INTO t FORMAT CSV", b"INSERT INTO t", "CSV", b""),
    ],
)
def test_insert_head(sql: bytes, head: bytes, data_format: str, data: bytes) -> None:
    found = insert_head(sql, complete=True)
    assert isinstance(found, Insert)
    assert (found.statement, found.format, sql[found.data_at :]) == (head, data_format, data)


@pytest.mark.parametrize(
    "sql",
    [
        b"SELECT 'INSERT INTO t FORMAT CSV'",
        b"INSERT INTO t SELECT * FROM s FORMAT CSV",
        b"INSERT INTO t (a) WITH 1 AS x SELECT x",
        b"INSERT INTO t",
        b"",
        b"-- nothing",
        b"CREATE TABLE t (a String DEFAULT 'VALUES') ENGINE = Memory",
    ],
)
def test_not_an_insert_with_data(sql: bytes) -> None:
    assert insert_head(sql, complete=True) is None


@given(st.integers(0, 60))
def test_a_cut_head_asks_for_more_or_already_knows(cut: int) -> None:
    """Whatever prefix arrives first, the answer is the whole request's answer or a request for more."""
    sql = b"INSERT INTO `t` (a, b) SETTINGS x = 'VALUES' FORMAT Native\n\x00\xff"
    try:
        found = insert_head(sql[:cut], complete=False)
    except MoreNeeded:
        return
    assert found == insert_head(sql, complete=True)


@given(st.binary(max_size=300))
def test_every_byte_string_is_lexed_without_loss(sql: bytes) -> None:
    """Tokens are in order, do not overlap, and what lies between them is white space or comment."""
    at = 0
    for token in tokens(sql):
        assert token.start >= at
        assert sql[token.start : token.end] == token.text
        at = token.end
    assert at <= len(sql)


@pytest.mark.parametrize(
    ("sql", "first", "data_format", "streams"),
    [
        (b"SELECT 1", "SELECT", None, True),
        (b"select 1 format JSON;", "SELECT", "JSON", True),
        (b"SELECT 1 FORMAT JSON SETTINGS max_threads = 1", "SELECT", "JSON", True),
        (b"SELECT ' FORMAT JSON' AS format", "SELECT", None, True),
        (b"WITH x AS (SELECT 1 FORMAT TSV) SELECT 1 -- FORMAT CSV", "WITH", None, True),
        (b"(SELECT 1) UNION ALL (SELECT 2) FORMAT CSV", "(", "CSV", True),
        (b"SHOW TABLES FORMAT TSV", "SHOW", "TSV", False),
        (b"ALTER TABLE t DELETE WHERE a = 'x'", "ALTER", None, False),
    ],
)
def test_statement(sql: bytes, first: str, data_format: str | None, streams: bool) -> None:
    found = statement(sql)
    assert (found.first, found.format, found.streams) == (first, data_format, streams)


def test_several_statements_outfiles_kills_and_calls_are_seen() -> None:
    assert statement(b"SELECT 1; SELECT 2").several
    assert not statement(b"SELECT ';' ;;").several
    assert statement(b"SELECT 1 INTO OUTFILE 'x'").into_outfile
    assert not statement(b"SELECT 'INTO OUTFILE'").into_outfile
    assert statement(b"kill /* it */ query where 1").kill
    assert statement(b"SELECT * FROM File ('x'), `url`('y'), t").calls == {"file", "url"}


@given(st.text(max_size=50))
def test_a_literal_is_one_token_that_holds_the_value(value: str) -> None:
    (token,) = tokens(literal(value).encode("utf-8", "surrogatepass"))
    assert token.kind == "text"
