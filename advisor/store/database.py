"""Transactions on a database, retried while it is locked or cannot be reached."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

import sqlalchemy as sql
from msgspec import Struct
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from advisor.errors import DataError, one_line
from advisor.store import DATABASE_VARIABLE
from advisor.store.dialects import WRITES, make_engine, name_of, parsed_url, server_identity, sqlite_file

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
        self.in_memory = self.engine.dialect.name == "sqlite" and self.file is None
        self._patience_seconds = patience_seconds
        # The one connection of a database in memory serves all threads, one at a time.
        self._lock: AbstractContextManager[object] = threading.RLock() if self.in_memory else nullcontext()

    def write(self, work: Work[Outcome], *, patience_seconds: float | None = None) -> Outcome:
        """Do the work in one transaction that may write: all of its changes are kept, or none."""
        return self._with_retries(lambda: self._transact(work, writes=True), patience_seconds)

    def read(self, work: Work[Outcome]) -> Outcome:
        """Do the work in one transaction that only reads, and so sees one consistent state."""
        return self._with_retries(lambda: self._transact(work, writes=False), None)

    def execute(self, statement: sql.UpdateBase, *, patience_seconds: float | None = None) -> int:
        """Execute one writing statement, and return how many rows it changed."""
        return self.write(
            lambda connection: connection.execute(statement).rowcount, patience_seconds=patience_seconds
        )

    def rows(self, query: sql.Select[Any]) -> list[Any]:
        """All rows of a query."""
        return self.read(lambda connection: list(connection.execute(query).all()))

    def file_id(self) -> tuple[int, int] | None:
        """Device and inode of the database file; None if there is no file, and for a server."""
        with suppress(OSError):
            if self.file:
                state = self.file.stat()
                return state.st_dev, state.st_ino
        return None

    def identity(self) -> str:
        """The file's full path, or the server's identifier; the name if the server has none."""
        if self.file:
            return str(self.file.resolve())
        if self.in_memory:
            return self.name
        try:
            return self.read(server_identity)
        except DataError:  # servers that only speak PostgreSQL's protocol have no identifier
            return self.name

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _transact(self, work: Work[Outcome], *, writes: bool) -> Outcome:
        with self._lock, self.engine.connect() as bare:
            connection = bare.execution_options(**{WRITES: writes})
            with connection.begin():
                return work(connection)

    def _with_retries(self, attempt: Callable[[], Outcome], seconds: float | None) -> Outcome:
        patience = self._patience_seconds if seconds is None else seconds
        begun, pause, reported = time.monotonic(), _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                outcome = attempt()
            except SQLAlchemyError as error:
                trouble = trouble_of(error)
                left = begun + patience - time.monotonic()
                if not trouble.passes or left <= 0:
                    raise DataError(
                        f"database '{self.name}': {trouble.what}", hint=trouble.way_out
                    ) from error
            else:
                if reported:
                    _LOG.warning("database '%s' is back", self.name)
                return outcome
            if not reported:
                reported = True
                _LOG.warning("database '%s': %s; waiting up to %.0f s", self.name, trouble.what, left)
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


class Trouble(Struct, frozen=True):
    """A database error: its text in one line, what to do about it, and whether waiting may help."""

    what: str
    way_out: str
    passes: bool


def trouble_of(error: SQLAlchemyError) -> Trouble:
    """What a database error means for the user."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    what = one_line(str(cause))
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int):
        primary = code & 0xFF
        return Trouble(what, _SQLITE_WAYS_OUT.get(primary, _ELSEWHERE), primary in (_BUSY, _LOCKED))
    state = getattr(cause, "sqlstate", None) or _refusal(what)
    if state:
        return Trouble(what, _way_out(state), state.startswith(_PASSING_STATES))
    lost = isinstance(error, OperationalError) or bool(getattr(error, "connection_invalidated", False))
    return Trouble(what, _START_IT if lost else _ELSEWHERE, lost)


def _refusal(what: str) -> str:
    fatal = what.partition("FATAL:")[2]
    return next((state for sign, state in _REFUSALS.items() if sign in fatal), "")


def _way_out(state: str) -> str:
    result = (way for start, way in _STATE_WAYS_OUT.items() if state.startswith(start))
    return next(result, _START_IT if state.startswith(_PASSING_STATES) else _ELSEWHERE)
