"""Finding a program again: pid files against recycled pids, reboots, torn files; stopping what will not stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from warehouse.local import stack
from warehouse.local.errors import PortTaken, StackError, StackTimeout
from warehouse.local.paths import StackFolder
from warehouse.local.processes import PidFile, Process, start, start_ticks, stop, wait_for


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StackFolder]:
    folder = StackFolder(tmp_path / "stack")
    folder.create()
    yield folder
    stack.down(folder, timeout_s=2)


def sleeper(name: str = "sleeper", code: str = "print('ready', flush=True); import time; time.sleep(600)") -> Process:
    return Process(name=name, argv=(sys.executable, "-c", code), health=lambda: None)


def started(process: Process, folder: StackFolder) -> PidFile:
    found = start(process, log=folder.log(process.name), pid_file=folder.pid_file(process.name))
    assert wait_for(lambda: "ready" in folder.log(process.name).read_text(), 10)
    return found


def test_a_started_program_is_found_again_and_stopped(folder: StackFolder) -> None:
    found = started(sleeper(), folder)
    again = PidFile.read(folder.pid_file("sleeper"))
    assert again == found
    assert again.is_alive()
    assert os.getsid(found.pid) == found.pid  # outlives the terminal
    signals = [line for line in Path(f"/proc/{found.pid}/status").read_text().splitlines() if line.startswith("Sig")]
    assert stop(found, timeout_s=30), signals
    assert not again.is_alive()


def test_a_program_started_where_sigterm_is_blocked_still_ends_by_it(folder: StackFolder) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        found = started(sleeper(), folder)
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "the starter's own mask is as it was"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert stop(found, timeout_s=5)


def test_a_recycled_pid_is_not_our_program_and_is_never_signalled(folder: StackFolder) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        ticks = start_ticks(other.pid)
        assert ticks is not None
        mine = PidFile(other.pid, ticks, Path("/proc/sys/kernel/random/boot_id").read_text().strip(), ["mysqld"])
        assert mine.is_alive()
        for stale in (replace(mine, start_ticks=ticks - 1), replace(mine, boot_id="of-another-boot")):
            assert not stale.is_alive()
            assert stop(stale, timeout_s=0.1)
            stale.write(folder.pid_file("mysql"))
            assert stack.down(folder, timeout_s=0.1) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_killed_program_is_noticed_although_it_is_our_child(folder: StackFolder) -> None:
    found = started(sleeper(), folder)
    os.kill(found.pid, signal.SIGKILL)
    assert wait_for(lambda: not found.is_alive(), 5)


def test_what_ignores_sigterm_is_killed_and_said_so(folder: StackFolder) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print('ready', flush=True); time.sleep(600)"
    )
    found = started(sleeper(code=code), folder)
    assert not stop(found, timeout_s=0.2)
    assert not found.is_alive()


def test_children_of_a_killed_program_go_with_it(folder: StackFolder) -> None:
    code = (
        "import subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print('ready', child.pid, flush=True); time.sleep(600)"
    )
    found = started(sleeper(code=code), folder)
    child = int(folder.log("sleeper").read_text().split()[1])
    os.kill(found.pid, signal.SIGKILL)
    assert wait_for(lambda: not found.is_alive(), 5)
    assert start_ticks(child) is not None
    stack.down(folder, timeout_s=5)
    assert start_ticks(child) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "start_ticks": 2, "boot_id": "x", "argv": [], "more": 1}']
)
def test_a_torn_pid_file_is_no_pid_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    assert PidFile.read(tmp_path / "x.json") is None


def test_a_taken_port_is_named_with_its_owner_and_its_setting(folder: StackFolder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = replace(sleeper(), port=port, port_setting="BACKLINKS_LEDGER__PORT")
        with pytest.raises(PortTaken) as error:
            stack.ensure(process, folder, timeout_s=5)
    assert f"port {port} on 127.0.0.1 is taken" in str(error.value)
    assert f"pid {os.getpid()}" in str(error.value)
    assert "BACKLINKS_LEDGER__PORT=<port>" in str(error.value)
    assert PidFile.read(folder.pid_file("sleeper")) is None


def test_a_program_that_ends_while_starting_is_quoted(folder: StackFolder) -> None:
    process = replace(sleeper(code="print('no such thing'); raise SystemExit(3)"), health=lambda: "no answer")
    with pytest.raises(StackError, match=r"sleeper: it ended while starting: no such thing; see .*sleeper\.log"):
        stack.ensure(process, folder, timeout_s=10)


def test_an_old_log_is_not_quoted(folder: StackFolder) -> None:
    folder.log("sleeper").write_text("an old complaint\n")
    process = replace(sleeper(code="raise SystemExit(3)"), health=lambda: "no answer")
    with pytest.raises(StackError, match="it said nothing"):
        stack.ensure(process, folder, timeout_s=10)


def test_a_program_that_never_answers_is_stopped_at_its_deadline(folder: StackFolder) -> None:
    process = replace(sleeper(), health=lambda: "no answer yet")
    with pytest.raises(StackTimeout, match=r"no answer within 0 s \(no answer yet\).*BACKLINKS_STACK__START_TIMEOUT_S"):
        stack.ensure(process, folder, timeout_s=0.3)
    found = PidFile.read(folder.pid_file("sleeper"))
    assert found is not None
    assert not found.is_alive()


def test_ensure_leaves_a_healthy_program_alone(folder: StackFolder) -> None:
    first = stack.ensure(sleeper(), folder, timeout_s=5)
    assert stack.ensure(sleeper(), folder, timeout_s=5) == first


def test_a_changed_port_asks_for_a_restart(folder: StackFolder) -> None:
    stack.ensure(sleeper(), folder, timeout_s=5)
    with pytest.raises(StackError, match=r"runs on port None but the settings now say 4711.*stack down"):
        stack.ensure(replace(sleeper(), port=4711), folder, timeout_s=5)


def test_a_missing_program_is_one_sentence(folder: StackFolder) -> None:
    process = Process(name="mysql", argv=("/no/such/mysqld",), health=lambda: None)
    with pytest.raises(StackError, match=r"mysql: cannot start /no/such/mysqld: no such file or directory\."):
        stack.ensure(process, folder, timeout_s=1)
