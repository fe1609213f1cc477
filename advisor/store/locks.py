"""Locks that are released when their process ends, even if killed; and leases of trials (`LeaseBook`).

PostgreSQL: an advisory lock of a session, which the server ends with the connection. SQLite: `flock` on a
file beside the database (for one in memory, in a temporary folder), which the kernel ends with the process.
Lock `DAEMON` is the daemon's; lock N is that of run number N."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import IO, Any
from weakref import finalize

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from advisor.errors import DataError
from advisor.files import system_errors
from advisor.store.database import Database, DatabaseSeconds, insert_if_absent
from advisor.store.schema import LEASES
from advisor.sweeps.measurement_store import Held
from advisor.sweeps.trial.ownership import Owner, columns_of, place, process_has_gone

LEASE_SECONDS = 120.0
_NO_PATIENCE = 0.0


class Leases:
    """The `leases` table of a database."""

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    def take(self, labels: Mapping[str, str], owner: Owner) -> set[str]:
        """See `LeaseBook`. Rows go in by trial id: in one order, two processes never deadlock."""
        held = columns_of(owner) | {"expires_at": DatabaseSeconds() + self._seconds}
        rows = [held | {"trial_id": name, "label": label} for name, label in sorted(labels.items())]
        return self._database.write(lambda connection: _take_leases(connection, rows)) if rows else set()

    def begin(self, trial_id: str, owner: Owner, label: str) -> None:
        begun = LEASES.update().where(_is_lease(trial_id, owner.name))
        with suppress(DataError):
            begun = begun.values(taken_at=DatabaseSeconds(), label=label)
            self._database.execute(begun, patience_seconds=_NO_PATIENCE)

    def renew(self, owner: Owner) -> None:
        """See `LeaseBook`; does not wait for a database that is away: the next renewal comes soon."""
        renewed = LEASES.update().where(LEASES.c.owner == owner.name)
        renewed = renewed.values(expires_at=DatabaseSeconds() + self._seconds)
        self._database.execute(renewed, patience_seconds=_NO_PATIENCE)

    def give_back(self, owner: Owner, trial_ids: Iterable[str] | None = None) -> None:
        """See `LeaseBook`. Without `trial_ids` (the driver ends) this does not wait for the database, since
        the leases then expire; a driver that continues must wait, or its leases would block others."""
        patience = _NO_PATIENCE if trial_ids is None else None
        ended = LEASES.delete().where(LEASES.c.owner == owner.name)
        if trial_ids is not None:
            ended = ended.where(LEASES.c.trial_id.in_(list(trial_ids)))
        self._database.execute(ended, patience_seconds=patience)

    def held(self) -> dict[str, Held]:
        held = {}
        for row in self._database.rows(_select_leases()):
            if _is_in_force(row):
                here, label = bool(row.place) and row.place == place(), row.label or ""
                driver = row.trial_id, row.host, row.pid, row.left, row.held
                held[row.trial_id] = Held(*driver, label, here=here)
        return held


def _take_leases(connection: sql.Connection, rows: Sequence[dict[str, Any]]) -> set[str]:
    there = _select_leases().where(LEASES.c.trial_id.in_([row["trial_id"] for row in rows]))
    existing = {lease.trial_id: lease for lease in connection.execute(there)}
    taken = set()
    for row in rows:
        if lease := existing.get(row["trial_id"]):
            if lease.owner != row["owner"] and _is_in_force(lease):
                continue
            # With the owner as a condition: another driver may be taking it over right now.
            end_lease(connection, lease.trial_id, lease.owner)
        if insert_if_absent(connection, LEASES, row):
            taken.add(row["trial_id"])
    return taken


def end_lease(connection: sql.Connection, trial_id: str, owner_name: str) -> bool:
    """End a lease within a transaction; False when that owner no longer has it."""
    return connection.execute(LEASES.delete().where(_is_lease(trial_id, owner_name))).rowcount == 1


def _is_lease(trial_id: str, owner_name: str) -> sql.ColumnElement[bool]:
    return (LEASES.c.trial_id == trial_id) & (LEASES.c.owner == owner_name)


def _select_leases() -> sql.Select[Any]:
    left = (LEASES.c.expires_at - DatabaseSeconds()).label("left")
    held = (DatabaseSeconds() - LEASES.c.taken_at).label("held")
    return sql.select(LEASES, left, held)


def _is_in_force(row: Any) -> bool:
    return row.left > 0 and not process_has_gone(row.place, row.pid, row.started)


DAEMON = 0
_NAMESPACE = 0x6164_7669  # "advi": no other program's advisory locks
# With these the server notices a lost client machine within 15 s, not within two hours.
_NOTICE_LOST_CLIENTS = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2"
)
_COUNT_HOLDERS = sql.text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = :space AND "
    "objid = :number AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
# `is_held` takes a file's lock for a moment, so one failed attempt to take it proves nothing.
_TRIES, _PAUSE_SECONDS = 5, 0.02


class HeldLock:
    """A lock that this process took; it may be lost later (`is_held`)."""

    def __init__(self, number: int, handle: IO[bytes] | sql.Connection, path: Path = Path()) -> None:
        self._number, self._handle, self._path = number, handle, path
        self._released = False

    def is_held(self) -> bool:
        """Return whether the lock is still held: False after a lost connection or a replaced file."""
        if isinstance(self._handle, sql.Connection):
            with suppress(SQLAlchemyError):
                self._handle.execute(sql.text("SELECT 1"))
                return True
            return False
        return not self._released and _is_file_at(self._handle, self._path)

    def release(self) -> None:
        """Let others take the lock; a second call changes nothing."""
        if self._released:
            return
        self._released = True
        if isinstance(self._handle, sql.Connection):
            with suppress(SQLAlchemyError):  # a lost session holds no lock any more
                self._handle.execute(sql.select(sql.func.pg_advisory_unlock(_NAMESPACE, self._number)))
            self._handle.invalidate()  # not back into the pool
        elif _is_file_at(self._handle, self._path):
            with suppress(OSError):
                self._path.unlink()
        self._handle.close()


class Locks:
    """The locks of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._folder: Path | None = None  # None: a server, which needs no lock files
        if database.file is not None:
            self._folder = database.file.with_name(f"{database.file.name}.locks")
        elif database.in_memory:
            self._folder = Path(mkdtemp(prefix="advisor-locks-"))
            finalize(self, rmtree, self._folder, ignore_errors=True)

    def take(self, number: int) -> HeldLock | None:
        """Take a lock; None while any process has it, even this one. `DataError` if the database fails."""
        return self._server_lock(number) if self._folder is None else self._file_lock(number)

    def is_held(self, number: int) -> bool:
        """Return whether any process has the lock now."""
        if self._folder is None:
            values = {"space": _NAMESPACE, "number": number}
            return bool(self._database.view(lambda connection: connection.scalar(_COUNT_HOLDERS, values)))
        try:
            with self._path(number).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / ("daemon" if number == DAEMON else f"{number}")

    def _server_lock(self, number: int) -> HeldLock | None:
        """An advisory lock on a separate connection, outside of transactions."""
        connection = None
        try:
            engine = self._database.engine.execution_options(isolation_level="AUTOCOMMIT")
            connection = engine.connect()
            connection.execute(sql.text(_NOTICE_LOST_CLIENTS))
            query = sql.select(sql.func.pg_try_advisory_lock(_NAMESPACE, number))
            if connection.scalar(query):
                return HeldLock(number, connection)
        except SQLAlchemyError as error:
            if connection is not None:
                connection.invalidate()
            raise DataError(f"database '{self._database.name}' gives no lock") from error
        connection.close()
        return None

    def _file_lock(self, number: int) -> HeldLock | None:
        path = self._path(number)
        for _ in range(_TRIES):
            with system_errors(DataError, f"cannot write '{path}'"):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = path.open("ab")
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file_at(file, path):
                    return HeldLock(number, file, path)
            file.close()
            time.sleep(_PAUSE_SECONDS)
        return None


def _is_file_at(file: IO[bytes], path: Path) -> bool:
    """Return whether the open file is still the one at `path`; its last holder may have removed that."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False
