"""The tables as this version writes them; `migrations` brings older ones here."""

from __future__ import annotations

import sqlalchemy as sql

METADATA = sql.MetaData()

MEASUREMENTS = sql.Table(
    "measurements",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, unique=True),
    # An own network's name is its file's path: of any length.
    sql.Column("network", sql.Text, nullable=False, index=True),
    sql.Column("task", sql.String(16), nullable=False),
    sql.Column("accelerator", sql.Text, nullable=False, index=True),
    sql.Column("status", sql.String(16), nullable=False, index=True),
    sql.Column("limited_by", sql.String(16), nullable=False),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("schema_version", sql.Integer, nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)

LEASES = sql.Table(
    "leases",
    METADATA,
    sql.Column("trial_id", sql.String(16), primary_key=True),
    sql.Column("owner", sql.String(150), nullable=False, index=True),
    sql.Column("host", sql.String(255), nullable=False),
    sql.Column("place", sql.String(100), nullable=False),
    sql.Column("pid", sql.Integer, nullable=False),
    sql.Column("started", sql.String(32), nullable=False),
    # Seconds since 1970 by the clock of the database, in a double.
    sql.Column("expires_at", sql.Double, nullable=False),
    # The same clock; what the trial is called, for those who watch. Unknown of version 0002.
    sql.Column("taken_at", sql.Double, nullable=True),
    sql.Column("label", sql.Text, nullable=True),
)

# What a sweep replaced by a newer measurement of the same trial: what a drift is told by.
EARLIER = sql.Table(
    "earlier_measurements",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, index=True),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)
