"""A private MySQL server: its data directory, its account, its command line. Not here: where the program comes from
(`mysql_program`), supervision (`stack`), the schema (`warehouse.ledger`).

The server listens on 127.0.0.1 only. Its one account is the ledger's user, who may do everything within databases whose
names begin like the two configured ones (so tests can make `backlinks_…` of their own) or with `test_`; root is locked.
The account is written anew at every start, so a changed password takes effect with `down` and `up`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import mysql.connector
from mysql.connector import errorcode

from warehouse.ledger.config import LedgerSettings
from warehouse.local.config import StackSettings
from warehouse.local.errors import StackError
from warehouse.local.mysql_program import MysqlProgram
from warehouse.local.paths import StackFolder, explained
from warehouse.local.processes import Process, Report, silent, wait_for

PART = "mysql"
PORT_SETTING = "BACKLINKS_LEDGER__PORT"
LET_GO_S = 10.0
_SOCKET = "mysqld.sock"

#: Weaker durability for databases that live as long as a test run. Never for the stack.
THROWAWAY = ("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=OFF")


def initialise(
    program: MysqlProgram, folder: StackFolder, report: Report = silent, *, options: tuple[str, ...] = ()
) -> None:
    """Make the data directory unless it is there. It appears under its name only when complete."""
    data = folder.mysql_data
    if data.exists():
        if not all((data / name).is_file() for name in ("ibdata1", "mysql.ibd")):
            raise StackError(
                f"mysql: {data} is not a complete MySQL data directory; move it away (or delete it, with the data in "
                "it) and run again."
            )
        _refuse_if_in_use(data)
        _forget_socket(data)
        return
    report(PART, "initialising the data directory", None)
    part = data.with_name("mysql.part")
    with explained(f"the MySQL data directory {part}"):
        if part.exists():
            shutil.rmtree(part)  # an initialisation that was interrupted
    log = folder.log("mysql-init")
    with explained(f"the log {log}"), open(log, "wb") as stream:
        done = subprocess.run(
            [*_program(program), "--initialize-insecure", f"--datadir={part}", *_as_root(), *THROWAWAY[:1], *options],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, umask=0o077, check=False,
        )  # fmt: skip
    if done.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        if done.returncode == -signal.SIGXFSZ:  # RLIMIT_FSIZE, the one limit that speaks through a signal
            text += "[ERROR] File too large"
        raise StackError(explain(text, folder) or f"mysql: initialising {data} failed; see {log}.")
    with explained(f"the MySQL data directory {data}"):
        os.sync()  # the rename must not become durable before what it names
        os.rename(part, data)


def _refuse_if_in_use(data: Path) -> None:
    """InnoDB waits 100 s for its lock on ibdata1 (fcntl(2), as here) before it gives up: better to know at once. A server
    that was killed may hold it for a moment longer, until its last thread has ended."""
    with explained(f"the MySQL data directory {data}"), open(data / "ibdata1", "r+b") as tablespace:
        if not wait_for(lambda: _can_lock(tablespace.fileno()), LET_GO_S):
            raise StackError(f"mysql: another mysqld uses the data directory {data}; stop it first.")


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _forget_socket(data: Path) -> None:
    """A killed server leaves a lock beside its socket, with its process number in it. mysqld does not start while a
    process of that number runs, whatever it is by now. Nobody uses the data (`_refuse_if_in_use`), so it means nothing."""
    with explained(f"the MySQL data directory {data}"):
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (data / name).unlink(missing_ok=True)


def process(
    program: MysqlProgram,
    ledger: LedgerSettings,
    settings: StackSettings,
    folder: StackFolder,
    *,
    options: tuple[str, ...] = (),
) -> Process:
    """The server as a part of the stack."""
    argv = (
        *_program(program),
        f"--datadir={folder.mysql_data}",
        f"--port={ledger.port}",
        "--bind-address=127.0.0.1",
        f"--socket={_SOCKET}",  # within the data directory; a full path may exceed the 107 bytes of a socket's name
        f"--pid-file={folder.mysql_data / 'mysqld.pid'}",
        f"--init-file={account_file(folder)}",
        "--mysqlx=OFF",
        "--secure-file-priv=NULL",
        "--skip-name-resolve",
        "--default-time-zone=+00:00",
        "--local-infile=ON",
        "--skip-log-bin",  # nothing reads it: the pipeline writes both stores itself
        "--max-connections=200",
        "--max-allowed-packet=64M",
        f"--innodb-buffer-pool-size={settings.mysql_buffer_pool_mb}M",
        "--loose-innodb-redo-log-capacity=256M",
        "--loose-innodb-log-writer-threads=OFF",  # quicker on few cores
        *_as_root(),
        *options,
    )
    return Process(
        name=PART,
        argv=argv,
        health=health(ledger),
        port=ledger.port,
        port_setting=PORT_SETTING,
        explain=lambda text: explain(text, folder),
    )


def health(ledger: LedgerSettings) -> Callable[[], str | None]:
    """A check that logs in as the ledger's user; a refused password is a `StackError`, since waiting does not help."""

    def check() -> str | None:
        try:
            with mysql.connector.connect(
                host=ledger.host,
                port=ledger.port,
                user=ledger.user,
                password=ledger.password.get_secret_value(),
                connection_timeout=5,
                use_pure=True,
            ) as connection:
                connection.ping()
        except mysql.connector.Error as error:
            if error.errno == errorcode.ER_ACCESS_DENIED_ERROR:
                raise StackError(
                    f"mysql: the server on port {ledger.port} refuses the password of user {ledger.user!r}; set "
                    "BACKLINKS_LEDGER__PASSWORD to the one it "
                    "was started with, or restart the stack (`backlinks stack down`, `backlinks stack up`) to make it "
                    "take the new one."
                ) from error
            return (error.msg or str(error)).splitlines()[0]
        return None

    return check


def account_file(folder: StackFolder) -> Path:
    return folder.run / "mysql-account.sql"


def write_account(ledger: LedgerSettings, folder: StackFolder) -> Path:
    """Write what the server runs at its start, readable by us alone: the account, its grants, the two databases."""
    path = account_file(folder)
    with explained(f"{path}"):
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(account_sql(ledger))
    return path


def account_sql(ledger: LedgerSettings) -> str:
    """One statement a line (mysqld's init file knows no others)."""
    user, password = f"{_text(ledger.user)}@'%'", _text(ledger.password.get_secret_value())
    patterns = dict.fromkeys([_pattern(ledger.database), _pattern(ledger.identity_database), _pattern("test_")])
    statements = [
        f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY {password}",
        f"ALTER USER {user} IDENTIFIED BY {password} ACCOUNT UNLOCK",
        *(f"GRANT ALL PRIVILEGES ON `{pattern}`.* TO {user}" for pattern in patterns),
        f"GRANT PROCESS ON *.* TO {user}",
        f"GRANT SELECT ON performance_schema.* TO {user}",
        f"GRANT SELECT, EXECUTE ON sys.* TO {user}",
        f"CREATE DATABASE IF NOT EXISTS `{ledger.database}`",
        f"CREATE DATABASE IF NOT EXISTS `{ledger.identity_database}`",
        "ALTER USER 'root'@'localhost' ACCOUNT LOCK",
    ]
    return ";\n".join(statements) + ";\n"


def _pattern(prefix: str) -> str:
    """A grant's name pattern for every database that begins with `prefix`."""
    return prefix.replace("_", "\\_") + "%"


def _text(value: str) -> str:
    if any(ord(c) < 0x20 for c in value):
        raise StackError("mysql: BACKLINKS_LEDGER__USER and __PASSWORD must not hold control characters.")
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _program(program: MysqlProgram) -> tuple[str, ...]:
    return program.argv if "--no-defaults" in program.argv else (*program.argv, "--no-defaults")


def _as_root() -> tuple[str, ...]:
    """mysqld refuses to run as root unless told that it is meant."""
    return ("--user=root",) if os.geteuid() == 0 else ()


_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No space left|error: 28|error number 28|OS error 28|errno: 28|Disk is full|File too large|OS error: 27",
        "the disk (or a quota) is full; free some space and run again",
    ),
    (r"Unable to lock \./ibdata1|error: 11\b", "another mysqld uses the data directory {data}; stop it first"),
    (
        r"Address already in use|Can't start server: Bind",
        f"its port is taken by another program; choose another with {PORT_SETTING}=<port>",
    ),
    (
        r"Permission denied|OS errno 13|Errcode: 13|[Rr]ead-only",
        "the data directory {data} cannot be written by this user",
    ),
    (
        (
            r"[Cc]orrupt|Cannot (?:open|read|create)|checksum|Failed to (?:initialize|find valid) (?:DD|data)|"
            r"Data Dictionary initialization failed|ibdata1|Plugin 'InnoDB'"
        ),
        "the data directory {data} is damaged; restore it, or move it away (the data in it is then gone) and run again",
    ),
)  # fmt: skip


def explain(log: str, folder: StackFolder) -> str | None:
    """One sentence for what made mysqld end, from its log; None if the log holds no error."""
    errors = [line for line in log.splitlines() if "[ERROR]" in line or line.startswith("mysqld:")]
    if not errors:
        return None
    text = "\n".join(errors)
    for pattern, cause in _CAUSES:
        if re.search(pattern, text):
            return f"mysql: the server did not start: {cause.format(data=folder.mysql_data)}."
    return f"mysql: the server did not start: {errors[0].split('] ')[-1].rstrip('.')}; see {folder.log(PART)}."
