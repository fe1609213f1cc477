"""One leader among the daemons of a database: a lease with a fence.

The fence grows with every new leader. Whatever a leader decides is written in one transaction with
a look at the fence, so that a daemon that slept through the end of its lease decides nothing any
more (Kleppmann, "How to do distributed locking", 2016: a lease alone does not do).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql

from sweeps.store.database import Database
from sweeps.store.dialects import DatabaseSeconds, insert_unless_known
from sweeps.store.owners import Owner, columns_of, has_gone
from sweeps.store.schedule_words import Leader
from sweeps.store.tables import SCHEDULE_LEADER as ROWS

LEADER_SECONDS = 60.0
_NAME = "leader"
_NO_PATIENCE = 0.0


class Leadership:
    """Who leads, by the database's clock.

    A leader's lease ends when it resigns, when it is not renewed in time, and at once when its
    process on this very machine has gone.
    """

    def __init__(self, database: Database, seconds: float = LEADER_SECONDS) -> None:
        self._database = database
        self.seconds = seconds

    def take(self, owner: Owner) -> int | None:
        """The fence of this owner as the leader; None while somebody else leads."""
        return self._database.write(lambda connection: self._take(connection, owner))

    def renew(self, owner: Owner, fence: int) -> bool:
        """The lease counts from now; False when it is somebody else's. Does not wait for a
        database that is away: `DataError`, and the next beat comes soon."""
        renewed = (
            ROWS.update()
            .where(ROWS.c.owner == owner.name, ROWS.c.fence == fence)
            .values(expires_at=DatabaseSeconds() + self.seconds)
        )
        return self._database.write(
            lambda connection: connection.execute(renewed).rowcount == 1,
            patience_seconds=_NO_PATIENCE,
        )

    def resign(self, owner: Owner) -> None:
        """The next daemon need not wait."""
        over = ROWS.update().where(ROWS.c.owner == owner.name).values(expires_at=0.0)
        self._database.write(
            lambda connection: connection.execute(over), patience_seconds=_NO_PATIENCE
        )

    def current(self) -> Leader | None:
        """The daemon that leads now."""
        row = self._database.read(lambda connection: connection.execute(_query()).one_or_none())
        if row is None or not _is_in_force(row):
            return None
        return Leader(row.host, row.pid, row.fence, row.left)

    def _take(self, connection: sql.Connection, owner: Owner) -> int | None:
        first = {**columns_of(owner), "name": _NAME, "fence": 0, "expires_at": 0.0}
        insert_unless_known(connection, ROWS, first)
        row = connection.execute(_query().with_for_update()).one()
        if _is_in_force(row) and row.owner != owner.name:
            return None
        taken = {"fence": row.fence + 1, "expires_at": DatabaseSeconds() + self.seconds}
        connection.execute(ROWS.update().values({**columns_of(owner), **taken}))
        return int(row.fence) + 1


def leads(connection: sql.Connection, fence: int) -> bool:
    """Whether the leader of that fence still leads; nobody else can take over before the end of
    this transaction."""
    row = connection.execute(_query().with_for_update()).one_or_none()
    return row is not None and row.fence == fence and row.left > 0


def _query() -> sql.Select[Any]:
    left = (ROWS.c.expires_at - DatabaseSeconds()).label("left")
    return sql.select(ROWS, left).where(ROWS.c.name == _NAME)


def _is_in_force(row: Any) -> bool:
    return row.left > 0 and not has_gone(row.place, row.pid, row.started)
