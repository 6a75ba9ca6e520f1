"""The ClickHouse front as its clients see it: clickhouse-connect, dbt-clickhouse, SQLAlchemy, curl, plain HTTP."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clickhouse_connect
import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from clickhouse_connect.driver.external import ExternalData

from tests.fixtures.stack import free_port
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.local.front import codecs
from warehouse.local.processes import wait_for

pytestmark = pytest.mark.service


def client(server: ClickHouseSettings, **more: Any) -> Client:
    options: dict[str, Any] = {"username": server.user, "password": server.password.get_secret_value()} | more
    return clickhouse_connect.get_client(host=server.host, port=server.port, **options)


@pytest.fixture
def ch(clickhouse_server: ClickHouseSettings) -> Iterator[Client]:
    """A client with a database of its own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with client(clickhouse_server) as admin:
        admin.command(f"CREATE DATABASE {name}")
        with client(clickhouse_server, database=name) as own:
            yield own
        admin.command(f"DROP DATABASE {name}")


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()
        self.text = self.body.decode("utf-8", "replace")


def post(
    server: ClickHouseSettings,
    body: bytes,
    path: str = "/",
    *,
    method: str = "POST",
    credentials: str | None = None,
    **headers: str,
) -> Answer:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    known = credentials if credentials is not None else f"{server.user}:{server.password.get_secret_value()}"
    all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if known:
        all_headers["Authorization"] = "Basic " + b64encode(known.encode()).decode()
    try:
        connection.request(method, path, body=body, headers=all_headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


# --- clickhouse-connect -----------------------------------------------------------------------------------------------


def test_connect_query_insert_stream_and_parameters(ch: Client) -> None:
    ch.command(
        "CREATE TABLE t (id UInt64, s String, at DateTime64(3), n Nullable(Int32)) ENGINE = MergeTree ORDER BY id"
    )
    rows = [[i, f"ü'\\\n\t{i}", "2026-11-01 00:00:00.123", None if i % 3 else i] for i in range(1000)]
    summary = ch.insert("t", rows, column_names=["id", "s", "at", "n"])
    assert summary.written_rows == 1000
    result = ch.query(
        "SELECT id, s, n FROM t WHERE id >= {low:UInt64} AND s != {not:String} ORDER BY id",
        parameters={"low": 997, "not": "it's\t\\"},
    )
    assert result.result_rows == [(997, "ü'\\\n\t997", None), (998, "ü'\\\n\t998", None), (999, "ü'\\\n\t999", 999)]
    assert int(ch.query("SELECT count() FROM t").summary["read_rows"]) > 0
    with ch.query_row_block_stream("SELECT id FROM t ORDER BY id", settings={"max_block_size": 100}) as stream:
        assert [row[0] for block in stream for row in block] == list(range(1000))
    assert ch.command("SELECT count() FROM t") == 1000
    assert ch.query("SELECT id FROM t WHERE 0").result_rows == []


def test_connect_arrow_both_ways(ch: Client) -> None:
    ch.command("CREATE TABLE t (id UInt64, h FixedString(4), tags Array(String)) ENGINE = MergeTree ORDER BY id")
    table = pa.table({
        "id": pa.array(range(5000), pa.uint64()),
        "h": pa.array([i.to_bytes(4, "big") for i in range(5000)], pa.binary(4)),
        "tags": pa.array([["nofollow", "ugc"][: i % 3] for i in range(5000)], pa.list_(pa.string())),
    })  # fmt: skip
    assert ch.insert_arrow("t", table).written_rows == 5000
    back = ch.query_arrow("SELECT id, h, tags FROM t ORDER BY id")
    assert back.column("id").to_pylist() == list(range(5000))
    assert back.column("h").to_pylist()[258] == b"\x00\x00\x01\x02"  # binary zero and all
    assert back.column("tags").to_pylist()[:3] == [[], ["nofollow"], ["nofollow", "ugc"]]
    empty = ch.query_arrow("SELECT id, h FROM t WHERE 0")
    assert (empty.num_rows, empty.column_names) == (0, ["id", "h"])
    with ch.query_arrow_stream("SELECT id FROM t ORDER BY id", settings={"max_block_size": 1000}) as stream:
        assert sum(batch.num_rows for batch in stream) == 5000


def test_settings_are_the_requests_own(ch: Client) -> None:
    asked = "SELECT getSetting('max_threads'), getSetting('join_use_nulls')"
    usual = ch.query(asked).result_rows
    assert ch.query(asked, settings={"max_threads": 1, "join_use_nulls": 1}).result_rows == [(1, True)]
    assert ch.query(asked).result_rows == usual  # the client has a session, and nothing stays in it
    with pytest.raises(DatabaseError, match=r"UNKNOWN_SETTING"):
        ch.query("SELECT 1", settings={"no_such_setting_anywhere": 1})


def test_large_parameters_and_external_tables_come_as_forms(ch: Client, clickhouse_server: ClickHouseSettings) -> None:
    wanted = [f"it's number {i}\t\\" for i in range(20_000)]
    result = ch.query("SELECT length({w:Array(String)}), {w:Array(String)}[20000]", parameters={"w": wanted})
    assert result.result_rows == [(20_000, wanted[-1])]
    with client(clickhouse_server, database=ch.database, form_encode_query_params=True) as forms:
        assert forms.query("SELECT {x:String}", parameters={"x": 'a "form"\r\n--x'}).result_rows == [
            ('a "form"\r\n--x',)
        ]
    data = ExternalData(file_name="movies", fmt="CSV", structure=["id UInt32", "name String"], data=b'1,"a,b"\n2,c\n')
    for _ in range(2):  # the client has a session: the table must be gone after each request
        rows = ch.query("SELECT name FROM movies ORDER BY id", external_data=data).result_rows
        assert rows == [("a,b",), ("c",)]
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        ch.query("SELECT * FROM movies")
    bad = ExternalData(file_name="m", fmt="CSV", structure="id UInt32) ENGINE = URL('http://127.0.0.1/'", data=b"1\n")
    with pytest.raises(DatabaseError, match="not a list of columns"):
        ch.query("SELECT * FROM m", external_data=bad)
    assert "not a form" in post(clickhouse_server, b"rubbish", "/", Content_Type="multipart/form-data; boundary=x").text


def test_sessions_hold_temporary_tables_and_set(clickhouse_server: ClickHouseSettings) -> None:
    with client(clickhouse_server, session_id=f"s-{uuid.uuid4()}") as mine, client(clickhouse_server) as other:
        mine.command("CREATE TEMPORARY TABLE scratch (x UInt8)")
        mine.insert("scratch", [[1], [2]], column_names=["x"], column_type_names=["UInt8"])
        mine.command("SET max_threads = 1")
        assert mine.query("SELECT sum(x), getSetting('max_threads') FROM scratch").result_rows == [(3, 1)]
        with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
            other.query("SELECT * FROM scratch")


def test_a_session_is_one_at_a_time_and_ends(clickhouse_server: ClickHouseSettings) -> None:
    name = uuid.uuid4().hex
    text = f"SELECT '{name}', sleepEachRow(0.5) FROM numbers(4) SETTINGS max_block_size = 1"
    slow = threading.Thread(target=post, args=(clickhouse_server, text.encode(), f"/?session_id={name}"))
    slow.start()
    running = f"SELECT count() FROM system.processes WHERE query LIKE '%{name}%' AND query NOT LIKE '%system.processes%'"
    assert wait_for(lambda: post(clickhouse_server, running.encode(), "/").text == "1\n", 10)
    busy = post(clickhouse_server, b"SELECT 1", f"/?session_id={name}")
    assert busy.headers["X-ClickHouse-Exception-Code"] == "373"
    slow.join()
    assert post(clickhouse_server, b"SELECT 1", f"/?session_id={name}").text == "1\n"
    missing = post(clickhouse_server, b"SELECT 1", "/?session_id=never-opened&session_check=1")
    assert (missing.headers["X-ClickHouse-Exception-Code"], "SESSION_NOT_FOUND" in missing.text) == ("372", True)
    short = f"/?session_id={name}-short&session_timeout=0"
    post(clickhouse_server, b"CREATE TEMPORARY TABLE gone (x UInt8)", short)
    assert "UNKNOWN_TABLE" in post(clickhouse_server, b"SELECT * FROM gone", short).text


def test_five_million_rows_stream_in_bounded_memory_both_ways(
    ch: Client, clickhouse_server: ClickHouseSettings
) -> None:
    """1 GB of rows out, slowly read at first, and 5 million rows back in; the front may grow by a fraction of that."""
    with client(clickhouse_server, database=ch.database, compress=False) as plain:
        plain.query("SELECT number, toString(number) FROM numbers(200000)")  # what every first query allocates
        before = _rss_mb(clickhouse_server)
        sql = "SELECT number, repeat('x', 200) FROM numbers(5000000)"
        with plain.raw_stream(sql, fmt="Native") as stream:
            size = len(stream.read(1))
            threading.Event().wait(1.5)  # the client dawdles: the front must wait for it, not collect
            dawdling = _rss_mb(clickhouse_server)
            while chunk := stream.read(1 << 20):
                size += len(chunk)
        assert size > 5_000_000 * 208
        assert dawdling - before < 150
        assert _rss_mb(clickhouse_server) - before < 300
        plain.command("CREATE TABLE big (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
        before = _rss_mb(clickhouse_server)
        tsv = b"".join(b"%d\t%s\n" % (i, b"y" * 40) for i in range(10_000))
        written = plain.raw_insert("big", ["n", "s"], insert_block=(tsv for _ in range(500)), fmt="TSV").written_rows  # type: ignore[arg-type]
        assert written == 5_000_000
        assert _rss_mb(clickhouse_server) - before < 500


def _rss_mb(server: ClickHouseSettings) -> float:
    pid = next(iter(_listeners(server.port)))
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def _listeners(port: int) -> set[int]:
    import psutil

    return {c.pid for c in psutil.net_connections("tcp") if c.pid and c.status == "LISTEN" and c.laddr.port == port}


# --- other clients ----------------------------------------------------------------------------------------------------


def test_dbt_debug_and_an_incremental_model(ch: Client, clickhouse_server: ClickHouseSettings, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text(
        "name: t\nversion: '1.0.0'\nprofile: t\nmodel-paths: [models]\nflags: {send_anonymous_usage_stats: false}\n"
    )
    target = {
        "type": "clickhouse", "driver": "http", "host": clickhouse_server.host, "port": clickhouse_server.port,
        "user": clickhouse_server.user, "password": clickhouse_server.password.get_secret_value(),
        "schema": ch.database, "threads": 2,
    }  # fmt: skip
    (tmp_path / "profiles.yml").write_text(json.dumps({"t": {"target": "d", "outputs": {"d": target}}}))
    config = (
        "{{ config(materialized='incremental', unique_key='id', incremental_strategy='delete+insert', order_by='id') }}"
    )
    (tmp_path / "models/m.sql").write_text(
        f"{config}\nSELECT number AS id, now64(6) AS at FROM numbers({{{{ var('n', 3) }}}})"
    )
    code = (
        "import sys; from dbt.cli.main import dbtRunner\n"
        "for args in (['debug'], ['run'], ['run', '--vars', 'n: 5']):\n"
        "    done = dbtRunner().invoke([*args, '--no-use-colors'])\n"
        "    if not done.success: sys.exit(f'{args} failed: {done.exception}')\n"
    )
    env = os.environ | {"DBT_PROFILES_DIR": str(tmp_path), "DBT_PROJECT_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Connection test: [OK connection ok]" in done.stdout
    assert ch.query("SELECT count(), uniqExact(id) FROM m").result_rows == [(5, 5)]


def test_sqlalchemy(ch: Client, clickhouse_server: ClickHouseSettings) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    s = clickhouse_server
    engine = sqlalchemy.create_engine(
        f"clickhousedb://{s.user}:{s.password.get_secret_value()}@{s.host}:{s.port}/{ch.database}"
    )
    ch.command("CREATE TABLE t (x UInt8) ENGINE = MergeTree ORDER BY x")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT number FROM numbers(3)")).fetchall() == [(0,), (1,), (2,)]
        assert sqlalchemy.inspect(engine).get_table_names(ch.database) == ["t"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(ch: Client, clickhouse_server: ClickHouseSettings, tmp_path: Path) -> None:
    s = clickhouse_server
    url = f"http://{s.host}:{s.port}"
    user = f"{s.user}:{s.password.get_secret_value()}"

    def curl(*arguments: str, stdin: bytes = b"") -> str:
        return subprocess.run(
            ["curl", "-sS", *arguments], input=stdin, capture_output=True, check=True, timeout=30
        ).stdout.decode()

    assert curl(f"{url}/ping") == "Ok.\n"
    assert curl(f"{url}/").startswith("Code: 516.")
    assert curl("-u", user, f"{url}/") == "Ok.\n"
    assert curl("-u", user, f"{url}/?query=SELECT%201") == "1\n"
    assert curl("-u", user, f"{url}/?param_x=3", "-d", "SELECT {x:UInt8} + 1") == "4\n"
    assert (
        curl(
            "-H",
            f"X-ClickHouse-User: {s.user}",
            "-H",
            f"X-ClickHouse-Key: {s.password.get_secret_value()}",
            url,
            "-d",
            "SELECT 2",
        )
        == "2\n"
    )
    assert curl(f"{url}/?user={s.user}&password={s.password.get_secret_value()}", "-d", "SELECT 3") == "3\n"
    ch.command("CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
    curl(
        "-u",
        user,
        f"{url}/?database={ch.database}&query=INSERT%20INTO%20t%20FORMAT%20CSV",
        "--data-binary",
        "@-",
        stdin=b'1,"a,b"\n2,"c\nd"\n',
    )
    curl(
        "-u",
        user,
        f"{url}/?database={ch.database}",
        "--data-binary",
        "@-",
        stdin=b"INSERT INTO t VALUES (3, concat('x', 'y')), (4, 'FORMAT CSV')",
    )
    assert ch.query("SELECT * FROM t ORDER BY a").result_rows == [(1, "a,b"), (2, "c\nd"), (3, "xy"), (4, "FORMAT CSV")]
    assert json.loads(curl("-u", user, url, "-d", "SELECT 1 AS x FORMAT JSON"))["data"] == [{"x": 1}]
    assert curl("-u", user, "--compressed", url, "-d", "SELECT 1 AS x FORMAT JSONEachRow") == '{"x":1}\n'
    parquet = tmp_path / "x.parquet"
    curl("-u", user, url, "-d", "SELECT number FROM numbers(100000) FORMAT Parquet", "-o", str(parquet))
    import pyarrow.parquet as pq

    assert pq.read_table(parquet).num_rows == 100_000


# --- compression -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", codecs.PREFERRED)
def test_encodings_both_ways(ch: Client, clickhouse_server: ClickHouseSettings, name: str) -> None:
    ch.command("CREATE TABLE t (a UInt32, s String) ENGINE = MergeTree ORDER BY a")
    rows = "".join(f"{i}\tvalue {i}\n" for i in range(100_000)).encode()
    packer = codecs.encoder(name)
    packed = packer.add(b"INSERT INTO t FORMAT TSV\n" + rows) + packer.finish()
    inserted = post(clickhouse_server, packed, f"/?database={ch.database}", Content_Encoding=name)
    assert inserted.status == 200, inserted.text
    assert json.loads(inserted.headers["X-ClickHouse-Summary"])["written_rows"] == "100000"
    answer = post(
        clickhouse_server,
        b"SELECT * FROM t ORDER BY a",
        f"/?database={ch.database}&enable_http_compression=1",
        Accept_Encoding=name,
    )
    assert answer.headers["Content-Encoding"] == name
    assert len(answer.body) < len(rows) // 2
    unpacker = codecs.Decoder(name)
    assert b"".join(unpacker.add(answer.body)) == rows
    unpacker.finish()
    plain = post(clickhouse_server, b"SELECT 1", "/?enable_http_compression=0", Accept_Encoding=name)
    assert (plain.headers["Content-Encoding"], plain.text) == (None, "1\n")


@pytest.mark.parametrize("compress", ["lz4", "zstd", "gzip", True, False])
def test_connect_with_compression(ch: Client, clickhouse_server: ClickHouseSettings, compress: str | bool) -> None:
    ch.command("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    with client(clickhouse_server, database=ch.database, compress=compress) as mine:
        mine.insert("t", [[i] for i in range(50_000)], column_names=["a"])
        assert sum(row[0] for row in mine.query("SELECT a FROM t").result_rows) == 50_000 * 49_999 // 2


def test_a_broken_body_and_an_unknown_encoding_are_refused(ch: Client, clickhouse_server: ClickHouseSettings) -> None:
    ch.command("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    broken = post(clickhouse_server, b"not gzip", "/", Content_Encoding="gzip")
    assert "not valid gzip" in broken.text
    packer = codecs.encoder("zstd")
    half = (packer.add(b"INSERT INTO t FORMAT TSV\n" + b"1\n" * 100_000) + packer.finish())[:-20]
    assert (
        "middle of its zstd data"
        in post(clickhouse_server, half, f"/?database={ch.database}", Content_Encoding="zstd").text
    )
    assert ch.command("SELECT count() FROM t") == 0
    assert "snappy is not supported" in post(clickhouse_server, b"x", "/", Content_Encoding="snappy").text
    assert "compress=1" in post(clickhouse_server, b"SELECT 1", "/?compress=1").text


# --- refusals and errors ----------------------------------------------------------------------------------------------


def test_wrong_password(clickhouse_server: ClickHouseSettings) -> None:
    with pytest.raises(DatabaseError, match=r"516.*Authentication failed"):
        client(clickhouse_server, password="wrong")
    for credentials in ("backlinks:wrong", "nobody:backlinks-local", "backlinks:", ""):
        answer = post(clickhouse_server, b"SELECT 1", credentials=credentials)
        assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (403, "516")
        assert "1\n" not in answer.text.splitlines()


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        (b"SELECT * FROM nosuch", 404, "60"),
        (b"SELEC 1", 400, "62"),
        (b"1 + 1", 400, "62"),
        (b"SELECT 1; SELECT 2", 400, "62"),
        (b"SELECT nosuch(1)", 404, "46"),
        (b"SELECT throwIf(1, unhex('ff'))", 500, "395"),
        (b"SELECT 1 FORMAT NoSuchFormat", 404, "73"),
        (b"SELECT 1 INTO OUTFILE '/tmp/x'", 500, "145"),
        (b"INSERT INTO nosuch FORMAT TSV\n1\n", 404, "60"),
        (b"INSERT INTO nosuch VALUES (1)", 404, "60"),
        (b"SELECT throwIf(number = 10) FROM numbers(100) FORMAT JSON", 500, "395"),
    ],
)
def test_errors_have_their_status_and_code(
    clickhouse_server: ClickHouseSettings, sql: bytes, status: int, code: str
) -> None:
    answer = post(clickhouse_server, sql)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (status, code), answer.text
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")
    assert answer.text.count("DB::Exception") == 1


def test_unknown_database_and_bad_data(ch: Client, clickhouse_server: ClickHouseSettings) -> None:
    assert post(clickhouse_server, b"SELECT 1", "/?database=nosuch").headers["X-ClickHouse-Exception-Code"] == "81"
    ch.command("CREATE TABLE t (a UInt32) ENGINE = MergeTree ORDER BY a")
    answer = post(clickhouse_server, b"INSERT INTO t FORMAT TSV\n1\nx\n", f"/?database={ch.database}")
    assert answer.status == 400
    assert ch.command("SELECT count() FROM t") == 0
    # a large body is read to its end, so that the client can read the answer
    large = post(clickhouse_server, b"INSERT INTO t FORMAT TSV\nx\n" + b"1\n" * 5_000_000, f"/?database={ch.database}")
    assert large.status == 400
    assert post(clickhouse_server, b"SELECT 1", "/nosuch").status == 404


FAILS_LATE = (
    "SELECT number, throwIf(number = 3000000, 'too late') FROM numbers(5000000) "
    "SETTINGS max_block_size = 65536, max_threads = 1"
)


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
def test_an_error_in_mid_stream_reaches_connect(
    ch: Client, clickhouse_server: ClickHouseSettings, compress: str | bool
) -> None:
    with client(clickhouse_server, compress=compress) as mine, mine.query_row_block_stream(FAILS_LATE) as stream:
        assert next(stream)
        with pytest.raises(DatabaseError, match="too late"):
            list(stream)


@pytest.mark.parametrize("output", ["TSV", "JSON", "CSVWithNames"])
def test_an_error_in_mid_stream_ends_the_body_in_order(clickhouse_server: ClickHouseSettings, output: str) -> None:
    answer = post(clickhouse_server, f"{FAILS_LATE.replace(' SETTINGS', f' FORMAT {output} SETTINGS')}".encode())
    tag = answer.headers["X-ClickHouse-Exception-Tag"]
    assert answer.status == 200  # it was sent long ago
    block = answer.body[-1000:]
    assert f"\r\n__exception__\r\n{tag}\r\n".encode() in block
    assert b"Code: 395. DB::Exception: too late" in block
    assert block.endswith(f" {tag}\r\n__exception__\r\n".encode())


# --- concurrency, cancellation ----------------------------------------------------------------------------------------


def running(server: ClickHouseSettings, marker: str) -> bool:
    sql = f"SELECT count() FROM system.processes WHERE query LIKE '%{marker}%' AND query NOT LIKE '%system.processes%'"
    return post(server, sql.encode()).text == "1\n"


@pytest.mark.parametrize("shape", ["stream", "silent", "pipe"])
def test_a_client_that_goes_away_ends_its_query(clickhouse_server: ClickHouseSettings, shape: str) -> None:
    marker = f"gone_{uuid.uuid4().hex}"
    sql = {
        "stream": f"SELECT number AS {marker} FROM numbers(100000000000)",
        "silent": f"SELECT sum(sleepEachRow(0.01)) AS {marker} FROM numbers(100000) SETTINGS max_block_size = 1",
        "pipe": f"SELECT number AS {marker} FROM numbers(100000000000) FORMAT JSON",
    }[shape]
    s = clickhouse_server
    raw = socket.create_connection((s.host, s.port))
    known = b64encode(f"{s.user}:{s.password.get_secret_value()}".encode()).decode()
    raw.sendall(
        f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {known}\r\n"
        f"Content-Length: {len(sql)}\r\n\r\n{sql}".encode()
    )
    assert wait_for(lambda: running(s, marker), 10)
    raw.close()
    assert wait_for(lambda: not running(s, marker), 10)


def test_kill_query_by_the_id_that_the_client_gave(clickhouse_server: ClickHouseSettings) -> None:
    query_id = f"kill-{uuid.uuid4()}"
    answers: list[Answer] = []
    sql = b"SELECT sum(sleepEachRow(0.01)) FROM numbers(100000) SETTINGS max_block_size = 1"
    victim = threading.Thread(target=lambda: answers.append(post(clickhouse_server, sql, f"/?query_id={query_id}")))
    victim.start()
    assert wait_for(
        lambda: (
            post(
                clickhouse_server,
                f"SELECT count() FROM system.processes WHERE Settings['log_comment'] = '{query_id}'".encode(),
            ).text
            == "1\n"
        ),
        10,
    )
    assert "already running" in post(clickhouse_server, b"SELECT 1", f"/?query_id={query_id}").text
    killed = post(clickhouse_server, f"KILL QUERY WHERE query_id = '{query_id}' SYNC".encode()).text
    assert "sleepEachRow" in killed
    victim.join(20)
    assert answers[0].headers["X-ClickHouse-Exception-Code"] == "394"
    assert answers[0].headers["X-ClickHouse-Query-Id"] == query_id


def test_a_quick_query_does_not_wait_for_slow_ones(clickhouse_server: ClickHouseSettings) -> None:
    marker = f"slow_{uuid.uuid4().hex}"
    slow = [
        threading.Thread(
            target=post,
            args=(
                clickhouse_server,
                f"SELECT sum(sleepEachRow(0.05)) AS {marker} FROM numbers(60) SETTINGS max_block_size = 1".encode(),
            ),
        )
        for _ in range(8)
    ]
    for thread in slow:
        thread.start()
    try:
        assert wait_for(
            lambda: (
                post(
                    clickhouse_server,
                    f"SELECT count() >= 8 FROM system.processes WHERE query LIKE '%{marker}%'".encode(),
                ).text
                == "1\n"
            ),
            10,
        )
        assert [post(clickhouse_server, f"SELECT {i}".encode()).text for i in range(20)] == [
            f"{i}\n" for i in range(20)
        ]
        assert all(thread.is_alive() for thread in slow)
    finally:
        for thread in slow:
            thread.join()


def test_many_writers_lose_nothing(ch: Client, clickhouse_server: ClickHouseSettings) -> None:
    ch.command("CREATE TABLE t (w UInt8, n UInt32) ENGINE = MergeTree ORDER BY (w, n)")

    def write(worker: int) -> None:
        with client(clickhouse_server, database=ch.database) as mine:
            for start in range(0, 5000, 1000):
                mine.insert("t", [[worker, n] for n in range(start, start + 1000)], column_names=["w", "n"])

    threads = [threading.Thread(target=write, args=(w,)) for w in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ch.query("SELECT count(), uniqExact((w, n)) FROM t").result_rows == [(30_000, 30_000)]


# --- read-only users, two owners, kill -9 -----------------------------------------------------------------------------


class PrivateFront:
    """A front of the test's own: two users, killable."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.server = ClickHouseSettings(port=free_port())
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        users = [
            {"name": "backlinks", "password": "backlinks-local", "readonly": False},
            {"name": "reader", "password": "r", "readonly": True},
        ]
        arguments = ["--data", str(self.data), "--port", str(self.server.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warehouse.local.front", *arguments],
            env=os.environ | {"BACKLINKS_FRONT_USERS": json.dumps(users)},
            stderr=subprocess.PIPE,
        )
        assert wait_for(self.answers, 30)

    def answers(self) -> bool:
        try:
            return post(self.server, b"SELECT 1").text == "1\n"
        except OSError:
            return False

    def stop(self, *, kill: bool = False) -> int:
        assert self.process is not None
        (self.process.kill if kill else self.process.terminate)()
        code = self.process.wait(20)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process = None
        return code


@pytest.fixture
def private_front(tmp_path: Path) -> Iterator[PrivateFront]:
    front = PrivateFront(tmp_path / "clickhouse")
    front.start()
    yield front
    if front.process is not None:
        front.stop()


def test_kill_nine_loses_no_acknowledged_row_and_a_data_directory_has_one_owner(private_front: PrivateFront) -> None:
    post(private_front.server, b"CREATE DATABASE d")
    post(private_front.server, b"CREATE TABLE d.t (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
    acknowledged = 0
    done = threading.Event()

    def write() -> None:
        nonlocal acknowledged
        while not done.is_set():
            start = acknowledged
            try:
                answer = post(
                    private_front.server,
                    f"INSERT INTO d.t SELECT number + {start}, repeat('x', 100) FROM numbers(1000)".encode(),
                )
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 200:
                acknowledged += 1000

    writer = threading.Thread(target=write)
    writer.start()
    assert wait_for(lambda: acknowledged >= 20_000, 20)
    private_front.stop(kill=True)
    done.set()
    writer.join()
    private_front.start()
    found = [int(x) for x in post(private_front.server, b"SELECT uniqExact(n), count() FROM d.t").text.split()]
    assert found[0] in (acknowledged, acknowledged + 1000)  # one insert may have landed without its answer
    assert found[0] == found[1]
    second = subprocess.run(
        [sys.executable, "-m", "warehouse.local.front", "--data", str(private_front.data), "--port", str(free_port())],
        env=os.environ | {"BACKLINKS_FRONT_USERS": "[]"}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (second.returncode, second.stderr) == (
        1,
        f"clickhouse: another process serves the data directory {private_front.data}; stop it first.\n",
    )
    assert private_front.stop() == 0  # SIGTERM is a clean end


@pytest.mark.parametrize("path", ["/", "/?session_id=s"])
def test_readers_cannot_write_nor_reach_outside(private_front: PrivateFront, path: str) -> None:
    server = private_front.server
    post(server, b"CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")

    def reads(sql: str, path: str = path) -> Answer:
        return post(server, sql.encode(), path, credentials="reader:r")

    assert reads("SELECT count() FROM t").text == "0\n"
    assert reads("SELECT 1 SETTINGS max_threads = 1").text == "1\n"
    for outside in (
        "SELECT * FROM file('/etc/hostname', 'LineAsString')",
        "SELECT * FROM /* x */ FILE ('/etc/hostname', 'LineAsString')",
        "SELECT * FROM `file`('/etc/hostname', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1/', 'LineAsString')",
        "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
        "DESCRIBE TABLE s3('http://127.0.0.1/x')",
        "SELECT file('/etc/hostname')",
    ):
        assert reads(outside).headers["X-ClickHouse-Exception-Code"] == "497", outside
    for write in (
        "WITH x AS (SELECT 1 AS n) INSERT INTO t SELECT n FROM x",
        "/* SELECT */ INSERT INTO t SELECT 1",
        "INSERT INTO t VALUES (1)",
        "DROP TABLE t",
        "SYSTEM FLUSH LOGS",
        "CREATE TABLE u (n UInt8) ENGINE = Memory",
        "KILL QUERY WHERE 1",
    ):
        assert reads(write).headers["X-ClickHouse-Exception-Code"] == "164", write
    assert (
        reads("INSERT INTO t VALUES (1)", path.replace("?", "?readonly=0&")).headers["X-ClickHouse-Exception-Code"]
        == "164"
    )
    assert post(server, b"", "/?query=DROP%20TABLE%20t", method="GET").headers["X-ClickHouse-Exception-Code"] == "164"
    assert post(server, b"SELECT count() FROM t").text == "0\n"
