"""Detached programs and their pid files. Here: start, find again, stop. Not here: what the programs are.

A pid file names a process by (boot id, pid, start time): after a reboot, or when the kernel gave the pid to another
program, the file is stale and never leads to a signal. Linux only (`/proc`, proc(5)).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warehouse.local.errors import StackError, StackTimeout
from warehouse.local.paths import explained

#: `report(part, message, fraction)`: progress for a person; `fraction` in 0..1, or None where it is not known.
Report = Callable[[str, str, float | None], None]

#: Children of this very process, kept so that an ended one is reaped instead of staying a zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


def silent(part: str, message: str, fraction: float | None = None) -> None:
    """A `Report` that says nothing."""


@dataclass(frozen=True)
class Process:
    """A part of the stack: how it is started and how it is known to be well.

    `health` returns None when the part answers, else a short phrase of what is wrong; it may raise `StackError` when
    waiting longer cannot help (a wrong password). `port` and `port_setting` name what to change when the port is taken.
    `env` is added to the environment of the caller; `folder` is the working directory.
    """

    name: str
    argv: Sequence[str]
    health: Callable[[], str | None]
    env: Mapping[str, str] | None = None
    port: int | None = None
    port_setting: str | None = None
    folder: Path | None = None
    stop_signal: int = signal.SIGTERM
    explain: Callable[[str], str | None] | None = None  # log tail → one sentence, when the part ended by itself


@dataclass(frozen=True)
class PidFile:
    """Identity of a started program, as written to disk."""

    pid: int
    start_ticks: int
    boot_id: str
    argv: list[str]
    port: int | None = None

    def is_alive(self) -> bool:
        """True while this very program runs (not merely something with its pid)."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            _children.pop(self.pid, None)
            return False
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks

    def write(self, path: Path) -> None:
        with explained(f"the pid file {path}"):
            beside = path.with_suffix(".tmp")
            beside.write_text(json.dumps(asdict(self)), encoding="utf-8")
            os.replace(beside, path)

    @classmethod
    def read(cls, path: Path) -> PidFile | None:
        """The file's content; None if it is absent or not readable as one (a torn write, an older layout)."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (/proc/PID/stat, field 22); None if it ended or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name in parentheses may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def start(process: Process, *, log: Path, pid_file: Path) -> PidFile:
    """Start a program detached (own session, output appended to `log`) and write its pid file."""
    with explained(f"the log {log}"):
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = open(log, "ab", buffering=0)  # noqa: SIM115 - closed below, the child keeps its own copy
    try:
        with _no_signal_blocked():
            child = subprocess.Popen(
                list(process.argv),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, **(process.env or {})},
                cwd=process.folder,
                start_new_session=True,
                umask=0o077,
            )
    except OSError as error:
        raise StackError(
            f"{process.name}: cannot start {process.argv[0]}: {(error.strerror or str(error)).lower()}."
        ) from error
    finally:
        stream.close()
    _children[child.pid] = child
    ticks = start_ticks(child.pid)
    found = PidFile(child.pid, -1 if ticks is None else ticks, boot_id(), list(process.argv), process.port)
    try:
        found.write(pid_file)
    except StackError:
        stop(found, timeout_s=5.0)  # a program that nobody could find again must not stay
        raise
    return found


@contextlib.contextmanager
def _no_signal_blocked() -> Iterator[None]:
    """A program inherits its starter's signal mask (signal(7)): with SIGTERM blocked it could only be killed."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop(found: PidFile, *, timeout_s: float, sig: int = signal.SIGTERM) -> bool:
    """Stop a program and wait for its end; killed after `timeout_s`. Returns False if it had to be killed.

    Programs that it started and left behind are stopped too. Raises `StackTimeout` if one is still there after SIGKILL
    (stuck in the kernel).
    """
    clean = True
    if found.is_alive():
        _signal(found, sig)
        if not _ended(found, timeout_s):
            clean = False
            _signal(found, signal.SIGKILL)
            if not _ended(found, 10.0):
                raise _Immortal(found)
    return stop_leftovers(found, timeout_s=timeout_s) and clean


def stop_leftovers(found: PidFile, *, timeout_s: float) -> bool:
    """Stop what an ended program left running in its session; False if something had to be killed.

    A pid is not given away while a session of that number has members, so they can be nobody else's.
    """
    if found.boot_id != boot_id() or start_ticks(found.pid) is not None:
        return True
    for sig, wait_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        members = _session(found.pid)
        for member in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member, sig)
        if wait_for(lambda: not _session(found.pid), wait_s):
            return sig == signal.SIGTERM or not members
    raise _Immortal(found)


def _session(leader: int) -> list[int]:
    """Pids of the processes whose session is `leader` (field 6 of /proc/PID/stat), zombies left out."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_bytes()
                fields = stat[stat.rindex(b")") + 2 :].split()
                if int(fields[3]) == leader and fields[0] not in (b"Z", b"X"):
                    members.append(int(entry.name))
    return members


class _Immortal(StackTimeout):
    def __init__(self, found: PidFile) -> None:
        super().__init__(
            f"Process {found.pid} ({found.argv[0]}), or one that it started, does not end, not even after SIGKILL; "
            f"look at its state in /proc/{found.pid}."
        )


def _signal(found: PidFile, sig: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(found.pid, sig)
        except PermissionError as error:
            raise StackError(
                f"Process {found.pid} ({found.argv[0]}) belongs to another user; stop it as that user."
            ) from error


def _ended(found: PidFile, timeout_s: float) -> bool:
    return wait_for(lambda: not found.is_alive(), timeout_s)


def wait_for(condition: Callable[[], bool], timeout_s: float, *, pause_s: float = 0.02) -> bool:
    """Ask until `condition()` holds; False after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
    return True


def port_is_free(port: int) -> bool:
    """True if a server could bind 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT of a stopped server is no hindrance
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def port_owner(port: int) -> str | None:
    """`name, pid n` of who listens on `port`, when /proc lets us see it (our own processes, or all of them as root)."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{columns[9]}]")
    for entry in Path("/proc").iterdir() if inodes else ():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if any(os.readlink(fd) in inodes for fd in (entry / "fd").iterdir()):
                    return f"{(entry / 'comm').read_text(encoding='utf-8').strip()}, pid {entry.name}"
    return None


def tail(path: Path, size: int = 8192) -> str:
    """The last `size` bytes of a log as text; empty if there is none."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
