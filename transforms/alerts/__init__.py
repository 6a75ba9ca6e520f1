"""Who is told what. Set-based, in polars; no I/O.

Here: edge states + observations + alert rules -> alert events, deliveries, broker rows. Not here: the
state itself (dbt), writing (`warehouse.ledger.writeback`, in the transaction that writes the state), sending.

- `events`: what happened to an edge, as event types.
- `rules`: what a project's alert rules want, parsed and checked.
- `payload`: what a person reads.
- `raising`: the whole.
"""

from transforms.alerts.events import EVENT_TYPES
from transforms.alerts.raising import ALERT_OUTBOX, Raised, raise_alerts
from transforms.alerts.rules import rule_problems

__all__ = ["ALERT_OUTBOX", "EVENT_TYPES", "Raised", "raise_alerts", "rule_problems"]
