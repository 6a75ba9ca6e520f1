"""The published schema: six domains, identity in a schema of its own, the two tables of the 100-million stage."""

from alembic import context, op

from warehouse.ledger.migrate import run_sql_files

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_files(
        op.get_bind(),
        context.config.attributes["identity"],
        "0001_identity",
        "0001_domain1_control_plane",
        "0001_domain2_crawl",
        "0001_domain3_state",
        "0001_domain4_alerts",
        "0001_domain5_operations",
        "0001_sharded",
    )
