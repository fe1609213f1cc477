"""All tables of the database: measurements, leases, schedules, runs, API keys and sessions."""

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
    # When the trial began, by the same clock; what it is called. For those who watch.
    sql.Column("taken_at", sql.Double, nullable=True),
    sql.Column("label", sql.Text, nullable=True),
)

# What a sweep replaced by a newer measurement of the same trial: what a drift is seen by.
EARLIER = sql.Table(
    "earlier_measurements",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, index=True),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)

SCHEDULES = sql.Table(
    "schedules",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("name", sql.String(64), nullable=False, index=True),
    sql.Column("cron", sql.Text, nullable=False),
    sql.Column("timezone", sql.String(64), nullable=False),
    # A JSON list of words, and the folder that its relative paths begin in.
    sql.Column("command", sql.Text, nullable=False),
    sql.Column("folder", sql.Text, nullable=False),
    sql.Column("misfire", sql.String(16), nullable=False),
    # Per month; per hour of a run; of one run at most. None where there is none, or none is known.
    sql.Column("budget_usd", sql.Double, nullable=True),
    sql.Column("usd_per_hour", sql.Double, nullable=True),
    sql.Column("run_usd", sql.Double, nullable=True),
    # Seconds since 1970, as all times of schedules; up to `considered_until` every due time has
    # its row or was told to be left out.
    sql.Column("created_at", sql.Double, nullable=False),
    sql.Column("considered_until", sql.Double, nullable=False),
    sql.Column("removed_at", sql.Double, nullable=True),
    # A JSON object: which plan is reported on after each run, and to whom. None: none is.
    sql.Column("reporting", sql.Text, nullable=True),
)

# All that is started and takes long: a due time of a schedule, or a sweep over HTTP (no schedule).
RUNS = sql.Table(
    "schedule_runs",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("schedule", sql.Integer, nullable=True),
    sql.Column("due_at", sql.Double, nullable=False),
    sql.Column("state", sql.String(16), nullable=False, index=True),
    sql.Column("note", sql.Text, nullable=False),
    sql.Column("attempts", sql.Integer, nullable=False),
    # The process that has the run in hand; it holds the run's lock as long as it lives.
    sql.Column("owner", sql.String(150), nullable=True),
    sql.Column("host", sql.String(255), nullable=True),
    sql.Column("place", sql.String(100), nullable=True),
    sql.Column("pid", sql.Integer, nullable=True),
    sql.Column("started", sql.String(32), nullable=True),
    sql.Column("begun_at", sql.Double, nullable=True),
    sql.Column("ended_at", sql.Double, nullable=True),
    sql.Column("exit_code", sql.Integer, nullable=True),
    sql.Column("cost_usd", sql.Double, nullable=True),
    sql.Column("trials", sql.Integer, nullable=True),
    sql.Column("log", sql.Text, nullable=True),
    # A JSON object: the fit after the run, and what has drifted.
    sql.Column("report", sql.Text, nullable=True),
    # Of a sweep over HTTP: its id, a JSON object with what was asked, and when its end was asked.
    sql.Column("sweep_id", sql.String(32), nullable=True, unique=True),
    sql.Column("request", sql.Text, nullable=True),
    sql.Column("stop_at", sql.Double, nullable=True),
    # The whole of "each due job runs once".
    sql.UniqueConstraint("schedule", "due_at", name="one_run_a_due_time"),
)

# One row: the daemon that had the lock last. Whether it still has it, the lock says.
SCHEDULE_LEADER = sql.Table(
    "schedule_leader",
    METADATA,
    sql.Column("name", sql.String(16), primary_key=True),
    sql.Column("owner", sql.String(150), nullable=False),
    sql.Column("host", sql.String(255), nullable=False),
    sql.Column("place", sql.String(100), nullable=False),
    sql.Column("pid", sql.Integer, nullable=False),
    sql.Column("started", sql.String(32), nullable=False),
)

# Keys of the HTTP service. A key's secret is nowhere: `digest` is its SHA-256, hexadecimal.
API_KEYS = sql.Table(
    "api_keys",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("key_id", sql.String(16), nullable=False, unique=True),
    sql.Column("name", sql.String(64), nullable=False, index=True),
    sql.Column("scope", sql.String(16), nullable=False),
    sql.Column("digest", sql.String(64), nullable=False),
    # Seconds since 1970. `last_used_at` is coarse: a row is not written for every request.
    sql.Column("created_at", sql.Double, nullable=False),
    sql.Column("expires_at", sql.Double, nullable=True),
    sql.Column("last_used_at", sql.Double, nullable=True),
    sql.Column("revoked_at", sql.Double, nullable=True),
)

# Who logged in on the page, with which key; of the cookie's token, too, only the SHA-256.
API_SESSIONS = sql.Table(
    "api_sessions",
    METADATA,
    sql.Column("digest", sql.String(64), primary_key=True),
    sql.Column("key_id", sql.String(16), nullable=False, index=True),
    sql.Column("created_at", sql.Double, nullable=False),
    sql.Column("expires_at", sql.Double, nullable=False),
)
