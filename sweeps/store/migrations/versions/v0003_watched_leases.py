"""Since when a trial is measured, and what it is called: for those who watch."""

import sqlalchemy as sql
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; a lease that is in force meanwhile goes on without them."""
    op.add_column("leases", sql.Column("taken_at", sql.Double, nullable=True))
    op.add_column("leases", sql.Column("label", sql.Text, nullable=True))
