"""In which run of the server a lease's named lock was taken."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(op.get_bind(), context.config.attributes["identity"], "0007_lease_server_start")
