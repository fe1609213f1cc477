"""Schedules in the database that holds the measurements, SQLite or PostgreSQL.

`tests/contracts/test_schedules.py` runs the same tests on both."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sql

from advisor.errors import UsageError, unknown_name
from advisor.records import asdict
from advisor.store.locks import DAEMON, HeldLock, Locks
from advisor.store.records import Leader, NewSchedule, RunState, Schedule, record_of
from advisor.store.runs import Runs, skip_due
from advisor.store.schema import RUNS, SCHEDULE_LEADER, OpenTables, lock_table, make_ready
from advisor.store.schema import SCHEDULES as ROWS
from advisor.sweeps.trial.ownership import Owner, columns_of

_LEADER = "leader"


class ScheduleBook(OpenTables):
    """The schedules of a database, all `runs`, and the leading daemon."""

    def __init__(
        self, url: str | None = None, *, reading: bool = False, patience_seconds: float | None = None
    ) -> None:
        super().__init__(url, reading=reading, patience_seconds=patience_seconds)
        self._locks = Locks(self._database)
        self.runs = Runs(self._database, self._locks)

    def lead(self, owner: Owner) -> HeldLock | None:
        """Take the daemon lock, and store which process has it; None while another daemon has it."""
        lock = self._locks.take(DAEMON)
        if lock is None:
            return None

        def work(connection: sql.Connection) -> None:
            connection.execute(SCHEDULE_LEADER.delete())
            connection.execute(SCHEDULE_LEADER.insert().values(columns_of(owner) | {"name": _LEADER}))

        try:
            self._database.write(work)
        except BaseException:
            lock.release()
            raise
        return lock

    def leader(self) -> Leader | None:
        """The daemon that holds the lock now; None if none does."""
        if not self.is_ready or not self._locks.is_held(DAEMON):
            return None
        rows = self._database.rows(sql.select(SCHEDULE_LEADER).where(SCHEDULE_LEADER.c.name == _LEADER))
        return Leader(rows[0].host, rows[0].pid) if rows else None

    def add(self, new: NewSchedule, *, now: float) -> Schedule:
        """Store a schedule, with due times after `now` only. A second identical call returns the stored one;
        `UsageError` where a different schedule has the name."""

        def work(connection: sql.Connection) -> Schedule:
            lock_table(connection, ROWS)  # serialises two processes that add the same name
            row = connection.execute(_named(new.name)).one_or_none()
            if row is None:
                times = {"created_at": now, "considered_until": now}
                connection.execute(ROWS.insert().values(asdict(new) | times))
                return record_of(Schedule, connection.execute(_named(new.name)).one())
            schedule = record_of(Schedule, row)
            if _requested(schedule) != new:
                raise UsageError(
                    f"there is a schedule '{new.name}' already",
                    field="name",
                    hint=f"`advisor schedule remove {new.name}` first, or give this one another --name",
                )
            return schedule

        return self._database.write(work)

    def all(self) -> list[Schedule]:
        """All schedules, in the order in which they were added."""
        query = sql.select(ROWS).where(ROWS.c.removed_at.is_(None)).order_by(ROWS.c.number)
        return [record_of(Schedule, row) for row in self.rows(query)]

    def named(self, name: str) -> Schedule:
        """The schedule of that name; `UsageError` suggests the nearest name."""
        for row in self.rows(_named(name)):
            return record_of(Schedule, row)
        names = [schedule.name for schedule in self.all()]
        if not names:
            hint = "see `advisor schedule add --help`"
            raise UsageError(f"no schedule '{name}': none was added", field="name", hint=hint)
        raise unknown_name("schedule", name, names, field="name")

    def numbered(self, number: int) -> Schedule | None:
        """The schedule with that number, even a removed one; None if there is none."""
        rows = self.rows(sql.select(ROWS).where(ROWS.c.number == number))
        return record_of(Schedule, rows[0]) if rows else None

    def remove(self, name: str, *, now: float) -> Schedule:
        """Remove a schedule: no run of it begins any more. Its past runs are kept, and a running one may
        finish. `UsageError` for an unknown name."""
        schedule = self.named(name)

        def work(connection: sql.Connection) -> None:
            here = (ROWS.c.number == schedule.number) & ROWS.c.removed_at.is_(None)
            connection.execute(ROWS.update().where(here).values(removed_at=now))
            skip_due(connection, schedule.number, "its schedule was removed")

        self._database.write(work)
        return schedule

    def running(self, schedule: int) -> bool:
        """Whether a run of the schedule has the state `running`."""
        which = (RUNS.c.schedule == schedule) & (RUNS.c.state == RunState.RUNNING.value)
        return bool(self.rows(sql.select(RUNS.c.number).where(which)))

    def reopen_replaced(self) -> bool:
        """Whether the database file was removed or replaced; a missing file is then created again."""
        if not self._follow_file():
            return False
        make_ready(self._database)
        self._file_id = self._database.file_id()
        return True


def _named(name: str) -> sql.Select[Any]:
    return sql.select(ROWS).where((ROWS.c.name == name) & ROWS.c.removed_at.is_(None))


def _requested(schedule: Schedule) -> NewSchedule:
    return NewSchedule(**{name: getattr(schedule, name) for name in NewSchedule.__struct_fields__})
