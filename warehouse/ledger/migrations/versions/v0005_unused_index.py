"""An index that nothing reads."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0005_unused_index")
