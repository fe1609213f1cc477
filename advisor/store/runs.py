"""Runs in the database: a row for each due time and each started sweep, one process for each row.

A due time has one row (unique by schedule and due time), and one process turns `due` into `running`. That
process holds the run's lock until it ends: neither can happen twice, whoever is killed in between."""

from __future__ import annotations

import json
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

# After so many processes that were lost (not ended) nobody tries a run again.
MOST_ATTEMPTS = 3
_NO_PATIENCE = 0.0
_IS_OPEN = ROWS.c.state.in_([state.value for state in OPEN_STATES])


class Runs:
    """The `schedule_runs` table of a database, and the locks of its processes."""

    def __init__(self, database: Database, locks: Locks) -> None:
        self._database = database
        self._locks = locks

    def claim(self, schedule: int, until: float, rows: Sequence[NewRun]) -> bool:
        """Gives due times rows and marks all up to `until` as seen, atomically; False if it is gone."""

        def work(connection: sql.Connection) -> bool:
            kept = (SCHEDULES.c.number == schedule) & SCHEDULES.c.removed_at.is_(None)
            query = sql.select(SCHEDULES.c.considered_until).where(kept).with_for_update()
            before = connection.scalar(query)
            if before is None:
                return False
            if before >= until:  # kept by a commit whose answer was lost, or by another daemon
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
        """A row for a sweep that is due now. `refuse` raises where one of the open started sweeps keeps it
        from starting; nobody else starts one meanwhile."""
        row = {
            "sweep_id": sweep_id,
            "request": json.dumps(dict(request)),
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
        """The run's lock, held by its owner until released; None when it is not due."""
        lock = self._locks.take(number)
        if lock is None:
            return None
        attempts, begun_at = ROWS.c.attempts + 1, sql.func.coalesce(ROWS.c.begun_at, now)
        values = {**columns_of(owner), "log": log, "attempts": attempts, "begun_at": begun_at}
        begun = False
        try:
            begun = self._moved(number, None, RunState.RUNNING, **values)
            begun = begun or self._stands(number, owner, RunState.RUNNING)
        finally:
            if not begun:
                lock.release()
        return lock if begun else None

    def hold_again(self, number: int) -> HeldLock | None:
        """The lock of a run in hand, after its connection was lost; None while somebody has it."""
        return self._locks.take(number)

    def note_cost(self, number: int, owner: Owner, cost_usd: float | None) -> None:
        """Note the cost of a run so far. Does not wait for a database that is away."""
        noted = ROWS.update().where(_is_held(number, owner.name)).values(cost_usd=cost_usd)
        self._database.execute(noted, patience_seconds=_NO_PATIENCE)

    def note_stop(self, sweep_id: str, *, now: float) -> None:
        """Somebody wants this sweep to end; again, it changes nothing."""
        here = (ROWS.c.sweep_id == sweep_id) & ROWS.c.stop_at.is_(None) & _IS_OPEN
        self._database.execute(ROWS.update().where(here).values(stop_at=now))

    def end(self, number: int, owner: Owner, ending: Ending, *, now: float) -> bool:
        """The run came to its end; False when it is another one's meanwhile."""
        values = asdict(ending) | {"report": json.dumps(ending.report) if ending.report else None}
        moved = self._moved(number, owner.name, ending.state, **values, ended_at=now)
        return moved or self._stands(number, owner, ending.state)

    def hand_back(self, number: int, owner: Owner, note: str, cost_usd: float | None) -> None:
        """Ended politely in its middle: whoever leads next has it gone on with."""
        attempts = ROWS.c.attempts - 1
        values = {"owner": None, "note": note, "cost_usd": cost_usd, "attempts": attempts}
        self._moved(number, owner.name, RunState.DUE, **values)

    def take_back(self, lost: Run, *, now: float) -> RunState | None:
        """Makes a lost run due again, or failed after `MOST_ATTEMPTS`; None when it still runs."""
        over = lost.attempts >= MOST_ATTEMPTS
        state = RunState.FAILED if over else RunState.DUE
        note = f"process {lost.pid} on {lost.host} was lost in the middle of it"
        lock = self._locks.take(lost.number)
        if lock is None:
            return None
        values = {"owner": None, "ended_at": now if over else None, "note": note}
        try:
            return state if self._moved(lost.number, lost.owner, state, **values) else None
        finally:
            lock.release()

    def give_up(self, number: int, note: str, *, now: float) -> bool:
        """A run that nobody could begin has failed; False when it began after all."""
        return self._moved(number, None, RunState.FAILED, note=note, ended_at=now)

    def _moved(self, number: int, held_by: str | None, into: RunState, **values: Any) -> bool:
        """Moves a run that this owner has in hand, or a due one that nobody has (None), into another state;
        False where it is not so any more."""
        due = (ROWS.c.number == number) & (ROWS.c.state == RunState.DUE.value)
        here = due if held_by is None else _is_held(number, held_by)
        moved = ROWS.update().where(here).values({**values, "state": into.value})
        return self._database.execute(moved) == 1

    def _stands(self, number: int, owner: Owner, state: RunState) -> bool:
        """Whether it is so already, by a commit whose answer was lost."""
        run = self.numbered(number)
        return run is not None and (run.owner, run.state) == (owner.name, state)

    def forget(self, numbers: Sequence[int]) -> None:
        """Remove these rows, of sweeps that have ended."""
        self._database.execute(ROWS.delete().where(ROWS.c.number.in_(list(numbers))))

    def open(self) -> list[Run]:
        """The due and running runs of schedules, the longest due first."""
        query = _query(_IS_OPEN & ROWS.c.schedule.is_not(None))
        return self._runs(query.order_by(ROWS.c.due_at, ROWS.c.number))

    def numbered(self, number: int) -> Run | None:
        """The run of that number."""
        return next(iter(self._runs(_query(ROWS.c.number == number))), None)

    def sweep(self, sweep_id: str) -> Run | None:
        """The started sweep of that id."""
        return next(iter(self._runs(_query(ROWS.c.sweep_id == sweep_id))), None)

    def sweeps(self) -> list[Run]:
        """All started sweeps, the latest first."""
        return self._runs(_query(ROWS.c.sweep_id.is_not(None)).order_by(ROWS.c.number.desc()))

    def of(self, schedule: int, most: int = 20) -> list[Run]:
        """The latest runs of a schedule, the latest first."""
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
                # Looked at again, since its lock was free: it may have ended just then.
                rows = self._database.rows(_query(ROWS.c.number == run.number))
                runs[index] = self._run_of(rows[0]) if rows else run
        return runs

    def _run_of(self, row: Any) -> Run:
        return record_of(
            Run,
            row,
            schedule=row.schedule,
            state=RunState(row.state),
            alive=row.state == RunState.RUNNING and self._locks.is_held(row.number),
            report=json.loads(row.report or "{}"),
            request=json.loads(row.request or "{}"),
        )


def skip_due(connection: sql.Connection, schedule: int, note: str) -> None:
    """Skip what waits for a process, within the transaction that removes its schedule."""
    waits = (ROWS.c.schedule == schedule) & (ROWS.c.state == RunState.DUE.value)
    skipped = {"state": RunState.SKIPPED.value, "note": note}
    connection.execute(ROWS.update().where(waits).values(skipped))


def _is_held(number: int, owner_name: str) -> sql.ColumnElement[bool]:
    mine = (ROWS.c.number == number) & (ROWS.c.owner == owner_name)
    return mine & (ROWS.c.state == RunState.RUNNING.value)


def _query(which: sql.ColumnElement[bool]) -> sql.Select[Any]:
    return sql.select(ROWS).where(which)
