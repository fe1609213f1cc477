"""All tables of the database, their version, and their creation.

The version is in the table `advisor_schema`, since another program's Alembic may use the usual name in the
same PostgreSQL database."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Column, Double, Integer, MetaData, String, Table, Text, UniqueConstraint

from advisor.errors import DataError
from advisor.store import DATABASE_VARIABLE, default_database_url
from advisor.store.database import POSTGRESQL, SQLITE, Database, file_exists, make_file, use_write_ahead_log

METADATA = MetaData()


class Json(sql.TypeDecorator[Any]):
    """A value as JSON in a column of text."""

    impl, cache_ok = Text, True

    def process_bind_param(self, value: Any, _dialect: sql.Dialect) -> str | None:
        """The text to store."""
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, _dialect: sql.Dialect) -> Any:
        """The value in a stored text."""
        return None if value is None else json.loads(value)


def _number() -> Column[int]:
    return Column("number", Integer, primary_key=True, autoincrement=True)


def _process(*, nullable: bool, indexed: bool = False) -> tuple[Column[str] | Column[int], ...]:
    """The columns that hold an `Owner`: the process that works on the row."""
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
    # The name of a user's network is the path of its file, of any length.
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
    # When the trial began, by the same clock, and its readable name: for status displays.
    Column("taken_at", Double, nullable=True),
    Column("label", Text, nullable=True),
)

# Measurements that a newer one of the same trial replaced; comparing the two shows drift.
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
    # A list of words, and the folder in which its relative paths start.
    Column("command", Json, nullable=False),
    Column("folder", Text, nullable=False),
    Column("misfire", String(16), nullable=False),
    # Limit per month; cost per hour of a run; limit of one run. NULL: no limit, or unknown.
    Column("budget_usd", Double, nullable=True),
    Column("usd_per_hour", Double, nullable=True),
    Column("run_usd", Double, nullable=True),
    # Seconds since 1970, as all times of schedules. Every due time up to `considered_until` has its row, or
    # was skipped.
    Column("created_at", Double, nullable=False),
    Column("considered_until", Double, nullable=False),
    Column("removed_at", Double, nullable=True),
    # The plan to report on after each run, and the targets. NULL: no report.
    Column("reporting", Json, nullable=True),
)

# Long-running work: a due time of a schedule, or a sweep started over HTTP (no schedule).
RUNS = Table(
    "schedule_runs",
    METADATA,
    _number(),
    Column("schedule", Integer, nullable=True),
    Column("due_at", Double, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("note", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    # The process that executes the run; it holds the run's lock as long as it lives.
    *_process(nullable=True),
    Column("begun_at", Double, nullable=True),
    Column("ended_at", Double, nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("cost_usd", Double, nullable=True),
    Column("trials", Integer, nullable=True),
    Column("log", Text, nullable=True),
    # The fit after the run, and the drift.
    Column("report", Json, nullable=True),
    # Only for a sweep over HTTP: its id, the client's request, and when a stop was requested.
    Column("sweep_id", String(32), nullable=True, unique=True),
    Column("request", Json, nullable=True),
    Column("stop_at", Double, nullable=True),
    # This alone ensures that each due time gets one run.
    UniqueConstraint("schedule", "due_at", name="one_run_a_due_time"),
)

# One row: the daemon that took the lock last. Only the lock itself shows whether it still has it.
SCHEDULE_LEADER = Table(
    "schedule_leader", METADATA, Column("name", String(16), primary_key=True), *_process(nullable=False)
)

# Keys of the HTTP service. The key is not stored: `digest` is its SHA-256, hexadecimal.
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

# Logins on the page, with their key. `digest` is the SHA-256 of the cookie's token.
API_SESSIONS = Table(
    "api_sessions",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("key_id", String(16), nullable=False, index=True),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
)


VERSION_TABLE = "advisor_schema"
HEAD = "0008"
WRITING_PATIENCE_SECONDS, READING_PATIENCE_SECONDS = 90.0, 30.0
_VERSION = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True))
_CREATION_LOCK = 0x6164_7669_736F_7231  # "advisor1": no other program's advisory lock


class OpenTables(Database):
    """Tables of the database at `url` (default: `default_database_url()`).

    Missing tables are created. With `reading` nothing is changed, and missing tables read as empty. A
    database that cannot be reached is retried for `patience_seconds`."""

    def __init__(
        self, url: str | None = None, *, reading: bool = False, patience_seconds: float | None = None
    ) -> None:
        usual = READING_PATIENCE_SECONDS if reading else WRITING_PATIENCE_SECONDS
        patience = usual if patience_seconds is None else patience_seconds
        super().__init__(url or default_database_url(), patience)
        self._has_tables = False
        try:
            if not reading:
                make_ready(self)
            self._file_id = self.file_id()
            self._has_tables = not reading or has_tables(self)
        except BaseException:
            self.close()
            raise

    @property
    def is_ready(self) -> bool:
        """True if the tables exist."""
        self._has_tables = self._has_tables or has_tables(self)
        return self._has_tables

    def rows(self, query: sql.Select[Any]) -> list[Any]:
        """The rows of a query on these tables; none where the tables do not exist."""
        return super().rows(query) if self.is_ready else []

    def _follow_file(self) -> bool:
        """True if the database file was replaced; its connections are then closed, and later ones new."""
        file_id = self.file_id()
        if file_id == self._file_id:
            return False
        self.close()
        self._file_id, self._has_tables = file_id, False
        return True


def has_tables(database: Database) -> bool:
    """True if the database has this version's tables; it only reads. `DataError` where the database belongs
    to another program or to another version of the advisor."""
    if database.file is not None and not file_exists(database.file):
        return False
    return database.view(lambda connection: _version(connection, database.name)) == HEAD


def make_ready(database: Database) -> None:
    """Create the tables where they are missing; one process at a time."""
    if database.file is not None:
        make_file(database.file)
    ready = has_tables(database)  # refuses another program's file before anything is changed
    use_write_ahead_log(database.engine)
    if not ready:
        database.write(lambda connection: _create_tables(connection, database.name))


def lock_table(connection: sql.Connection, table: sql.Table) -> None:
    """Keep others from writing to the table until this transaction ends. SQLite's locks the file anyway."""
    if connection.dialect.name == POSTGRESQL:
        connection.execute(sql.text(f"LOCK TABLE {table.name} IN SHARE ROW EXCLUSIVE MODE"))


def _create_tables(connection: sql.Connection, name: str) -> None:
    if connection.dialect.name == POSTGRESQL:  # SQLite's writing transaction has locked the file already
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_CREATION_LOCK)))
    if _version(connection, name) is None:  # else another process has created them
        METADATA.create_all(connection)
        _VERSION.create(connection, checkfirst=True)
        connection.execute(_VERSION.insert().values(version_num=HEAD))


def _version(connection: sql.Connection, name: str) -> str | None:
    tables = set(sql.inspect(connection).get_table_names())
    version = connection.scalar(sql.select(_VERSION.c.version_num)) if VERSION_TABLE in tables else None
    if version is not None:
        if version != HEAD:
            raise DataError(
                f"database '{name}' was written by another version of the advisor (its tables are version "
                f"{version}, this one knows {HEAD})",
                hint="upgrade the advisor for a later one; export its measurements with an earlier one, set "
                f"{DATABASE_VARIABLE} to another database, and import there",
            )
        return HEAD
    others = tables - {VERSION_TABLE}
    if others and (connection.dialect.name == SQLITE or MEASUREMENTS.name in others):
        raise DataError(
            f"database '{name}' is another program's (it has the tables: {', '.join(sorted(others)[:3])})",
            hint=f"nothing was changed, set {DATABASE_VARIABLE} to a file of its own",
        )
    return None
