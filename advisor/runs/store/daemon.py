"""One daemon at a time serves the schedules of a database: who has lock `DAEMON`."""

from __future__ import annotations

import sqlalchemy as sql

from advisor.runs.store.locks import DAEMON, HeldLock, Locks
from advisor.runs.store.records import Leader
from advisor.sweeps.store.database import Database
from advisor.sweeps.store.tables import SCHEDULE_LEADER as ROWS
from advisor.sweeps.trial.ownership import Owner, columns_of

_NAME = "leader"


class DaemonLock:
    """The daemon's lock, and a row that says which process had it last."""

    def __init__(self, database: Database, locks: Locks) -> None:
        self._database = database
        self._locks = locks

    def take(self, owner: Owner) -> HeldLock | None:
        """The lock; None while another daemon has it."""
        lock = self._locks.take(DAEMON)
        if lock is None:
            return None
        row = {**columns_of(owner), "name": _NAME}

        def work(connection: sql.Connection) -> None:
            connection.execute(ROWS.delete())
            connection.execute(ROWS.insert().values(row))

        try:
            self._database.write(work)
        except BaseException:
            lock.release()
            raise
        return lock

    def current(self) -> Leader | None:
        """The daemon that has the lock now."""
        if not self._locks.is_held(DAEMON):
            return None
        query = sql.select(ROWS.c.host, ROWS.c.pid).where(ROWS.c.name == _NAME)
        row = self._database.read(lambda connection: connection.execute(query).one_or_none())
        return Leader(row.host, row.pid) if row else None
