"""Slots that one shard reserved at another one's origins, for the owner to find."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0006_foreign_slots")
