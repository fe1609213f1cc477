"""All tables of the database: measurements, leases, schedules, runs, API keys and sessions."""

from __future__ import annotations

from sqlalchemy import Column, Double, Integer, MetaData, String, Table, Text, UniqueConstraint

METADATA = MetaData()


def _number() -> Column[int]:
    return Column("number", Integer, primary_key=True, autoincrement=True)


def _process(*, nullable: bool, indexed: bool = False) -> tuple[Column[str] | Column[int], ...]:
    """The columns of `Owner`: which process has something in hand."""
    return (
        Column("owner", String(150), nullable=nullable, index=indexed or None),
        Column("host", String(255), nullable=nullable),
        Column("place", String(100), nullable=nullable),
        Column("pid", Integer, nullable=nullable),
        Column("started", String(32), nullable=nullable),
    )


MEASUREMENTS = Table(
    "measurements",
    METADATA,
    _number(),
    Column("trial_id", String(16), nullable=False, unique=True),
    # An own network's name is its file's path: of any length.
    Column("network", Text, nullable=False, index=True),
    Column("task", String(16), nullable=False),
    Column("accelerator", Text, nullable=False, index=True),
    Column("status", String(16), nullable=False, index=True),
    Column("limited_by", String(16), nullable=False),
    Column("started_at", String(40), nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("payload", Text, nullable=False),
)

LEASES = Table(
    "leases",
    METADATA,
    Column("trial_id", String(16), primary_key=True),
    *_process(nullable=False, indexed=True),
    # Seconds since 1970 by the clock of the database, in a double.
    Column("expires_at", Double, nullable=False),
    # When the trial began, by the same clock; what it is called. For those who watch.
    Column("taken_at", Double, nullable=True),
    Column("label", Text, nullable=True),
)

# What a sweep replaced by a newer measurement of the same trial: what a drift is seen by.
EARLIER = Table(
    "earlier_measurements",
    METADATA,
    _number(),
    Column("trial_id", String(16), nullable=False, index=True),
    Column("started_at", String(40), nullable=False),
    Column("payload", Text, nullable=False),
)

SCHEDULES = Table(
    "schedules",
    METADATA,
    _number(),
    Column("name", String(64), nullable=False, index=True),
    Column("cron", Text, nullable=False),
    Column("timezone", String(64), nullable=False),
    # A JSON list of words, and the folder that its relative paths begin in.
    Column("command", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("misfire", String(16), nullable=False),
    # Per month; per hour of a run; of one run at most. None where there is none, or none is known.
    Column("budget_usd", Double, nullable=True),
    Column("usd_per_hour", Double, nullable=True),
    Column("run_usd", Double, nullable=True),
    # Seconds since 1970, as all times of schedules; up to `considered_until` every due time has its row or
    # was told to be left out.
    Column("created_at", Double, nullable=False),
    Column("considered_until", Double, nullable=False),
    Column("removed_at", Double, nullable=True),
    # A JSON object: which plan is reported on after each run, and to whom. None: none is.
    Column("reporting", Text, nullable=True),
)

# All that is started and takes long: a due time of a schedule, or a sweep over HTTP (no schedule).
RUNS = Table(
    "schedule_runs",
    METADATA,
    _number(),
    Column("schedule", Integer, nullable=True),
    Column("due_at", Double, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("note", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    # The process that has the run in hand; it holds the run's lock as long as it lives.
    *_process(nullable=True),
    Column("begun_at", Double, nullable=True),
    Column("ended_at", Double, nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("cost_usd", Double, nullable=True),
    Column("trials", Integer, nullable=True),
    Column("log", Text, nullable=True),
    # A JSON object: the fit after the run, and what has drifted.
    Column("report", Text, nullable=True),
    # Of a sweep over HTTP: its id, a JSON object with what was asked, and when its end was asked.
    Column("sweep_id", String(32), nullable=True, unique=True),
    Column("request", Text, nullable=True),
    Column("stop_at", Double, nullable=True),
    # The whole of "each due job runs once".
    UniqueConstraint("schedule", "due_at", name="one_run_a_due_time"),
)

# One row: the daemon that had the lock last. Whether it still has it, the lock says.
SCHEDULE_LEADER = Table(
    "schedule_leader", METADATA, Column("name", String(16), primary_key=True), *_process(nullable=False)
)

# Keys of the HTTP service. A key's secret is nowhere: `digest` is its SHA-256, hexadecimal.
API_KEYS = Table(
    "api_keys",
    METADATA,
    _number(),
    Column("key_id", String(16), nullable=False, unique=True),
    Column("name", String(64), nullable=False, index=True),
    Column("scope", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    # Seconds since 1970. `last_used_at` is coarse: a row is not written for every request.
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=True),
    Column("last_used_at", Double, nullable=True),
    Column("revoked_at", Double, nullable=True),
)

# Who logged in on the page, with which key; of the cookie's token, too, only the SHA-256.
API_SESSIONS = Table(
    "api_sessions",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("key_id", String(16), nullable=False, index=True),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
)
