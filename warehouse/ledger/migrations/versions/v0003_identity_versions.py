"""Versions of URL identity: what the ledger is at, what changed with each, which edges became one."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0003_identity_versions")
