"""What an imported file held and what became of it. Here: the book-keeping of an import. Not here: reading files
(`warehouse.imports`), registering edges (`edges`)."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from transforms.errors import PermanentError
from warehouse.ledger import keys
from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.sql import query
from warehouse.ledger.tables import IMPORT_ITEMS

BATCH = 10_000


def start_run(
    ledger: Ledger,
    project_id: bytes,
    *,
    provider: str,
    now: datetime,
    file_name: str | None = None,
    file_format: str | None = None,
) -> bytes:
    """Open an import of a file or provider into a project. Returns `import_runs.id`. Raises `PermanentError` when there
    is no such project."""
    params = {
        "id": keys.uuid7(now),
        "project_id": project_id,
        "provider": provider[:64],
        "file_name": None if file_name is None else file_name[:512],
        "file_format": None if file_format is None else file_format[:64],
        "now": now,
    }
    if not ledger.run(lambda tx: tx.execute(query("imports/start"), params)):
        raise PermanentError(f"there is no project {project_id.hex()} to import into")
    return bytes(params["id"])  # type: ignore[arg-type]


def record_items(ledger: Ledger, import_run_id: bytes, items: pa.Table) -> None:
    """Record rows of the file (`IMPORT_ITEMS`). A line that is recorded again is replaced: a resumed import says the
    same. The run's counts are worked out by `finish_run`."""
    items = IMPORT_ITEMS.conform(items)
    for start in range(0, items.num_rows, BATCH):
        batch = items.slice(start, BATCH)

        def work(tx: Transaction, batch: pa.Table = batch) -> None:
            tx.stage(
                "stage_items", batch, key=["line_number"], types={"result": "VARCHAR(16)", "reason": "VARCHAR(64)"}
            )
            tx.execute(query("imports/items"), {"id": import_run_id})

        ledger.run(work)


def finish_run(
    ledger: Ledger,
    import_run_id: bytes,
    *,
    received: int,
    accepted: int,
    duplicate: int,
    invalid: int,
    now: datetime,
    error: str | None = None,
) -> None:
    """Close the import with its counts: `completed`, `partial` when there is an error but something was accepted, or
    `failed`. Raises `PermanentError` when a completed run's counts do not add up: nothing is dropped silently."""
    if error is None and received != accepted + duplicate + invalid:
        raise PermanentError(
            f"import {import_run_id.hex()}: {received} rows were received, but {accepted} accepted + {duplicate} "
            f"duplicate + {invalid} invalid were recorded"
        )
    status = "completed" if error is None else "partial" if accepted else "failed"
    changed = ledger.run(
        lambda tx: (
            tx.row("SELECT id FROM import_runs WHERE id = %(id)s FOR UPDATE", {"id": import_run_id})
            and tx.execute(
                query("imports/finish"),
                {
                    "id": import_run_id,
                    "status": status,
                    "received": received,
                    "accepted": accepted,
                    "duplicate": duplicate,
                    "invalid": invalid,
                    "error": None if error is None else error[:1024],
                    "now": now,
                },
            )
        )
    )
    if changed is None:
        raise PermanentError(f"there is no import {import_run_id.hex()}")


def run_items(
    ledger: Ledger, import_run_id: bytes, *, result: str | None = None, after_line: int = 0, limit: int = 10_000
) -> pa.Table:
    """Recorded rows of an import in file order (`IMPORT_ITEMS`), a page at a time."""
    with ledger.transaction() as tx:
        return tx.table(
            query("imports/read_items"),
            IMPORT_ITEMS.schema,
            {"id": import_run_id, "result": result, "after": after_line, "limit": limit},
        )
