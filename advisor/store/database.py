"""A database: SQLite or PostgreSQL, opened by its URL; transactions that are retried while it is locked or
cannot be reached, and what an error of it means."""

from __future__ import annotations

import importlib.util
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.functions import FunctionElement

from advisor.errors import DataError, UsageError, one_line
from advisor.extras import install_hint
from advisor.files import system_errors
from advisor.store import DATABASE_VARIABLE

_WRITES = "advisor_writes"
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


def file_exists(file: Path) -> bool:
    """Return whether the file exists; `DataError` where the user may not look into its folder."""
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
    return connection.execute(insert, execution_options={"preserve_rowcount": True}).rowcount == 1


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
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _bad_url(reason: str) -> UsageError:
    return UsageError(
        f"{DATABASE_VARIABLE} is no database URL that can be opened ({reason})",
        hint="write it like sqlite:////path/to/file.sqlite or postgresql://user:password@host/database",
    )


_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_LOG = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")
Work = Callable[[sql.Connection], Outcome]


class Database:
    """A SQLite or PostgreSQL database.

    A transaction that fails for a passing reason (a lock, a restart, a lost connection) is repeated from its
    beginning for up to `patience_seconds`, with one warning in the log; any other failure is a `DataError`
    whose hint names the way out."""

    def __init__(self, url: str, patience_seconds: float) -> None:
        parsed = parsed_url(url)
        self.name = name_of(parsed)
        self.file = sqlite_file(parsed)
        self.engine = make_engine(parsed)
        self.in_memory = self.engine.dialect.name == SQLITE and self.file is None
        self._patience_seconds = patience_seconds
        # The one connection of a database in memory serves all threads, one at a time.
        self._lock: AbstractContextManager[object] = threading.RLock() if self.in_memory else nullcontext()

    def write(self, work: Work[Outcome], *, patience_seconds: float | None = None) -> Outcome:
        """Do the work in one transaction that may write: all of its changes are kept, or none."""
        return self._with_retries(lambda: self._transact(work, writes=True), patience_seconds)

    def view(self, work: Work[Outcome]) -> Outcome:
        """Do the work in one transaction that only reads, and so sees one consistent state."""
        return self._with_retries(lambda: self._transact(work, writes=False), None)

    def execute(self, statement: sql.UpdateBase, *, patience_seconds: float | None = None) -> int:
        """Execute one writing statement, and return how many rows it changed."""
        return self.write(
            lambda connection: connection.execute(statement).rowcount, patience_seconds=patience_seconds
        )

    def rows(self, query: sql.Select[Any]) -> list[Any]:
        """All rows of a query."""
        return self.view(lambda connection: list(connection.execute(query).all()))

    def file_id(self) -> tuple[int, int] | None:
        """Device and inode of the database file; None if there is no file, and for a server."""
        with suppress(OSError):
            if self.file:
                state = self.file.stat()
                return state.st_dev, state.st_ino
        return None

    @property
    def identity(self) -> str:
        """The file's full path, or the server's identifier (fixed when it was initialised) with database and
        schema; the name if the server has none."""
        if self.file:
            return str(self.file.resolve())
        if self.in_memory:
            return self.name
        query = "SELECT system_identifier, current_database(), current_schema() FROM pg_control_system()"
        try:
            facts = self.view(lambda connection: connection.exec_driver_sql(query).one())
        except DataError:  # servers that only speak PostgreSQL's protocol have no identifier
            return self.name
        return "/".join(map(str, facts))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _transact(self, work: Work[Outcome], *, writes: bool) -> Outcome:
        with self._lock, self.engine.connect() as bare:
            connection = bare.execution_options(**{_WRITES: writes})
            with connection.begin():
                return work(connection)

    def _with_retries(self, attempt: Callable[[], Outcome], seconds: float | None) -> Outcome:
        patience = self._patience_seconds if seconds is None else seconds
        begun, pause, reported = time.monotonic(), _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                outcome = attempt()
            except SQLAlchemyError as error:
                what, way_out, passes = _trouble_of(error)
                left = begun + patience - time.monotonic()
                if not passes or left <= 0:
                    raise DataError(f"database '{self.name}': {what}", hint=way_out) from error
            else:
                if reported:
                    _LOG.warning("database '%s' is back", self.name)
                return outcome
            if not reported:
                reported = True
                _LOG.warning("database '%s': %s; waiting up to %.0f s", self.name, what, left)
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


_FREE_SPACE = "free some space and run the same command again, nothing stored is lost"
_ELSEWHERE = f"set {DATABASE_VARIABLE} to a database that can be opened and written"
_NOT_OURS = f"move that file away, or set {DATABASE_VARIABLE} to another one"
_START_IT = f"start it, or set {DATABASE_VARIABLE} to one that runs"
# Primary result codes of SQLite (sqlite.org/rescode.html).
_BUSY, _LOCKED, _READONLY, _CORRUPT, _FULL, _NOTADB = 5, 6, 8, 11, 13, 26
_SQLITE_WAYS_OUT = {
    _BUSY: "another process holds it; end that, and run the same command again",
    _LOCKED: "another process holds it; end that, and run the same command again",
    _READONLY: f"make the file and its folder writable, or set {DATABASE_VARIABLE} elsewhere",
    _CORRUPT: _NOT_OURS,
    _FULL: _FREE_SPACE,
    _NOTADB: _NOT_OURS,
}
# SQLSTATEs of PostgreSQL (appendix A of its manual), or the first characters of some.
_PASSING_STATES = ("08", "57P01", "57P02", "57P03", "40001", "40P01", "53300", "55P03")
_STATE_WAYS_OUT = {
    "28": f"check user and password in {DATABASE_VARIABLE}",
    "3D": "create it (createdb), or name another one in " + DATABASE_VARIABLE,
    "3F": "make that schema (CREATE SCHEMA) and GRANT its use to the user",
    "42501": "the user needs CREATE and write rights there; GRANT them, or name another user",
    "25006": "it only reads (a standby?); name the primary in " + DATABASE_VARIABLE,
    "53100": _FREE_SPACE,
}
# When a connection is refused, libpq passes on no SQLSTATE, only the server's words.
_REFUSALS = {
    "password authentication failed": "28",
    "no password supplied": "28",
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    'role "': "28",
    "does not exist": "3D",
    "permission denied for database": "42501",
}


def _trouble_of(error: SQLAlchemyError) -> tuple[str, str, bool]:
    """A database error's text in one line, what to do about it, and whether waiting may help."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    what = one_line(str(cause))
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int):
        primary = code & 0xFF
        return what, _SQLITE_WAYS_OUT.get(primary, _ELSEWHERE), primary in (_BUSY, _LOCKED)
    fatal = what.partition("FATAL:")[2]
    refusals = (state for sign, state in _REFUSALS.items() if sign in fatal)
    if state := getattr(cause, "sqlstate", None) or next(refusals, ""):
        passes = state.startswith(_PASSING_STATES)
        ways_out = (way for start, way in _STATE_WAYS_OUT.items() if state.startswith(start))
        return what, next(ways_out, _START_IT if passes else _ELSEWHERE), passes
    lost = isinstance(error, OperationalError) or bool(getattr(error, "connection_invalidated", False))
    return what, _START_IT if lost else _ELSEWHERE, lost
