"""Leases, and names of any length."""

import sqlalchemy as sql
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the table. SQLite never kept a text to its length, so only PostgreSQL is altered."""
    if op.get_bind().dialect.name == "postgresql":
        for column in ("network", "accelerator"):
            op.alter_column("measurements", column, type_=sql.Text)
    op.create_table(
        "leases",
        sql.Column("trial_id", sql.String(16), primary_key=True),
        sql.Column("owner", sql.String(150), nullable=False, index=True),
        sql.Column("host", sql.String(255), nullable=False),
        sql.Column("place", sql.String(100), nullable=False),
        sql.Column("pid", sql.Integer, nullable=False),
        sql.Column("started", sql.String(32), nullable=False),
        sql.Column("expires_at", sql.Double, nullable=False),
    )
