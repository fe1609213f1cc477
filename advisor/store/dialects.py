"""All that differs between SQLite and PostgreSQL: opening, beginning, clock, insert, lock."""

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

from advisor.errors import DataError, UsageError, system_errors
from advisor.extras import install_hint
from advisor.store import DATABASE_VARIABLE

WRITES = "advisor_writes"
SQLITE, POSTGRESQL = "sqlite", "postgresql"
# Julian day of 1970-01-01, by which SQLite (before 3.42) gives the time to the millisecond.
_EPOCH_DAY = "2440587.5"
_BUSY_SECONDS = 5.0
_POSTGRESQL_OPTIONS = {
    "application_name": "advisor",
    "connect_timeout": 5,
    # A network that swallows everything is noticed in a quarter of a minute, not in two hours.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}


class DatabaseSeconds(FunctionElement[float]):
    """Seconds since 1970 by the database's own clock."""

    type = sql.Double()
    inherit_cache = True


@compiles(DatabaseSeconds, SQLITE)
def _sqlite_seconds(*_: Any, **__: Any) -> str:
    return f"((julianday('now') - {_EPOCH_DAY}) * 86400.0)"


@compiles(DatabaseSeconds, POSTGRESQL)
def _postgresql_seconds(*_: Any, **__: Any) -> str:
    return "extract(epoch from clock_timestamp())::float8"


def parsed_url(text: str) -> sql.URL:
    """The URL with the driver that is used; `UsageError` for what names no database of ours."""
    try:
        url = sql.make_url(text)
    except (ArgumentError, ValueError) as error:
        raise _no_url(str(error)) from error
    backend = url.drivername.partition("+")[0]
    if backend in ("postgres", POSTGRESQL):
        if not importlib.util.find_spec("psycopg"):
            raise UsageError("PostgreSQL needs psycopg", hint=install_hint("postgres"))
        return url.set(drivername="postgresql+psycopg")
    if backend != SQLITE:
        raise _no_url(f"'{backend}' is neither sqlite nor postgresql")
    return url


def name_of(url: sql.URL) -> str:
    """The database's name in messages; never the password."""
    if url.get_backend_name() == SQLITE:
        return url.database or "memory"
    host = url.host or str(url.query.get("host", "localhost"))
    port = f":{url.port}" if url.port else ""
    return f"{host}{port}/{url.database or url.username or ''}"


def sqlite_file(url: sql.URL) -> Path | None:
    """The file of a SQLite database; None for one in memory, and for another database."""
    if url.get_backend_name() != SQLITE or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def server_identity(connection: sql.Connection) -> str:
    """A PostgreSQL server by the number that it got when it was made, with database and schema."""
    query = "SELECT system_identifier, current_database(), current_schema() FROM pg_control_system()"
    return "/".join(map(str, connection.exec_driver_sql(query).one()))


def is_there(file: Path) -> bool:
    """Whether there is such a file; `DataError` where that may not be looked at."""
    way_out = f"set {DATABASE_VARIABLE} to a place that you may read"
    with system_errors(DataError, f"cannot read the database '{file}'", hint=way_out):
        return file.exists()


def make_engine(url: sql.URL) -> sql.Engine:
    """An engine that connects when it is first used; `UsageError` where there is no such driver."""
    try:
        if url.get_backend_name() == SQLITE:
            return _sqlite_engine(_readable(url))
        options = {name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in url.query}
        return sql.create_engine(url, pool_pre_ping=True, connect_args=options)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise _no_url(str(error)) from error


def make_folder(file: Path) -> None:
    """The folder and SQLite file, readable by its owner alone; `DataError` if it cannot be made."""
    way_out = f"set {DATABASE_VARIABLE} to a place that can be written"
    with system_errors(DataError, f"cannot make the folder of the database '{file}'", hint=way_out):
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)


def log_ahead(engine: sql.Engine) -> None:
    """SQLite's write-ahead log: a commit waits for the disk once and not four times, and readers and writers
    do not wait for each other. Where a file system cannot, it stays as it is."""
    if engine.dialect.name != SQLITE:
        return
    with suppress(sqlite3.Error, SQLAlchemyError), closing(engine.raw_connection()) as bare:
        (mode,) = bare.cursor().execute("PRAGMA journal_mode").fetchone()
        if mode not in ("wal", "memory"):
            bare.cursor().execute("PRAGMA journal_mode=WAL").fetchone()


def insert_if_absent(connection: sql.Connection, table: sql.Table, row: dict[str, Any]) -> bool:
    """Insert; False when the key was there already, or came meanwhile."""
    make = sqlite.insert if connection.dialect.name == SQLITE else postgresql.insert
    insert = make(table).values(row).on_conflict_do_nothing()
    done = connection.execute(insert, execution_options={"preserve_rowcount": True})
    return done.rowcount == 1


def _readable(url: sql.URL) -> sql.URL:
    """The URL that reads the file as it is, where its folder lets nobody write a log."""
    file = sqlite_file(url)
    if file is None or not is_there(file) or os.access(file.parent, os.W_OK):
        return url
    if Path(f"{file}-wal").exists() or url.query:
        return url
    as_it_is = {"mode": "ro", "immutable": "1", "uri": "true"}
    return url.set(database=f"file:{quote(str(file))}", query=as_it_is)


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
    """A committed row survives a power cut, not only a killed process; transactions are ours: the driver
    would begin one after the first SELECT, and commit before a CREATE TABLE."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: sql.Connection) -> None:
    """Take the write lock first where something is written: two that read and then write would both fail."""
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _no_url(reason: str) -> UsageError:
    return UsageError(
        f"{DATABASE_VARIABLE} is no database URL that can be opened ({reason})",
        hint="write it like sqlite:////path/to/file.sqlite or postgresql://user:password@host/database",
    )
