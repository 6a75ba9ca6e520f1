"""What a source's page looked like when it was last whole, and how often it was a collapse since then."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0004_looks")
