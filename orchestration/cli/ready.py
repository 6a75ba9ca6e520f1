"""Before a command runs the flow: are the stores there, is the schema? Here: those questions, answered in a sentence."""

from __future__ import annotations

from orchestration.settings import Settings
from transforms.errors import TransientError
from warehouse.ledger import migrate
from warehouse.local import stack


class StackDown(TransientError):
    """A store of the local stack is not up."""


def require_stores(settings: Settings) -> None:
    """Raises `StackDown` naming what is down and how to start it; brings the ledger's schema up to date."""
    for part in stack.status(settings.stack, settings.ledger, settings.clickhouse, parts=["mysql", "clickhouse"]):
        if part.state not in ("up", "elsewhere"):
            raise StackDown(f"{part.name} is {part.state} on port {part.port}: start the local stack with `make up`")
    migrate(settings.ledger)


def start_stores(settings: Settings) -> None:
    """As `require_stores`, but starts the local stack's stores when they are down."""
    from orchestration.cli.stack import progress

    with progress() as report:
        stack.up(settings.stack, settings.ledger, settings.clickhouse, parts=["mysql", "clickhouse"], report=report)
    migrate(settings.ledger)
