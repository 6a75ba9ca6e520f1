"""Somebody asks now. Here: making a project's checks due at once. Not here: claiming them (`claims`)."""

from __future__ import annotations

from datetime import datetime

from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.sql import script


def make_due(ledger: Ledger, project_id: bytes, *, now: datetime) -> None:
    """Every active edge and target of the project is due at `now`; a pending confirmation keeps its own time."""

    def work(tx: Transaction) -> None:
        for statement in script("due/make_due"):
            tx.execute(statement, {"project": project_id, "now": now})

    ledger.run(work)
