"""The stack as its user meets it: up, down, kill -9, other users, and every failure as one sentence."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clickhouse_connect
import mysql.connector
import psutil
import pytest

from orchestration.cli import main
from tests.fixtures.stack import free_port
from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger.config import LedgerSettings
from warehouse.local import mysql as mysql_part
from warehouse.local import mysql_program as mysql_program_module
from warehouse.local import stack
from warehouse.local.config import StackSettings
from warehouse.local.errors import PortTaken, StackError
from warehouse.local.mysql_program import MysqlProgram, find_program
from warehouse.local.paths import StackFolder, cache_folder, project_root
from warehouse.local.processes import PidFile

pytestmark = pytest.mark.service

ROOT = os.geteuid() == 0


class Stack:
    """A whole stack on free ports in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.settings = StackSettings(folder=folder, mysql_buffer_pool_mb=32, start_timeout_s=60)
        self.ledger = LedgerSettings(port=free_port())
        self.clickhouse = ClickHouseSettings(port=free_port())
        self.folder = StackFolder.of(self.settings)

    def up(self, **more: Any) -> dict[str, stack.PartStatus]:
        return {row.name: row for row in stack.up(self.settings, self.ledger, self.clickhouse, **more)}

    def status(self) -> dict[str, str]:
        return {row.name: row.state for row in stack.status(self.settings, self.ledger, self.clickhouse)}

    def down(self) -> list[str]:
        return stack.down(self.folder, timeout_s=20)

    def sql(self, statement: str, **more: Any) -> list[Any]:
        login = {"user": self.ledger.user, "password": self.ledger.password.get_secret_value()} | more
        with (
            closing(
                mysql.connector.connect(
                    host="127.0.0.1", port=self.ledger.port, autocommit=True, use_pure=True, **login
                )
            ) as c,
            closing(c.cursor()) as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def ch(self, statement: str) -> Any:
        c = self.clickhouse
        with clickhouse_connect.get_client(
            host=c.host, port=c.port, username=c.user, password=c.password.get_secret_value()
        ) as client:
            return client.command(statement)

    def environment(self) -> dict[str, str]:
        return {
            "BACKLINKS_STACK__FOLDER": str(self.settings.folder),
            "BACKLINKS_STACK__MYSQL_BUFFER_POOL_MB": "32",
            "BACKLINKS_LEDGER__PORT": str(self.ledger.port),
            "BACKLINKS_CLICKHOUSE__PORT": str(self.clickhouse.port),
        }


@pytest.fixture
def empty(tmp_path: Path, mysql_program: MysqlProgram) -> Iterator[Stack]:
    """A stack whose folder is not there yet."""
    found = Stack(tmp_path / "stack")
    yield found
    found.down()


@pytest.fixture
def one(empty: Stack, mysql_template: Path) -> Stack:
    """A stack that was never up but whose MySQL data directory is made."""
    empty.folder.create()
    shutil.copytree(mysql_template, empty.folder.mysql_data)
    return empty


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Command:
    """`backlinks stack …` in this process (the imports are warm), with the stack's settings in the environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capfd = monkeypatch, capfd

    def __call__(self, *arguments: str, env: dict[str, str]) -> Done:
        self._capfd.readouterr()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["backlinks", "stack", *arguments])
            for name, value in env.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = self._capfd.readouterr()
        return Done(int(ended.value.code or 0), out, err)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capfd)


def apart(*arguments: str, env: dict[str, str], before: str = "", prefix: tuple[str, ...] = ()) -> Done:
    """The same in a process of its own: `before` runs in it first, `prefix` starts it."""
    argv = ["backlinks", "stack", *arguments]
    code = f"import sys; sys.argv = {argv!r}\n{before}\nfrom orchestration.cli import main; main()"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code],
        cwd=project_root(), env=os.environ | env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def sentence(done: Done) -> str:
    """The one sentence of a failed command: exit code 1, nothing but progress and that line on stderr."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("backlinks: ")]
    return line


def test_up_is_idempotent_survives_kill_nine_of_each_part_and_down_leaves_nothing(empty: Stack) -> None:
    one = empty
    first = one.up()
    assert {name: row.state for name, row in first.items()} == {"mysql": "up", "clickhouse": "up"}
    one.sql("CREATE TABLE backlinks.t (x INT PRIMARY KEY) ENGINE = InnoDB")
    one.sql("INSERT INTO backlinks.t VALUES (1), (2)")
    one.ch("CREATE TABLE t (x UInt8) ENGINE = MergeTree ORDER BY x")
    one.ch("INSERT INTO t VALUES (1), (2), (3)")
    for row in first.values():  # nobody else's machine can reach it
        sockets = [c for c in psutil.Process(row.pid).net_connections("inet") if c.status == "LISTEN"]
        assert {c.laddr.ip for c in sockets} == {"127.0.0.1"}
        assert {c.laddr.port for c in sockets} == {row.port}
    again = one.up()
    assert {name: row.pid for name, row in again.items()} == {name: row.pid for name, row in first.items()}

    for row in first.values():
        assert row.pid is not None
        os.kill(row.pid, signal.SIGKILL)
    psutil.wait_procs(
        [psutil.Process(row.pid) for row in first.values() if row.pid and psutil.pid_exists(row.pid)], timeout=10
    )
    assert one.status() == {"mysql": "down", "clickhouse": "down"}
    lock = one.folder.mysql_data / "mysqld.sock.lock"
    assert lock.read_text().strip() == str(first["mysql"].pid)
    lock.write_text(f"{os.getpid()}\n")  # the killed server's number is another process's by now
    back = one.up()
    assert {row.state for row in back.values()} == {"up"}
    assert one.sql("SELECT SUM(x) FROM backlinks.t") == [(3,)]
    assert one.ch("SELECT sum(x) FROM t") == 6

    pids = [row.pid for row in back.values()]
    assert one.down() == ["clickhouse", "mysql"]
    assert not [pid for pid in pids if pid and psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    assert one.status() == {"mysql": "down", "clickhouse": "down"}
    assert one.down() == []
    assert list(one.folder.run.glob("*.json")) == []


def test_the_ledgers_account(mysql_server: LedgerSettings) -> None:
    """It may make and drop databases of its own names, load local files, and nothing else; root is locked out."""

    def run(statement: str, **more: Any) -> list[Any]:
        login: dict[str, Any] = {"user": mysql_server.user, "password": mysql_server.password.get_secret_value()} | more
        with (
            closing(
                mysql.connector.connect(
                    host="127.0.0.1", port=mysql_server.port, use_pure=True, allow_local_infile=True, **login
                )
            ) as c,
            closing(c.cursor()) as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    assert run("SELECT @@time_zone, @@local_infile, @@bind_address, @@secure_file_priv") == [
        ("+00:00", 1, "127.0.0.1", "NULL")
    ]
    assert {name for (name,) in run("SHOW DATABASES")} >= {"backlinks", "backlinks_identity"}
    for name in ("backlinks_more", "test_account"):
        run(f"CREATE DATABASE {name}")
        run(f"DROP DATABASE {name}")
    for forbidden in (
        "CREATE DATABASE other",
        "CREATE USER x",
        "SELECT * FROM mysql.user",
        "SET GLOBAL max_connections = 1",
    ):
        with pytest.raises(mysql.connector.Error, match=r"denied|privilege"):
            run(forbidden)
    with pytest.raises(mysql.connector.Error, match=r"denied|locked"):
        run("SELECT 1", user="root", password="")


def test_a_changed_password_is_refused_with_advice_and_taken_after_a_restart(one: Stack) -> None:
    one.up(parts=["mysql"])
    one.ledger = one.ledger.model_copy(update={"password": type(one.ledger.password)("new")})
    with pytest.raises(StackError, match=r"refuses the password of user 'backlinks'; set BACKLINKS_LEDGER__PASSWORD"):
        one.up(parts=["mysql"])
    one.down()
    one.up(parts=["mysql"])
    assert one.sql("SELECT 1") == [(1,)]


def test_a_store_elsewhere_is_not_started(empty: Stack) -> None:
    one = empty
    one.ledger = one.ledger.model_copy(update={"host": "192.0.2.1"})  # TEST-NET-1, RFC 5737
    one.clickhouse = one.clickhouse.model_copy(update={"host": "nosuch.invalid"})
    assert stack.is_here("192.0.2.1") is False
    stack.up(one.settings, one.ledger, one.clickhouse, parts=["nothing"])
    assert list(one.folder.run.glob("*.json")) == []
    assert not one.folder.mysql_data.exists()


# --- failures as the user meets them ----------------------------------------------------------------------------------


def test_a_taken_port(one: Stack, cli: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", one.ledger.port))
        taken.listen()
        said = sentence(cli("up", "mysql", env=one.environment()))
    assert f"mysql: port {one.ledger.port} on 127.0.0.1 is taken by another program" in said
    assert "BACKLINKS_LEDGER__PORT=<port>" in said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", one.clickhouse.port))
        taken.listen()
        with pytest.raises(PortTaken, match="BACKLINKS_CLICKHOUSE__PORT"):
            one.up(parts=["clickhouse"])


def test_wrong_parts_logs_status_and_exit_codes(one: Stack, cli: Command) -> None:
    assert "no part 'redis'; it has mysql, clickhouse" in sentence(cli("up", "redis", env=one.environment()))
    assert "mysql has no log yet" in sentence(cli("logs", "mysql", env=one.environment()))
    status = cli("status", "--json", env=one.environment())
    assert status.returncode == 3
    assert {row["name"]: row["state"] for row in json.loads(status.stdout)} == dict.fromkeys(
        ("mysql", "clickhouse", "dagster-webserver", "dagster-daemon"), "down"
    )
    assert cli("up", "mysql", "clickhouse", env=one.environment()).returncode == 0
    assert "ready for connections" in cli("logs", "mysql", env=one.environment()).stdout
    assert cli("down", env=one.environment()).stdout == "Stopped: clickhouse, mysql.\n"
    assert cli("down", env=one.environment()).stdout == "Nothing was running.\n"


def test_no_server_and_no_network(empty: Stack, tmp_path: Path, cli: Command) -> None:
    one = empty
    env = one.environment() | {
        "BACKLINKS_STACK__MYSQLD": "download", "BACKLINKS_STACK__CACHE": str(tmp_path / "cache"),
        "BACKLINKS_STACK__APT_MIRROR": f"http://127.0.0.1:{free_port()}/debian",
    }  # fmt: skip
    said = sentence(cli("up", "mysql", env=env))
    assert "there is no mysqld on PATH and it could not be fetched" in said
    assert "Connection refused" in said
    assert "BACKLINKS_STACK__MYSQLD=/path/to/mysqld" in said
    assert not (tmp_path / "cache/mysql-server").exists()
    assert not one.folder.mysql_data.exists()
    env["PATH"] = str(tmp_path)
    assert "no apt on this machine" in sentence(cli("up", "mysql", env=env))
    env["BACKLINKS_STACK__MYSQLD"] = "/bin/true"
    assert "/bin/true (BACKLINKS_STACK__MYSQLD) is not a MySQL server" in sentence(cli("up", "mysql", env=env))


def test_a_damaged_copy_of_the_server_is_fetched_again(
    tmp_path: Path, mysql_program: MysqlProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mysql_program.origin != "cache":
        pytest.skip("this machine has a mysqld of its own")
    settings = StackSettings(folder=tmp_path / "stack", cache=tmp_path / "cache")
    fetched = []

    def fetch(settings: StackSettings, cache: Path, home: Path, report: object) -> dict[str, str]:
        fetched.append(home)
        (home / "root").mkdir(parents=True)
        (home / "root/mysqld").write_text("program")
        (home / "root/usr/lib/x-linux-gnu").mkdir(parents=True)
        (home / "root/usr/lib/x-linux-gnu/ld-linux-x.so.2").write_text("loader")
        manifest = {"version": "9", "files": mysql_program_module._inventory(home / "root")}
        (home / "manifest.json").write_text(json.dumps(manifest))
        return {"version": "9"}

    monkeypatch.setattr(mysql_program_module, "_fetch", fetch)
    monkeypatch.setattr(shutil, "which", lambda *a, **k: None)
    home = tmp_path / "cache/mysql-server"
    find_program(settings)
    find_program(settings)
    assert fetched == [home]
    (home / "root/mysqld").write_text("prog")  # cut
    find_program(settings)
    (home / "root/usr/lib/x-linux-gnu/ld-linux-x.so.2").unlink()
    find_program(settings)
    (home / "manifest.json").write_text("{")
    find_program(settings)
    shutil.rmtree(home)
    (home / "root").mkdir(parents=True)  # an unpacking that never ended
    find_program(settings)
    assert len(fetched) == 5


def test_a_damaged_or_half_made_data_directory(one: Stack, mysql_program: MysqlProgram) -> None:
    shutil.rmtree(one.folder.mysql_data)
    one.folder.mysql_data.mkdir()
    (one.folder.mysql_data / "ibdata1").touch()
    with pytest.raises(StackError, match=r"stack/mysql is not a complete MySQL data directory; move it away"):
        one.up(parts=["mysql"])
    shutil.rmtree(one.folder.mysql_data)
    half = one.folder.mysql_data.with_name("mysql.part")  # an initialisation that was killed
    half.mkdir()
    (half / "ibdata1").write_bytes(b"half")
    mysql_part.initialise(mysql_program, one.folder, options=mysql_part.THROWAWAY)  # goes on as if it had never begun
    assert not half.exists()
    (one.folder.mysql_data / "mysql.ibd").write_bytes(os.urandom(65536))
    with pytest.raises(
        StackError, match=r"mysql: the server did not start: the data directory .* is damaged; restore it"
    ):
        one.up(parts=["mysql"])
    assert one.status()["mysql"] == "down"


def test_a_second_server_on_the_same_data(one: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    one.up(parts=["mysql"])
    monkeypatch.setattr(mysql_part, "LET_GO_S", 0.1)
    pid_file = one.folder.pid_file("mysql")
    kept = pid_file.read_text()
    pid_file.unlink()  # as if the stack folder's run/ had been lost
    one.ledger = one.ledger.model_copy(update={"port": free_port()})
    try:
        with pytest.raises(StackError, match="another mysqld uses the data directory"):
            one.up(parts=["mysql"])
    finally:
        pid_file.write_text(kept)


def test_a_file_size_limit_stands_for_a_full_disk(empty: Stack) -> None:
    one = empty
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))"
    said = sentence(apart("up", "mysql", env=one.environment(), before=limit))
    assert "the disk (or a quota) is full" in said
    assert not one.folder.mysql_data.exists()  # nothing half-made under its name


@pytest.mark.skipif(not ROOT, reason="only root can mount a tiny file system")
def test_a_full_disk(one: Stack, tmp_path: Path, cli: Command) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(small)], check=False, capture_output=True
    ).returncode:
        pytest.skip("this container may not mount")
    try:
        env = one.environment() | {"BACKLINKS_STACK__FOLDER": str(small / "stack")}
        assert "the disk (or a quota) is full" in sentence(cli("up", "mysql", env=env))
        _fill(small / "fill")
        said = sentence(cli("up", "clickhouse", env=env))
        assert "no space left on device" in said.lower()
        stack.down(StackFolder(small / "stack"), timeout_s=10)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def _fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(1 << 16))
        except OSError:
            pass


def test_a_folder_that_cannot_be_written(one: Stack, tmp_path: Path, cli: Command) -> None:
    (tmp_path / "file").write_text("")
    env = one.environment() | {"BACKLINKS_STACK__FOLDER": str(tmp_path / "file")}
    said = sentence(cli("up", "mysql", env=env))
    assert said.startswith(f"backlinks: Cannot write the stack folder {tmp_path / 'file'}: ")
    assert "BACKLINKS_STACK__FOLDER" in said
    if ROOT:
        folder = tmp_path / "readonly"
        folder.mkdir()
        if (
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(folder)], check=False, capture_output=True
            ).returncode
            == 0
        ):
            try:
                assert "read-only file system" in sentence(
                    cli("up", env=env | {"BACKLINKS_STACK__FOLDER": str(folder)})
                )
            finally:
                subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(not ROOT or shutil.which("setpriv") is None, reason="shows, as root, that root is not needed")
def test_an_ordinary_user_can_run_it(mysql_template: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    # May read everything, since this interpreter may lie in root's home, but write nothing outside its own folder.
    become = (
        "setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
        "--bounding-set=-all,+dac_read_search",
    )  # fmt: skip
    home = Path("/tmp") / f"stack-nobody-{os.getpid()}"  # pytest's own folder is closed to other users
    home.mkdir(mode=0o700)
    one = Stack(home / "stack")
    shutil.copytree(mysql_template, one.folder.mysql_data)
    for path in [home, *home.rglob("*")]:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    env = one.environment() | {"HOME": str(home), "BACKLINKS_STACK__CACHE": str(cache_folder(StackSettings()))}
    try:
        done = apart("up", "mysql", "clickhouse", env=env, prefix=become)
        assert done.returncode == 0, done.stderr
        for part in ("mysql", "clickhouse"):
            found = PidFile.read(one.folder.pid_file(part))
            assert found is not None
            assert psutil.Process(found.pid).uids().real == nobody.pw_uid
        assert one.sql("SELECT 1") == [(1,)]
        assert one.ch("SELECT 1") == 1
        assert apart("down", env=env, prefix=become).stdout == "Stopped: clickhouse, mysql.\n"
    finally:
        one.down()
        shutil.rmtree(home)


@pytest.mark.skipif("BACKLINKS_TEST_DOWNLOAD" not in os.environ, reason="set BACKLINKS_TEST_DOWNLOAD=1 to fetch 60 MB")
def test_the_download(tmp_path: Path) -> None:
    steps: list[float] = []
    settings = StackSettings(folder=tmp_path / "stack", cache=tmp_path / "cache", mysqld="download")
    program = find_program(settings, lambda part, message, fraction=None: steps.append(fraction or 0.0))
    assert program.origin == "cache"
    assert mysql_part.PART == "mysql"
    assert max(steps) > 0.9
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == ["mysql-server", "mysql-server.lock"]
