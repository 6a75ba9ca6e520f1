"""The MySQL ledger: who owns what, what is due, what was decided. One module per subject; SQL in `sql/`.

`migrate(settings)` makes or upgrades the schema; `Ledger(settings)` holds the connections that every function here
takes. Not here: evidence (Parquet, ClickHouse), bodies (object store), rules (`transforms`).

- `projects`: projects, target rules, alert rules · `edges`: URLs and backlinks · `imports`: what a file held
- `claims`: what a window checks · `leases`: shards, queues, fences · `fetches`, `targets`, `parses`: results
- `origins`: manners between windows · `writeback`: decided state · `lookups`: answers for people
"""

from warehouse.ledger.engine import Ledger, Transaction
from warehouse.ledger.errors import (
    LeaseHeld,
    LedgerBusy,
    LedgerConstraint,
    LedgerRefused,
    LedgerUnavailable,
    StaleFence,
)
from warehouse.ledger.migrate import migrate

__all__ = [
    "LeaseHeld",
    "Ledger",
    "LedgerBusy",
    "LedgerConstraint",
    "LedgerRefused",
    "LedgerUnavailable",
    "StaleFence",
    "Transaction",
    "migrate",
]
