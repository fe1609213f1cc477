"""Sweeps over HTTP are runs too; locks say which daemon and which run lives, not leases."""

import sqlalchemy as sql
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add columns, drop those of leases, and let a run be without a schedule."""
    with op.batch_alter_table("schedule_runs") as runs:
        runs.alter_column("schedule", existing_type=sql.Integer, nullable=True)
        runs.drop_column("expires_at")
        runs.add_column(sql.Column("sweep_id", sql.String(32), nullable=True))
        runs.add_column(sql.Column("request", sql.Text, nullable=True))
        runs.add_column(sql.Column("stop_at", sql.Double, nullable=True))
        runs.create_unique_constraint("schedule_runs_sweep_id_key", ["sweep_id"])
    with op.batch_alter_table("schedule_leader") as leader:
        leader.drop_column("fence")
        leader.drop_column("expires_at")
