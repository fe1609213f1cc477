"""What goes wrong with a database: whether waiting helps, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from advisor.errors import one_line
from sweeps.store.dialects import DATABASE_VARIABLE

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
# SQLSTATEs of PostgreSQL (appendix A of its manual), or what an SQLSTATE begins with.
_PASSING_STATES = ("08", "57P01", "57P02", "57P03", "40001", "40P01", "53300", "55P03")
_STATE_WAYS_OUT = {
    "28": f"check user and password in {DATABASE_VARIABLE}",
    "3D": "create it (createdb), or name another one in " + DATABASE_VARIABLE,
    "3F": "make that schema (CREATE SCHEMA) and GRANT its use to the user",
    "42501": "the user needs CREATE and write rights there; GRANT them, or name another user",
    "25006": "it only reads (a standby?); name the primary in " + DATABASE_VARIABLE,
    "53100": _FREE_SPACE,
}
# Where a connection is refused, libpq has no SQLSTATE and only the server's words.
_REFUSALS = {
    "password authentication failed": "28",
    "no password supplied": "28",
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    'role "': "28",
    "does not exist": "3D",
    "permission denied for database": "42501",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What happened, in one line; what to do; and whether it may pass by itself."""

    what: str
    way_out: str
    passes: bool


def trouble_of(error: SQLAlchemyError) -> Trouble:
    """What an error of the database means."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    what = one_line(str(cause))
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int):
        primary = code & 0xFF
        return Trouble(what, _SQLITE_WAYS_OUT.get(primary, _ELSEWHERE), primary in (_BUSY, _LOCKED))
    state = getattr(cause, "sqlstate", None) or _refusal(what)
    if state:
        return Trouble(what, _way_out(state), state.startswith(_PASSING_STATES))
    lost = isinstance(error, OperationalError) or _is_lost(error)
    return Trouble(what, _START_IT if lost else _ELSEWHERE, lost)


def _is_lost(error: SQLAlchemyError) -> bool:
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _refusal(what: str) -> str:
    fatal = what.partition("FATAL:")[2]
    return next((state for words, state in _REFUSALS.items() if words in fatal), "")


def _way_out(state: str) -> str:
    result = (way for start, way in _STATE_WAYS_OUT.items() if state.startswith(start))
    return next(result, _START_IT if state.startswith(_PASSING_STATES) else _ELSEWHERE)
