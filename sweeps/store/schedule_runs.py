"""Runs of schedules in the database: a row for each due time, and one process for each row.

A run is claimed by its row (unique by schedule and due time), which the leader writes; it is begun
by the process that turns `due` into `running`, which only one can. Neither can happen twice,
whoever is killed in between.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sql

from sweeps.store.database import Database
from sweeps.store.dialects import DatabaseSeconds, insert_unless_known
from sweeps.store.owners import Owner, columns_of, has_gone
from sweeps.store.schedule_leading import leads
from sweeps.store.schedule_words import OPEN_STATES, Ending, NewRun, Run, RunState
from sweeps.store.tables import SCHEDULE_RUNS as ROWS
from sweeps.store.tables import SCHEDULES

RUN_SECONDS = 120.0
# After so many processes that were lost (not ended) nobody tries a run again.
MOST_ATTEMPTS = 3
_NO_PATIENCE = 0.0
_LOST = "process {pid} on {host} was lost in the middle of it"


class Runs:
    """The `schedule_runs` table of a database."""

    def __init__(self, database: Database, seconds: float = RUN_SECONDS) -> None:
        self._database = database
        self._seconds = seconds

    def claim(self, fence: int, schedule: int, until: float, found: Sequence[NewRun]) -> bool:
        """Give these due times their rows, and count all up to `until` as considered: all of it
        or nothing. False when the leader of this fence leads no more, or the schedule has gone."""

        def work(connection: sql.Connection) -> bool:
            if not leads(connection, fence):
                return False
            kept = (SCHEDULES.c.number == schedule) & SCHEDULES.c.removed_at.is_(None)
            query = sql.select(SCHEDULES.c.considered_until).where(kept).with_for_update()
            before = connection.scalar(query)
            if before is None:
                return False
            if before >= until:  # kept by a commit whose answer was lost
                return True
            for run in found:
                insert_unless_known(connection, ROWS, _fresh_row(schedule, run))
            connection.execute(SCHEDULES.update().where(kept).values(considered_until=until))
            return True

        return self._database.write(work)

    def begin(self, number: int, owner: Owner, *, log: str, now: float) -> bool:
        """The owner has the run in hand from now on; False when it is not due (any more)."""

        def work(connection: sql.Connection) -> bool:
            row = connection.execute(
                _query(ROWS.c.number == number).with_for_update()
            ).one_or_none()
            if row is None:
                return False
            if row.state == RunState.RUNNING and row.owner == owner.name:
                return True  # kept by a commit whose answer was lost
            if row.state != RunState.DUE:
                return False
            values = {
                **columns_of(owner), "state": RunState.RUNNING.value, "log": log,
                "attempts": row.attempts + 1, "begun_at": row.begun_at or now,
                "expires_at": DatabaseSeconds() + self._seconds,
            }  # fmt: skip
            connection.execute(ROWS.update().where(ROWS.c.number == number).values(values))
            return True

        return self._database.write(work)

    def beat(self, number: int, owner: Owner, cost_usd: float | None) -> bool:
        """The owner lives, and the run has cost so much; False when the run is not its own any
        more. Does not wait for a database that is away."""
        values = {"expires_at": DatabaseSeconds() + self._seconds, "cost_usd": cost_usd}
        beaten = ROWS.update().where(_is_held(number, owner.name)).values(values)
        return self._database.write(
            lambda connection: connection.execute(beaten).rowcount == 1,
            patience_seconds=_NO_PATIENCE,
        )

    def end(self, number: int, owner: Owner, ending: Ending, *, now: float) -> bool:
        """The run came to its end; False when it is another one's meanwhile."""
        values = {
            "state": ending.state.value, "note": ending.note, "exit_code": ending.exit_code,
            "cost_usd": ending.cost_usd, "trials": ending.trials, "ended_at": now,
            "report": json.dumps(ending.report) if ending.report else None,
        }  # fmt: skip

        def work(connection: sql.Connection) -> bool:
            ended = ROWS.update().where(_is_held(number, owner.name)).values(values)
            if connection.execute(ended).rowcount == 1:
                return True
            mine = (ROWS.c.number == number) & (ROWS.c.owner == owner.name)
            state = connection.scalar(sql.select(ROWS.c.state).where(mine))
            return state == ending.state.value  # kept by a commit whose answer was lost

        return self._database.write(work)

    def hand_back(self, number: int, owner: Owner, note: str, cost_usd: float | None) -> None:
        """Ended politely in its middle: whoever leads next has it gone on with."""
        values = {
            "state": RunState.DUE.value, "owner": None, "note": note, "cost_usd": cost_usd,
            "attempts": ROWS.c.attempts - 1,
        }  # fmt: skip
        back = ROWS.update().where(_is_held(number, owner.name)).values(values)
        self._database.write(lambda connection: connection.execute(back))

    def take_back(self, fence: int, lost: Run, *, now: float) -> RunState | None:
        """A run whose process was lost becomes due again, or failed after `MOST_ATTEMPTS`. Returns
        which; None when the leader leads no more, or the run goes on after all."""
        over = lost.attempts >= MOST_ATTEMPTS
        state = RunState.FAILED if over else RunState.DUE
        values = {
            "state": state.value, "owner": None, "ended_at": now if over else None,
            "note": _LOST.format(pid=lost.pid, host=lost.host),
        }  # fmt: skip

        def work(connection: sql.Connection) -> RunState | None:
            if not leads(connection, fence):
                return None
            held = _is_held(lost.number, lost.owner)
            row = connection.execute(_query(held).with_for_update()).one_or_none()
            if row is None or _run_of(row).alive:
                return None
            connection.execute(ROWS.update().where(held).values(values))
            return state

        return self._database.write(work)

    def give_up(self, fence: int, number: int, note: str, *, now: float) -> bool:
        """A run that nobody could begin has failed; False when it began after all."""
        due = (ROWS.c.number == number) & (ROWS.c.state == RunState.DUE.value)
        values = {"state": RunState.FAILED.value, "note": note, "ended_at": now}

        def work(connection: sql.Connection) -> bool:
            given_up = ROWS.update().where(due).values(values)
            return leads(connection, fence) and connection.execute(given_up).rowcount == 1

        return self._database.write(work)

    def open(self) -> list[Run]:
        """What is due or running, the longest due first."""
        states = [state.value for state in OPEN_STATES]
        return self._found(_query(ROWS.c.state.in_(states)).order_by(ROWS.c.due_at, ROWS.c.number))

    def one(self, number: int) -> Run | None:
        """The run of that number."""
        result = self._found(_query(ROWS.c.number == number))
        return result[0] if result else None

    def of(self, schedule: int, most: int = 20) -> list[Run]:
        """The latest runs of a schedule, the latest first."""
        query = _query(ROWS.c.schedule == schedule).order_by(ROWS.c.due_at.desc())
        return self._found(query.limit(most))

    def between(self, schedule: int, first: float, last: float) -> list[Run]:
        """The runs of a schedule with first <= due time < last."""
        return self._found(
            _query(
                (ROWS.c.schedule == schedule) & (ROWS.c.due_at >= first) & (ROWS.c.due_at < last)
            ).order_by(ROWS.c.due_at)
        )

    def _found(self, query: sql.Select[Any]) -> list[Run]:
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return [_run_of(row) for row in rows]


def skip_due(connection: sql.Connection, schedule: int, note: str) -> None:
    """What waits for a process gets none, within the transaction that removes its schedule."""
    waits = (ROWS.c.schedule == schedule) & (ROWS.c.state == RunState.DUE.value)
    skipped = {"state": RunState.SKIPPED.value, "note": note}
    connection.execute(ROWS.update().where(waits).values(skipped))


def _fresh_row(schedule: int, new: NewRun) -> dict[str, Any]:
    return {
        "schedule": schedule,
        "due_at": new.due_at,
        "state": new.state.value,
        "note": new.note,
        "attempts": 0,
    }


def _is_held(number: int, owner_name: str) -> sql.ColumnElement[bool]:
    mine = (ROWS.c.number == number) & (ROWS.c.owner == owner_name)
    return mine & (ROWS.c.state == RunState.RUNNING.value)


def _query(which: sql.ColumnElement[bool]) -> sql.Select[Any]:
    left = (ROWS.c.expires_at - DatabaseSeconds()).label("left")
    return sql.select(ROWS, left).where(which)


def _run_of(row: Any) -> Run:
    lives = row.owner is not None and row.left is not None and row.left > 0
    alive = row.state == RunState.RUNNING and lives
    return Run(
        number=row.number,
        schedule=row.schedule,
        due_at=row.due_at,
        state=RunState(row.state),
        note=row.note,
        attempts=row.attempts,
        host=row.host or "",
        pid=row.pid,
        alive=alive and not has_gone(row.place, row.pid, row.started),
        owner=row.owner or "",
        begun_at=row.begun_at,
        ended_at=row.ended_at,
        exit_code=row.exit_code,
        cost_usd=row.cost_usd,
        trials=row.trials,
        log=row.log or "",
        report=json.loads(row.report) if row.report else {},
    )
