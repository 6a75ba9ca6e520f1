"""One import into a project at a time: the second waits for the first, so that each edge is `accepted` in exactly one
of them and `already_known` in the other. Here: the turn. Not here: what is done in it (`warehouse.imports.run`).

The turn is a named lock of a connection of its own: the server gives it to the next when the process dies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mysql.connector

from warehouse.ledger import Ledger
from warehouse.ledger.errors import translate

_WAIT_S = 2


@contextmanager
def turn(ledger: Ledger, project_id: bytes, *, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the project's turn. `on_wait` is called once when another import has it."""
    name = "import:" + hashlib.sha256(f"{ledger.settings.database}:{project_id.hex()}".encode()).hexdigest()[:40]
    connection = ledger.connect()
    try:
        cursor = connection.cursor()
        wait_s = 0
        while True:
            try:
                cursor.execute("SELECT GET_LOCK(%(name)s, %(wait)s)", {"name": name, "wait": wait_s})
                (granted,) = cursor.fetchone()
            except mysql.connector.Error as error:
                raise translate(error, ledger.settings) from error
            if granted == 1:
                break
            if wait_s == 0:
                on_wait()
            wait_s = _WAIT_S
        yield
    finally:
        connection.close()
