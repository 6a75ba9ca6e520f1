"""Alembic's entry: runs the versions on the connection that `warehouse.ledger.migrate` hands in."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
