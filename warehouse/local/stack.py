"""Supervision: bring the parts up, take them down, say how they are. Not here: what the parts are
(`mysql`, `clickhouse`, and whatever processes the caller hands in), a long-running supervisor (there is none: parts are
detached, and `up` again brings back what was killed).
"""

from __future__ import annotations

import fcntl
import ipaddress
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from warehouse.clickhouse.config import ClickHouseSettings
from warehouse.ledger.config import LedgerSettings
from warehouse.local import clickhouse as clickhouse_part
from warehouse.local import mysql as mysql_part
from warehouse.local.config import StackSettings
from warehouse.local.errors import PortTaken, StackBusy, StackError, StackTimeout
from warehouse.local.mysql_program import MysqlProgram, find_program
from warehouse.local.paths import StackFolder, explained
from warehouse.local.processes import (
    PidFile,
    Process,
    Report,
    port_is_free,
    port_owner,
    silent,
    start,
    stop,
    stop_leftovers,
    tail,
    wait_for,
)

State = Literal["up", "not answering", "down", "elsewhere"]


@dataclass(frozen=True)
class PartStatus:
    """How one part is: `pid` is None when it is down or elsewhere (the settings name another machine's server);
    `detail` is a short phrase when it is not well."""

    name: str
    state: State
    pid: int | None
    port: int | None
    detail: str | None
    log: str


def up(
    settings: StackSettings,
    ledger: LedgerSettings,
    clickhouse: ClickHouseSettings,
    *,
    processes: Sequence[Process] = (),
    parts: Collection[str] | None = None,
    report: Report = silent,
) -> list[PartStatus]:
    """Make every part answer, in order: mysql, clickhouse, then `processes`. Idempotent; returns how the parts are.

    `parts` restricts it to those names. A store whose host is not this machine is left alone. Raises `StackError` (also
    `PortTaken`), `StackTimeout` or `StackBusy`; what was started before the error stays up, and another `up` goes on.
    """
    folder = StackFolder.of(settings)
    folder.create()
    with exclusive(folder, settings.start_timeout_s + 60):
        for name in ("mysql", "clickhouse"):
            host = ledger.host if name == "mysql" else clickhouse.host
            if (parts is not None and name not in parts) or not is_here(host):
                continue
            if name == "mysql":
                process = _mysql_ready(settings, ledger, folder, report)
            else:
                if clickhouse.secure:
                    raise StackError(
                        "clickhouse: the local front speaks plain HTTP on loopback only; unset "
                        "BACKLINKS_CLICKHOUSE__SECURE, "
                        "or name a real server with BACKLINKS_CLICKHOUSE__HOST."
                    )
                process = clickhouse_part.process(clickhouse, settings, folder)
            ensure(process, folder, timeout_s=settings.start_timeout_s, report=report)
        wanted = [process for process in processes if parts is None or process.name in parts]
        launched = [
            _launch(process, folder, report) for process in wanted
        ]  # they take long, and side by side no longer
        for one in launched:
            _await(one, folder, settings.start_timeout_s, report)
    return status(settings, ledger, clickhouse, processes=processes, parts=parts)


def _mysql_ready(settings: StackSettings, ledger: LedgerSettings, folder: StackFolder, report: Report) -> Process:
    found = PidFile.read(folder.pid_file(mysql_part.PART))
    if found is not None and found.is_alive():
        return mysql_part.process(_NO_PROGRAM, ledger, settings, folder)  # it runs: the program is not needed
    if not port_is_free(ledger.port):  # before minutes are spent on a download
        raise PortTaken(mysql_part.PART, ledger.port, mysql_part.PORT_SETTING, port_owner(ledger.port))
    program = find_program(settings, report)
    mysql_part.initialise(program, folder, report)
    mysql_part.write_account(ledger, folder)
    return mysql_part.process(program, ledger, settings, folder)


_NO_PROGRAM = MysqlProgram((), "", "")


def status(
    settings: StackSettings,
    ledger: LedgerSettings,
    clickhouse: ClickHouseSettings,
    *,
    processes: Sequence[Process] = (),
    parts: Collection[str] | None = None,
) -> list[PartStatus]:
    """How every part is right now. Asks each of them; never raises for one that is not well."""
    folder = StackFolder.of(settings)
    stores = [
        (ledger.host, mysql_part.process(_NO_PROGRAM, ledger, settings, folder)),
        (clickhouse.host, clickhouse_part.process(clickhouse, settings, folder)),
    ]
    rows = [_elsewhere(process, host) if not is_here(host) else status_of(process, folder) for host, process in stores]
    rows += [status_of(process, folder) for process in processes]
    return [row for row in rows if parts is None or row.name in parts]


def is_here(host: str) -> bool:
    """True for a name of this machine's loopback: only then is a store the stack's to start."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _elsewhere(process: Process, host: str) -> PartStatus:
    return PartStatus(process.name, "elsewhere", None, process.port, _trouble(process) or f"answers at {host}", "")


def _trouble(process: Process) -> str | None:
    try:
        return process.health()
    except StackError as error:
        return str(error)


@contextmanager
def exclusive(folder: StackFolder, timeout_s: float = 60.0) -> Iterator[None]:
    """Hold the stack folder: one `up` or `down` at a time. The lock ends with its process, however that ends."""
    with explained(f"the stack folder {folder.root}"):
        handle = open(folder.run / "lock", "a", encoding="ascii")  # noqa: SIM115
    with handle:
        if not wait_for(lambda: _try_lock(handle.fileno()), timeout_s, pause_s=0.1):
            raise StackBusy(
                f"Another `backlinks stack` command has held {folder.root} for {timeout_s:.0f} s; wait for it, then "
                "run this again."
            )
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True)
class _Launched:
    process: Process
    found: PidFile
    mark: int | None  # where this start's output begins in the log; None if it ran already


def ensure(process: Process, folder: StackFolder, *, timeout_s: float, report: Report = silent) -> PidFile:
    """Make one part answer: leave it alone if it does, start it if it is not there, wait for its health.

    Raises `PortTaken`, `StackError` (it ended by itself: why, from its log) or `StackTimeout`.
    """
    return _await(_launch(process, folder, report), folder, timeout_s, report)


def _launch(process: Process, folder: StackFolder, report: Report) -> _Launched:
    found = PidFile.read(folder.pid_file(process.name))
    if found is not None and found.is_alive():
        if found.port != process.port:
            raise StackError(
                f"{process.name}: it runs on port {found.port} but the settings now say {process.port}; run "
                "`backlinks stack down` and then `backlinks stack up`."
            )
        return _Launched(process, found, None)
    if found is not None:
        stop_leftovers(found, timeout_s=10.0)  # of a part that was killed; they may still hold its port
    if process.port is not None and not port_is_free(process.port):
        raise PortTaken(process.name, process.port, process.port_setting or "its setting", port_owner(process.port))
    report(process.name, "starting", None)
    log = folder.log(process.name)
    mark = log.stat().st_size if log.exists() else 0
    return _Launched(process, start(process, log=log, pid_file=folder.pid_file(process.name)), mark)


def _await(launched: _Launched, folder: StackFolder, timeout_s: float, report: Report) -> PidFile:
    process, found, log = launched.process, launched.found, folder.log(launched.process.name)
    deadline = time.monotonic() + timeout_s
    pause = 0.02
    while True:
        alive = found.is_alive()
        trouble = process.health() if alive else "it ended"
        if trouble is None:
            report(process.name, "up", 1.0)
            return found
        if not alive:
            said = tail(log, 8192 if launched.mark is None else max(0, log.stat().st_size - launched.mark))
            reason = process.explain(said) if process.explain else None
            last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
            raise StackError(reason or f"{process.name}: it ended while starting: {last[:300]}; see {log}.")
        if time.monotonic() >= deadline:
            if launched.mark is not None:
                stop(found, timeout_s=10.0, sig=process.stop_signal)
            raise StackTimeout(
                f"{process.name}: no answer within {timeout_s:.0f} s ({trouble}); see {log}, or allow more with "
                "BACKLINKS_STACK__START_TIMEOUT_S."
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def down(
    folder: StackFolder, *, timeout_s: float, names: Sequence[str] | None = None, report: Report = silent
) -> list[str]:
    """Stop every part that has a pid file (or those named), last started first. Returns the names of those that ran.

    Works without settings: what is stopped is what the pid files name, and only if it is still that program.
    """
    stopped = []
    files = (
        sorted(folder.run.glob("*.json"), key=lambda f: f.stat().st_mtime_ns, reverse=True)
        if folder.run.is_dir()
        else []
    )
    for file in files:
        if names is not None and file.stem not in names:
            continue
        found = PidFile.read(file)
        if found is not None and not found.is_alive():
            stop_leftovers(found, timeout_s=timeout_s)
        elif found is not None:
            report(file.stem, "stopping", None)
            clean = stop(found, timeout_s=timeout_s)
            report(file.stem, "stopped" if clean else "killed", 1.0)
            stopped.append(file.stem)
        with explained(f"the pid file {file}"):
            file.unlink(missing_ok=True)
    return stopped


def status_of(process: Process, folder: StackFolder) -> PartStatus:
    """How one part is right now; never raises for a part that is not well."""
    found = PidFile.read(folder.pid_file(process.name))
    log = str(folder.log(process.name))
    if found is None or not found.is_alive():
        taken = process.port is not None and not port_is_free(process.port)
        detail = f"another program listens on port {process.port}" if taken else None
        return PartStatus(process.name, "down", None, process.port, detail, log)
    trouble = _trouble(process)
    return PartStatus(process.name, "up" if trouble is None else "not answering", found.pid, found.port, trouble, log)
