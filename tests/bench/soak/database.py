"""The private MySQL server of a soak, with the stack's own options (fully durable). Here: starting it in a folder,
restarting it, killing it. Not here: the schema.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from warehouse.ledger.config import LedgerSettings
from warehouse.local import mysql, stack
from warehouse.local.config import StackSettings
from warehouse.local.mysql_program import find_program
from warehouse.local.paths import StackFolder
from warehouse.local.processes import PidFile, port_is_free, wait_for


def lasting_port() -> int:
    """A free port below those that the kernel hands to clients: while the server is away, nobody may be given it."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return next(port for port in random.sample(range(15_000, first), 200) if port_is_free(port))


class Database:
    def __init__(self, folder: Path) -> None:
        self._folder = StackFolder(folder)
        self._settings = StackSettings(folder=folder, mysql_buffer_pool_mb=128)
        self.ledger = LedgerSettings(port=lasting_port())
        self._program = find_program(self._settings)
        self._folder.create()
        self.start()

    def start(self) -> None:
        """As `backlinks stack up` does it; nothing when it runs."""
        found = PidFile.read(self._folder.pid_file(mysql.PART))
        if found is not None and found.is_alive():
            return
        mysql.initialise(self._program, self._folder)
        mysql.write_account(self.ledger, self._folder)
        process = mysql.process(self._program, self.ledger, self._settings, self._folder)
        stack.ensure(process, self._folder, timeout_s=120)

    def stop(self) -> None:
        stack.down(self._folder, timeout_s=60)

    def restart(self, *, kill: bool, away_s: float) -> None:
        """Down (cleanly, or by SIGKILL: commits that were acknowledged must survive it), away for a while, up again."""
        found = PidFile.read(self._folder.pid_file(mysql.PART))
        if kill and found is not None:
            os.kill(found.pid, signal.SIGKILL)
            wait_for(lambda: not found.is_alive(), 10.0)
        else:
            self.stop()
        time.sleep(away_s)
        self.start()
