"""What a schedule reports after each run, and to whom."""

import sqlalchemy as sql
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("schedules", sql.Column("reporting", sql.Text, nullable=True))
