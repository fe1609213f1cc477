"""Schedules, their runs and their leader; measurements that newer ones replaced."""

import sqlalchemy as sql
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "earlier_measurements",
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("trial_id", sql.String(16), nullable=False, index=True),
        sql.Column("started_at", sql.String(40), nullable=False),
        sql.Column("payload", sql.Text, nullable=False),
    )
    _schedules()
    _runs()
    op.create_table(
        "schedule_leader",
        sql.Column("name", sql.String(16), primary_key=True),
        sql.Column("fence", sql.Integer, nullable=False),
        sql.Column("owner", sql.String(150), nullable=False),
        sql.Column("host", sql.String(255), nullable=False),
        sql.Column("place", sql.String(100), nullable=False),
        sql.Column("pid", sql.Integer, nullable=False),
        sql.Column("started", sql.String(32), nullable=False),
        sql.Column("expires_at", sql.Double, nullable=False),
    )


def _schedules() -> None:
    op.create_table(
        "schedules",
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("name", sql.String(64), nullable=False, index=True),
        sql.Column("cron", sql.Text, nullable=False),
        sql.Column("timezone", sql.String(64), nullable=False),
        sql.Column("command", sql.Text, nullable=False),
        sql.Column("folder", sql.Text, nullable=False),
        sql.Column("misfire", sql.String(16), nullable=False),
        sql.Column("budget_usd", sql.Double, nullable=True),
        sql.Column("usd_per_hour", sql.Double, nullable=True),
        sql.Column("run_usd", sql.Double, nullable=True),
        sql.Column("created_at", sql.Double, nullable=False),
        sql.Column("considered_until", sql.Double, nullable=False),
        sql.Column("removed_at", sql.Double, nullable=True),
    )


def _runs() -> None:
    op.create_table(
        "schedule_runs",
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("schedule", sql.Integer, nullable=False),
        sql.Column("due_at", sql.Double, nullable=False),
        sql.Column("state", sql.String(16), nullable=False, index=True),
        sql.Column("note", sql.Text, nullable=False),
        sql.Column("attempts", sql.Integer, nullable=False),
        sql.Column("owner", sql.String(150), nullable=True),
        sql.Column("host", sql.String(255), nullable=True),
        sql.Column("place", sql.String(100), nullable=True),
        sql.Column("pid", sql.Integer, nullable=True),
        sql.Column("started", sql.String(32), nullable=True),
        sql.Column("expires_at", sql.Double, nullable=True),
        sql.Column("begun_at", sql.Double, nullable=True),
        sql.Column("ended_at", sql.Double, nullable=True),
        sql.Column("exit_code", sql.Integer, nullable=True),
        sql.Column("cost_usd", sql.Double, nullable=True),
        sql.Column("trials", sql.Integer, nullable=True),
        sql.Column("log", sql.Text, nullable=True),
        sql.Column("report", sql.Text, nullable=True),
        sql.UniqueConstraint("schedule", "due_at", name="one_run_a_due_time"),
    )
