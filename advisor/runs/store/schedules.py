"""Schedules in SQLite or PostgreSQL, beside the measurements, through the same code.

`tests/contracts/test_schedules.py` holds both databases to what it promises.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sql

from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.records import asdict
from advisor.runs.store.daemon import DaemonLock
from advisor.runs.store.locks import Locks
from advisor.runs.store.records import Misfire, NewSchedule, Reporting, RunState, Schedule, record_of
from advisor.runs.store.runs import Runs, skip_due
from advisor.sweeps.store.database import READING_PATIENCE_SECONDS, WRITING_PATIENCE_SECONDS, Database
from advisor.sweeps.store.schema import has_tables, make_ready
from advisor.sweeps.store.sql_store import default_database_url
from advisor.sweeps.store.tables import RUNS
from advisor.sweeps.store.tables import SCHEDULES as ROWS


def open_schedules(
    url: str | None = None, *, reading: bool = False, patience_seconds: float | None = None
) -> ScheduleBook:
    """The schedules at `url` (default: where measurements are kept). `reading` changes nothing,
    and finds none where there are no tables, or older ones. A database that is away is waited for
    as long as for measurements, or for `patience_seconds`."""
    return ScheduleBook(url or default_database_url(), reading=reading, patience_seconds=patience_seconds)


class ScheduleBook:
    """The schedules of a database, all `runs`, and which `daemon` serves them."""

    def __init__(self, url: str, *, reading: bool = False, patience_seconds: float | None = None) -> None:
        usual = READING_PATIENCE_SECONDS if reading else WRITING_PATIENCE_SECONDS
        self._database = Database(url, usual if patience_seconds is None else patience_seconds)
        locks = Locks(self._database)
        self.daemon = DaemonLock(self._database, locks)
        self.runs = Runs(self._database, locks)
        try:
            if not reading:
                make_ready(self._database)
            self.is_ready = has_tables(self._database)
            self._file_id = self._database.file_id()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """What a message calls the database; never with its password."""
        return self._database.name

    def add(self, new: NewSchedule, *, now: float) -> Schedule:
        """Keep a schedule; what was due before `now` is no concern of its. The same one again is
        there already; `UsageError` where its name has another one."""

        def work(connection: sql.Connection) -> Schedule:
            _alone(connection)
            row = connection.execute(_named(new.name)).one_or_none()
            if row is None:
                connection.execute(ROWS.insert().values(_row_of(new, now)))
                return _schedule_of(connection.execute(_named(new.name)).one())
            schedule = _schedule_of(row)
            if _requested(schedule) != new:
                raise UsageError(
                    "there is a schedule '{name}' already",
                    name=new.name,
                    field="name",
                    hint=Message(
                        "`advisor schedule remove {name}` first, or give this one another --name",
                        name=new.name,
                    ),
                )
            return schedule

        return self._database.write(work)

    def all(self) -> list[Schedule]:
        """Every schedule, in the order in which they were added."""
        query = sql.select(ROWS).where(ROWS.c.removed_at.is_(None)).order_by(ROWS.c.number)
        return [_schedule_of(row) for row in self._rows(query)]

    def named(self, name: str) -> Schedule:
        """The schedule of that name; `UsageError` offers the nearest where there is none."""
        for row in self._rows(_named(name)):
            return _schedule_of(row)
        names = [schedule.name for schedule in self.all()]
        if not names:
            raise UsageError(
                "no schedule '{name}': none was added",
                name=name,
                field="name",
                hint="see `advisor schedule add --help`",
            )
        raise unknown_name("schedule", name, names, field="name")

    def numbered(self, number: int) -> Schedule | None:
        """The schedule of that number, one that was removed too."""
        rows = self._rows(sql.select(ROWS).where(ROWS.c.number == number))
        return _schedule_of(rows[0]) if rows else None

    def remove(self, name: str, *, now: float) -> Schedule:
        """End a schedule: nothing of it is begun any more. Its runs stay on record, and one that
        runs comes to its end. `UsageError` where there is none of that name."""
        schedule = self.named(name)

        def work(connection: sql.Connection) -> None:
            here = (ROWS.c.number == schedule.number) & ROWS.c.removed_at.is_(None)
            connection.execute(ROWS.update().where(here).values(removed_at=now))
            skip_due(connection, schedule.number, "its schedule was removed")

        self._database.write(work)
        return schedule

    def running(self, schedule: int) -> bool:
        """Whether a run of it has a process."""
        which = (RUNS.c.schedule == schedule) & (RUNS.c.state == RunState.RUNNING.value)
        return bool(self._rows(sql.select(RUNS.c.number).where(which)))

    def reopen_replaced(self) -> bool:
        """Whether the database's file was removed or replaced meanwhile: whoever is here for long
        goes on with the file of that name, which is made where there is none."""
        if self._database.file_id() == self._file_id:
            return False
        self._database.close()
        make_ready(self._database)
        self._file_id = self._database.file_id()
        return True

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def _rows(self, query: sql.Select[Any]) -> list[Any]:
        if not self.is_ready:
            return []
        return list(self._database.read(lambda connection: connection.execute(query).all()))


def _alone(connection: sql.Connection) -> None:
    """Two that add the same name at once do so one after the other; SQLite's writers do anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql.text("LOCK TABLE schedules IN SHARE ROW EXCLUSIVE MODE"))


def _named(name: str) -> sql.Select[Any]:
    return sql.select(ROWS).where((ROWS.c.name == name) & ROWS.c.removed_at.is_(None))


def _row_of(new: NewSchedule, now: float) -> dict[str, Any]:
    return {
        **asdict(new),
        "command": json.dumps(list(new.command)),
        "misfire": new.misfire.value,
        "reporting": json.dumps(asdict(new.reporting)) if new.reporting else None,
        "created_at": now,
        "considered_until": now,
    }


def _schedule_of(row: Any) -> Schedule:
    reporting = json.loads(row.reporting) if row.reporting else None
    return record_of(
        Schedule,
        row,
        command=tuple(json.loads(row.command)),
        misfire=Misfire(row.misfire),
        reporting=reporting and Reporting(**{**reporting, "send": tuple(reporting["send"])}),
    )


def _requested(schedule: Schedule) -> NewSchedule:
    """What a user asked for when it was added."""
    return NewSchedule(**{name: getattr(schedule, name) for name in NewSchedule.__struct_fields__})
