"""Measurements, one row a trial."""

import sqlalchemy as sql
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "measurements",
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("trial_id", sql.String(16), nullable=False, unique=True),
        sql.Column("network", sql.String(64), nullable=False, index=True),
        sql.Column("task", sql.String(16), nullable=False),
        sql.Column("accelerator", sql.String(64), nullable=False, index=True),
        sql.Column("status", sql.String(16), nullable=False, index=True),
        sql.Column("limited_by", sql.String(16), nullable=False),
        sql.Column("started_at", sql.String(40), nullable=False),
        sql.Column("schema_version", sql.Integer, nullable=False),
        sql.Column("payload", sql.Text, nullable=False),
    )
