"""What the flow of one window needs besides: leases, origins, robots, suppressions, schedules, import items."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0002_flow")
