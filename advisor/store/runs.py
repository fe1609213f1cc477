"""Runs in the database: one row for each due time and each started sweep, and one process for each row.

Rows are unique by schedule and due time, and one process turns `due` into `running`. That process holds the
run's lock until it ends. So no run is made or begun twice, whichever process is killed in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sql

from advisor.records import asdict
from advisor.store.database import Database
from advisor.store.dialects import insert_if_absent
from advisor.store.locks import HeldLock, Locks
from advisor.store.records import OPEN_STATES, Ending, NewRun, Run, RunState, record_of
from advisor.store.schema import RUNS as ROWS
from advisor.store.schema import SCHEDULES, lock_table
from advisor.sweeps.trial.ownership import Owner, columns_of

# A run whose processes were killed this often has failed.
MOST_ATTEMPTS = 3
_NO_PATIENCE = 0.0
_IS_OPEN = ROWS.c.state.in_([state.value for state in OPEN_STATES])


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
                insert_if_absent(connection, ROWS, {**asdict(row), "schedule": schedule, "attempts": 0})
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
            lock_table(connection, ROWS)
            open_rows = connection.execute(_query(ROWS.c.schedule.is_(None) & _IS_OPEN)).all()
            refuse([self._run_of(row) for row in open_rows])
            connection.execute(ROWS.insert().values(row))

        self._database.write(work)
        (run,) = self._runs(_query(ROWS.c.sweep_id == sweep_id))
        return run

    def begin(self, number: int, owner: Owner, *, log: str, now: float) -> HeldLock | None:
        """Set a due run to running, and return its lock; None when it is not due or another process's."""
        lock = self._locks.take(number)
        if lock is None:
            return None
        attempts, begun_at = ROWS.c.attempts + 1, sql.func.coalesce(ROWS.c.begun_at, now)
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
        noted = ROWS.update().where(_is_held(number, owner.name)).values(cost_usd=cost_usd)
        self._database.execute(noted, patience_seconds=_NO_PATIENCE)

    def note_stop(self, sweep_id: str, *, now: float) -> None:
        """Store that a sweep should stop; a second call changes nothing."""
        here = (ROWS.c.sweep_id == sweep_id) & ROWS.c.stop_at.is_(None) & _IS_OPEN
        self._database.execute(ROWS.update().where(here).values(stop_at=now))

    def end(self, number: int, owner: Owner, ending: Ending, *, now: float) -> bool:
        """Store how a run ended; False when another process has taken it over."""
        values = asdict(ending) | {"report": ending.report or None}
        moved = self._move(number, owner.name, ending.state, **values, ended_at=now)
        return moved or self._is_already(number, owner, ending.state)

    def hand_back(self, number: int, owner: Owner, note: str, cost_usd: float | None) -> None:
        """Make an interrupted run due again; the next leading daemon continues it."""
        attempts = ROWS.c.attempts - 1
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
        due = (ROWS.c.number == number) & (ROWS.c.state == RunState.DUE.value)
        here = due if held_by is None else _is_held(number, held_by)
        moved = ROWS.update().where(here).values({**values, "state": into.value})
        return self._database.execute(moved) == 1

    def _is_already(self, number: int, owner: Owner, state: RunState) -> bool:
        """Whether an earlier attempt moved the run there, and only the reply to its commit was lost."""
        run = self.numbered(number)
        return run is not None and (run.owner, run.state) == (owner.name, state)

    def forget(self, numbers: Sequence[int]) -> None:
        """Delete the rows of sweeps that have ended."""
        self._database.execute(ROWS.delete().where(ROWS.c.number.in_(list(numbers))))

    def open(self) -> list[Run]:
        """The due and running runs of schedules, by due time."""
        query = _query(_IS_OPEN & ROWS.c.schedule.is_not(None))
        return self._runs(query.order_by(ROWS.c.due_at, ROWS.c.number))

    def numbered(self, number: int) -> Run | None:
        """The run with that number; None if there is none."""
        return next(iter(self._runs(_query(ROWS.c.number == number))), None)

    def sweep(self, sweep_id: str) -> Run | None:
        """The started sweep with that id; None if there is none."""
        return next(iter(self._runs(_query(ROWS.c.sweep_id == sweep_id))), None)

    def sweeps(self) -> list[Run]:
        """All started sweeps, latest first."""
        return self._runs(_query(ROWS.c.sweep_id.is_not(None)).order_by(ROWS.c.number.desc()))

    def latest(self, schedule: int, most: int = 20) -> list[Run]:
        """The `most` latest runs of a schedule, latest first."""
        query = _query(ROWS.c.schedule == schedule).order_by(ROWS.c.due_at.desc())
        return self._runs(query.limit(most))

    def between(self, schedule: int, first: float, last: float) -> list[Run]:
        """The runs of a schedule with first <= due time < last."""
        here = (ROWS.c.schedule == schedule) & (ROWS.c.due_at >= first) & (ROWS.c.due_at < last)
        return self._runs(_query(here).order_by(ROWS.c.due_at))

    def _runs(self, query: sql.Select[Any]) -> list[Run]:
        runs = [self._run_of(row) for row in self._database.rows(query)]
        for index, run in enumerate(runs):
            if run.state is RunState.RUNNING and not run.alive:
                # Read the row again, since the lock was free: the run may have ended just then.
                rows = self._database.rows(_query(ROWS.c.number == run.number))
                runs[index] = self._run_of(rows[0]) if rows else run
        return runs

    def _run_of(self, row: Any) -> Run:
        is_running = row.state == RunState.RUNNING
        return record_of(Run, row, alive=is_running and self._locks.is_held(row.number))


def skip_due(connection: sql.Connection, schedule: int, note: str) -> None:
    """Mark a schedule's due runs as skipped, within the transaction that removes the schedule."""
    waits = (ROWS.c.schedule == schedule) & (ROWS.c.state == RunState.DUE.value)
    skipped = {"state": RunState.SKIPPED.value, "note": note}
    connection.execute(ROWS.update().where(waits).values(skipped))


def _is_held(number: int, owner_name: str) -> sql.ColumnElement[bool]:
    mine = (ROWS.c.number == number) & (ROWS.c.owner == owner_name)
    return mine & (ROWS.c.state == RunState.RUNNING.value)


def _query(which: sql.ColumnElement[bool]) -> sql.Select[Any]:
    return sql.select(ROWS).where(which)
