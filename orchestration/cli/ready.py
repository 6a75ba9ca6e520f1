"""Before a command runs the flow: do the stores answer, is the schema there? Here: those questions, answered in a sentence."""

from __future__ import annotations

from orchestration.settings import Settings
from transforms.errors import TransientError
from warehouse import clickhouse
from warehouse.ledger import migrate
from warehouse.local import stack


def require_stores(settings: Settings) -> None:
    """Ask both stores, and bring the ledger's schema up to date. Raises what they say: down (and how to start it), a wrong
    password, a newer schema."""
    migrate(settings.ledger)
    clickhouse.connect(settings.clickhouse).close()


def start_stores(settings: Settings) -> None:
    """As `require_stores`, but starts the local stack's stores when they do not answer."""
    try:
        require_stores(settings)
    except TransientError:
        if not (stack.is_here(settings.ledger.host) or stack.is_here(settings.clickhouse.host)):
            raise
        from orchestration.cli.stack import progress

        with progress() as report:
            stack.up(settings.stack, settings.ledger, settings.clickhouse, parts=["mysql", "clickhouse"], report=report)
        require_stores(settings)
