"""Schedules and runs in the database that holds the measurements, SQLite or PostgreSQL.

A run is one row for each due time and each started sweep, with one process for each row. Rows are unique by
schedule and due time, and one process turns `due` into `running`. That process holds the run's lock until it
ends. So no run is made or begun twice, whichever process is killed in between.
`tests/contracts/test_schedules.py` runs the same tests on both databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sql

from advisor.errors import UsageError, unknown_name
from advisor.records import asdict
from advisor.store.database import Database, insert_if_absent
from advisor.store.locks import DAEMON, HeldLock, Locks
from advisor.store.records import (
    OPEN_STATES,
    Ending,
    Leader,
    NewRun,
    NewSchedule,
    Run,
    RunState,
    Schedule,
    record_of,
)
from advisor.store.schema import RUNS, SCHEDULE_LEADER, SCHEDULES, OpenTables, lock_table, make_ready
from advisor.sweeps.trial.ownership import Owner, columns_of

# A run whose processes were killed this often has failed.
MOST_ATTEMPTS = 3
_NO_PATIENCE = 0.0
_IS_OPEN = RUNS.c.state.in_([state.value for state in OPEN_STATES])


class Runs:
    """The `schedule_runs` table of a database, and the locks of its processes."""

    def __init__(self, database: Database, locks: Locks) -> None:
        self._database = database
        self._locks = locks

    def claim(self, schedule: int, until: float, rows: Sequence[NewRun]) -> bool:
        """Insert rows for due times and mark all up to `until` as seen; False if the schedule was removed."""

        def work(connection: sql.Connection) -> bool:
            kept = (SCHEDULES.c.number == schedule) & SCHEDULES.c.removed_at.is_(None)
            query = sql.select(SCHEDULES.c.considered_until).where(kept).with_for_update()
            before = connection.scalar(query)
            if before is None:
                return False
            if before >= until:  # stored by an earlier attempt that lost its connection, or by another daemon
                return True
            for row in rows:
                insert_if_absent(connection, RUNS, {**asdict(row), "schedule": schedule, "attempts": 0})
            connection.execute(SCHEDULES.update().where(kept).values(considered_until=until))
            return True

        return self._database.write(work)

    def start(
        self,
        sweep_id: str,
        request: Mapping[str, Any],
        owner: Owner,
        *,
        now: float,
        log: str,
        refuse: Callable[[Sequence[Run]], None],
    ) -> Run:
        """Insert a row for a sweep that is due now. `refuse` gets the open started sweeps and raises where
        one of them forbids this one; the table is locked meanwhile, so no other sweep starts."""
        row = {
            "sweep_id": sweep_id,
            "request": dict(request),
            "due_at": now,
            "note": "",
            "state": RunState.DUE.value,
            "attempts": 0,
            "log": log,
            "host": owner.host,
            "place": owner.place,
        }

        def work(connection: sql.Connection) -> None:
            lock_table(connection, RUNS)
            open_rows = connection.execute(_query(RUNS.c.schedule.is_(None) & _IS_OPEN)).all()
            refuse([self._run_of(row) for row in open_rows])
            connection.execute(RUNS.insert().values(row))

        self._database.write(work)
        (run,) = self._runs(_query(RUNS.c.sweep_id == sweep_id))
        return run

    def begin(self, number: int, owner: Owner, *, log: str, now: float) -> HeldLock | None:
        """Set a due run to running, and return its lock; None when it is not due or another process's."""
        lock = self._locks.take(number)
        if lock is None:
            return None
        attempts, begun_at = RUNS.c.attempts + 1, sql.func.coalesce(RUNS.c.begun_at, now)
        values = {**columns_of(owner), "log": log, "attempts": attempts, "begun_at": begun_at}
        begun = False
        try:
            begun = self._move(number, None, RunState.RUNNING, **values)
            begun = begun or self._is_already(number, owner, RunState.RUNNING)
        finally:
            if not begun:
                lock.release()
        return lock if begun else None

    def hold_again(self, number: int) -> HeldLock | None:
        """Take the lock of a running run again after its connection was lost; None while it is held."""
        return self._locks.take(number)

    def note_cost(self, number: int, owner: Owner, cost_usd: float | None) -> None:
        """Store the cost of a run so far; does not wait for a database that is away."""
        noted = RUNS.update().where(_is_held(number, owner.name)).values(cost_usd=cost_usd)
        self._database.execute(noted, patience_seconds=_NO_PATIENCE)

    def note_stop(self, sweep_id: str, *, now: float) -> None:
        """Store that a sweep should stop; a second call changes nothing."""
        here = (RUNS.c.sweep_id == sweep_id) & RUNS.c.stop_at.is_(None) & _IS_OPEN
        self._database.execute(RUNS.update().where(here).values(stop_at=now))

    def end(self, number: int, owner: Owner, ending: Ending, *, now: float) -> bool:
        """Store how a run ended; False when another process has taken it over."""
        values = asdict(ending) | {"report": ending.report or None}
        moved = self._move(number, owner.name, ending.state, **values, ended_at=now)
        return moved or self._is_already(number, owner, ending.state)

    def hand_back(self, number: int, owner: Owner, note: str, cost_usd: float | None) -> None:
        """Make an interrupted run due again; the next leading daemon continues it."""
        attempts = RUNS.c.attempts - 1
        values = {"owner": None, "note": note, "cost_usd": cost_usd, "attempts": attempts}
        self._move(number, owner.name, RunState.DUE, **values)

    def take_back(self, lost: Run, *, now: float) -> RunState | None:
        """Make a run whose process died due again, or failed after `MOST_ATTEMPTS`; None if it runs."""
        over = lost.attempts >= MOST_ATTEMPTS
        state = RunState.FAILED if over else RunState.DUE
        note = f"process {lost.pid} on {lost.host} was lost in the middle of it"
        lock = self._locks.take(lost.number)
        if lock is None:
            return None
        values = {"owner": None, "ended_at": now if over else None, "note": note}
        try:
            return state if self._move(lost.number, lost.owner, state, **values) else None
        finally:
            lock.release()

    def give_up(self, number: int, note: str, *, now: float) -> bool:
        """Mark a run that no process could begin as failed; False when it began after all."""
        return self._move(number, None, RunState.FAILED, note=note, ended_at=now)

    def _move(self, number: int, held_by: str | None, into: RunState, **values: Any) -> bool:
        """Move a run to another state; False unless this owner runs it (None: unless it is due)."""
        due = (RUNS.c.number == number) & (RUNS.c.state == RunState.DUE.value)
        here = due if held_by is None else _is_held(number, held_by)
        moved = RUNS.update().where(here).values({**values, "state": into.value})
        return self._database.execute(moved) == 1

    def _is_already(self, number: int, owner: Owner, state: RunState) -> bool:
        """Return whether an earlier attempt moved the run there and the reply to its commit was lost."""
        run = self.numbered(number)
        return run is not None and (run.owner, run.state) == (owner.name, state)

    def forget(self, numbers: Sequence[int]) -> None:
        """Delete the rows of sweeps that have ended."""
        self._database.execute(RUNS.delete().where(RUNS.c.number.in_(list(numbers))))

    def open(self) -> list[Run]:
        """The due and running runs of schedules, by due time."""
        query = _query(_IS_OPEN & RUNS.c.schedule.is_not(None))
        return self._runs(query.order_by(RUNS.c.due_at, RUNS.c.number))

    def numbered(self, number: int) -> Run | None:
        """The run with that number; None if there is none."""
        return next(iter(self._runs(_query(RUNS.c.number == number))), None)

    def sweep(self, sweep_id: str) -> Run | None:
        """The started sweep with that id; None if there is none."""
        return next(iter(self._runs(_query(RUNS.c.sweep_id == sweep_id))), None)

    def sweeps(self) -> list[Run]:
        """All started sweeps, latest first."""
        return self._runs(_query(RUNS.c.sweep_id.is_not(None)).order_by(RUNS.c.number.desc()))

    def latest(self, schedule: int, most: int = 20) -> list[Run]:
        """The `most` latest runs of a schedule, latest first."""
        return self._runs(_query(RUNS.c.schedule == schedule).order_by(RUNS.c.due_at.desc()).limit(most))

    def between(self, schedule: int, first: float, last: float) -> list[Run]:
        """The runs of a schedule with first <= due time < last."""
        here = (RUNS.c.schedule == schedule) & (RUNS.c.due_at >= first) & (RUNS.c.due_at < last)
        return self._runs(_query(here).order_by(RUNS.c.due_at))

    def _runs(self, query: sql.Select[Any]) -> list[Run]:
        runs = [self._run_of(row) for row in self._database.rows(query)]
        for index, run in enumerate(runs):
            if run.state is RunState.RUNNING and not run.alive:
                # Read the row again, since the lock was free: the run may have ended just then.
                rows = self._database.rows(_query(RUNS.c.number == run.number))
                runs[index] = self._run_of(rows[0]) if rows else run
        return runs

    def _run_of(self, row: Any) -> Run:
        is_running = row.state == RunState.RUNNING
        return record_of(Run, row, alive=is_running and self._locks.is_held(row.number))


def _is_held(number: int, owner_name: str) -> sql.ColumnElement[bool]:
    return (RUNS.c.number == number) & (RUNS.c.owner == owner_name) & (RUNS.c.state == RunState.RUNNING.value)


def _query(which: sql.ColumnElement[bool]) -> sql.Select[Any]:
    return sql.select(RUNS).where(which)


_LEADER = "leader"


class ScheduleBook(OpenTables):
    """The schedules of a database, all `runs`, and the leading daemon."""

    def __init__(
        self, url: str | None = None, *, reading: bool = False, patience_seconds: float | None = None
    ) -> None:
        super().__init__(url, reading=reading, patience_seconds=patience_seconds)
        self._locks = Locks(self)
        self.runs = Runs(self, self._locks)

    def lead(self, owner: Owner) -> HeldLock | None:
        """Take the daemon lock, and store which process has it; None while another daemon has it."""
        lock = self._locks.take(DAEMON)
        if lock is None:
            return None

        def work(connection: sql.Connection) -> None:
            connection.execute(SCHEDULE_LEADER.delete())
            connection.execute(SCHEDULE_LEADER.insert().values(columns_of(owner) | {"name": _LEADER}))

        try:
            self.write(work)
        except BaseException:
            lock.release()
            raise
        return lock

    def leader(self) -> Leader | None:
        """The daemon that holds the lock now; None if none does."""
        if not self._locks.is_held(DAEMON):
            return None
        rows = self.rows(sql.select(SCHEDULE_LEADER).where(SCHEDULE_LEADER.c.name == _LEADER))
        return Leader(rows[0].host, rows[0].pid) if rows else None

    def add(self, new: NewSchedule, *, now: float) -> Schedule:
        """Store a schedule, with due times after `now` only. A second identical call returns the stored one;
        `UsageError` where a different schedule has the name."""

        def work(connection: sql.Connection) -> Schedule:
            lock_table(connection, SCHEDULES)  # serialises two processes that add the same name
            row = connection.execute(_named(new.name)).one_or_none()
            if row is None:
                times = {"created_at": now, "considered_until": now}
                connection.execute(SCHEDULES.insert().values(asdict(new) | times))
                return record_of(Schedule, connection.execute(_named(new.name)).one())
            schedule = record_of(Schedule, row)
            if any(getattr(schedule, name) != getattr(new, name) for name in NewSchedule.__struct_fields__):
                raise UsageError(
                    f"there is a schedule '{new.name}' already",
                    field="name",
                    hint=f"`advisor schedule remove {new.name}` first, or give this one another --name",
                )
            return schedule

        return self.write(work)

    def all(self) -> list[Schedule]:
        """All schedules, in the order in which they were added."""
        query = sql.select(SCHEDULES).where(SCHEDULES.c.removed_at.is_(None)).order_by(SCHEDULES.c.number)
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
        rows = self.rows(sql.select(SCHEDULES).where(SCHEDULES.c.number == number))
        return record_of(Schedule, rows[0]) if rows else None

    def remove(self, name: str, *, now: float) -> Schedule:
        """Remove a schedule: no run of it begins any more. Its past runs are kept, and a running one may
        finish. `UsageError` for an unknown name."""
        schedule = self.named(name)

        def work(connection: sql.Connection) -> None:
            here = (SCHEDULES.c.number == schedule.number) & SCHEDULES.c.removed_at.is_(None)
            connection.execute(SCHEDULES.update().where(here).values(removed_at=now))
            waits = (RUNS.c.schedule == schedule.number) & (RUNS.c.state == RunState.DUE.value)
            skipped = {"state": RunState.SKIPPED.value, "note": "its schedule was removed"}
            connection.execute(RUNS.update().where(waits).values(skipped))

        self.write(work)
        return schedule

    def running(self, schedule: int) -> bool:
        """True if a run of the schedule has the state `running`."""
        which = (RUNS.c.schedule == schedule) & (RUNS.c.state == RunState.RUNNING.value)
        return bool(self.rows(sql.select(RUNS.c.number).where(which)))

    def reopen_replaced(self) -> bool:
        """True if the database file was removed or replaced; a missing file is then created again."""
        if not self._follow_file():
            return False
        make_ready(self)
        self._file_id = self.file_id()
        return True


def _named(name: str) -> sql.Select[Any]:
    return sql.select(SCHEDULES).where((SCHEDULES.c.name == name) & SCHEDULES.c.removed_at.is_(None))
