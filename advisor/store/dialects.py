"""The differences between SQLite and PostgreSQL: opening, transactions, clock, inserts."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.functions import FunctionElement

from advisor.errors import DataError, UsageError
from advisor.extras import install_hint
from advisor.files import system_errors
from advisor.store import DATABASE_VARIABLE

WRITES = "advisor_writes"
SQLITE, POSTGRESQL = "sqlite", "postgresql"
# Julian day of 1970-01-01. SQLite before 3.42 gives milliseconds only as a Julian day.
_EPOCH_DAY = "2440587.5"
_BUSY_SECONDS = 5.0
_POSTGRESQL_OPTIONS = {
    "application_name": "advisor",
    "connect_timeout": 5,
    # A network that drops every packet is noticed within 15 seconds, not within two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}


class DatabaseSeconds(FunctionElement[float]):
    """SQL expression: seconds since 1970 by the database's clock."""

    type = sql.Double()
    inherit_cache = True


@compiles(DatabaseSeconds, SQLITE)
def _sqlite_seconds(*_: Any, **__: Any) -> str:
    return f"((julianday('now') - {_EPOCH_DAY}) * 86400.0)"


@compiles(DatabaseSeconds, POSTGRESQL)
def _postgresql_seconds(*_: Any, **__: Any) -> str:
    return "extract(epoch from clock_timestamp())::float8"


def parsed_url(text: str) -> sql.URL:
    """The URL with the driver to use; `UsageError` unless it names a SQLite or PostgreSQL database."""
    try:
        url = sql.make_url(text)
    except (ArgumentError, ValueError) as error:
        raise _bad_url(str(error)) from error
    backend = url.drivername.partition("+")[0]
    if backend in ("postgres", POSTGRESQL):
        if not importlib.util.find_spec("psycopg"):
            raise UsageError("PostgreSQL needs psycopg", hint=install_hint("postgres"))
        return url.set(drivername="postgresql+psycopg")
    if backend != SQLITE:
        raise _bad_url(f"'{backend}' is neither sqlite nor postgresql")
    return url


def name_of(url: sql.URL) -> str:
    """The database's name for messages, without the password."""
    if url.get_backend_name() == SQLITE:
        return url.database or "memory"
    host = url.host or str(url.query.get("host", "localhost"))
    port = f":{url.port}" if url.port else ""
    return f"{host}{port}/{url.database or url.username or ''}"


def sqlite_file(url: sql.URL) -> Path | None:
    """The file of a SQLite database; None for one in memory, and for PostgreSQL."""
    if url.get_backend_name() != SQLITE or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def server_identity(connection: sql.Connection) -> str:
    """Identifier of a PostgreSQL server (fixed when it was initialised), with database and schema."""
    query = "SELECT system_identifier, current_database(), current_schema() FROM pg_control_system()"
    return "/".join(map(str, connection.exec_driver_sql(query).one()))


def file_exists(file: Path) -> bool:
    """Whether the file exists; `DataError` where the user may not look into its folder."""
    way_out = f"set {DATABASE_VARIABLE} to a place that you may read"
    with system_errors(DataError, f"cannot read the database '{file}'", hint=way_out):
        return file.exists()


def make_engine(url: sql.URL) -> sql.Engine:
    """An engine that connects at its first use; `UsageError` where the driver is not installed."""
    try:
        if url.get_backend_name() == SQLITE:
            return _sqlite_engine(_with_immutable_mode(url))
        options = {name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in url.query}
        return sql.create_engine(url, pool_pre_ping=True, connect_args=options)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise _bad_url(str(error)) from error


def make_file(file: Path) -> None:
    """Create a SQLite file, readable by its owner alone, and its folder; `DataError` if that fails."""
    way_out = f"set {DATABASE_VARIABLE} to a place that can be written"
    with system_errors(DataError, f"cannot make the folder of the database '{file}'", hint=way_out):
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)


def use_write_ahead_log(engine: sql.Engine) -> None:
    """Switch a SQLite database to its write-ahead log, where the file system can.
    A commit then waits for the disk once, not four times; readers and writers do not block each other."""
    if engine.dialect.name != SQLITE:
        return
    with suppress(sqlite3.Error, SQLAlchemyError), closing(engine.raw_connection()) as bare:
        (mode,) = bare.cursor().execute("PRAGMA journal_mode").fetchone()
        if mode not in ("wal", "memory"):
            bare.cursor().execute("PRAGMA journal_mode=WAL").fetchone()


def insert_if_absent(connection: sql.Connection, table: sql.Table, row: dict[str, Any]) -> bool:
    """Insert a row; False when a row with its key exists, even one inserted by another process just now."""
    make = sqlite.insert if connection.dialect.name == SQLITE else postgresql.insert
    insert = make(table).values(row).on_conflict_do_nothing()
    done = connection.execute(insert, execution_options={"preserve_rowcount": True})
    return done.rowcount == 1


def _with_immutable_mode(url: sql.URL) -> sql.URL:
    """The URL, in SQLite's immutable mode where the folder is read-only and so no log can be written."""
    file = sqlite_file(url)
    if file is None or not file_exists(file) or os.access(file.parent, os.W_OK):
        return url
    if Path(f"{file}-wal").exists() or url.query:
        return url
    immutable = {"mode": "ro", "immutable": "1", "uri": "true"}
    return url.set(database=f"file:{quote(str(file))}", query=immutable)


def _sqlite_engine(url: sql.URL) -> sql.Engine:
    memory = sqlite_file(url) is None
    engine = sql.create_engine(
        url,
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
        **({"poolclass": StaticPool} if memory else {}),
    )
    sql.event.listen(engine, "connect", _prepare_sqlite)
    sql.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Make commits survive a power cut, and turn the driver's automatic transactions off: it would begin
    one after the first SELECT, and commit before a CREATE TABLE."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: sql.Connection) -> None:
    """Begin; a writing transaction takes the write lock first: two that read, then write would both fail."""
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _bad_url(reason: str) -> UsageError:
    return UsageError(
        f"{DATABASE_VARIABLE} is no database URL that can be opened ({reason})",
        hint="write it like sqlite:////path/to/file.sqlite or postgresql://user:password@host/database",
    )
