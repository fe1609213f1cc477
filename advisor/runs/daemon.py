"""The daemon: gives each due time its row, and starts a process for each row.

One daemon at a time has the database's lock; others wait for it. What a daemon decides lies in the
database before it acts, and each run is a process of its own: killed at any moment, the next daemon
goes on from the rows.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from advisor.errors import DataError, UsageError
from advisor.runs.cron import CronLine, month_of, rows_for_due_times
from advisor.runs.processes import start_executor
from advisor.runs.schedules import is_sweep, works_elsewhere
from advisor.runs.sweeps.sweeping import sweep_runs_here
from advisor.store.locks import HeldLock
from advisor.store.records import Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process

POLL_SECONDS = 5.0
# So long a look waits for the database at most: who asks the daemon to end waits with it.
PATIENCE_SECONDS = 5.0
# A process that ends before it has its run in hand (no memory, an upgrade in its middle) is tried
# so often, after longer and longer pauses.
_MOST_STARTS = 3
_PAUSE_SECONDS = 60.0
_ENDING_SECONDS = 90.0
_GLANCE_SECONDS = 0.5
_WAITING_SECONDS = 1.0
# So long after this daemon got the lock, no run counts as lost.
_GRACE_SECONDS = 10.0

Say = Callable[[str], None]


Process = subprocess.Popen[bytes]
Start = Callable[[int], Process]


class Daemon:
    """One daemon of a database. `clock` has the seconds since 1970, `occupied` whether a sweep that
    no schedule started has this machine; `between` follows each look."""

    def __init__(
        self,
        book: ScheduleBook,
        *,
        start: Start = start_executor,
        clock: Callable[[], float] = time.time,
        say: Say = lambda _line: None,
        occupied: Callable[[], bool] = sweep_runs_here,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._book = book
        self._start = start
        self._clock = clock
        self._say = say
        self._occupied = occupied
        self._between = between
        self._owner = this_process()
        self._children: dict[int, Process] = {}
        self._starts: dict[int, int] = {}
        self._started_at: dict[int, float] = {}
        self._unknown: set[int] = set()
        self._waits_for_lock = False
        self._lock: HeldLock | None = None
        self._leads_since = 0.0

    def serve(self, stopping: threading.Event, poll_seconds: float = POLL_SECONDS) -> None:
        """Work until `stopping`; a database that is away is told once and waited for."""
        away = False
        while not stopping.is_set():
            try:
                self.tick()
            except DataError as error:
                if not away:
                    self._say(f"{error}; due times are made good when it is back")
                away = True
            else:
                if away:
                    self._say("the database is back")
                away = False
            self._between()
            self._rest(stopping, poll_seconds)

    def _rest(self, stopping: threading.Event, seconds: float) -> None:
        """Until it is time to look again, or a run has ended: another one may wait for it. One that
        waits for another daemon's end looks each second."""
        until = time.monotonic() + (_WAITING_SECONDS if self._waits_for_lock else seconds)
        while not stopping.wait(_GLANCE_SECONDS) and time.monotonic() < until:
            if any(child.poll() is not None for child in self._children.values()):
                return

    def tick(self) -> bool:
        """Settle what is due now; False where another daemon has the lock."""
        if self._book.reopen_replaced():
            self._say("another file lies where the database was; this daemon goes on with that")
        self._collect()
        if not self._has_lock():
            return False
        for schedule in self._book.all():
            self._settle(schedule)
        self._take_back_lost()
        self._start_due()
        return True

    def leave(self) -> list[int]:
        """End the runs in hand politely, and let another daemon lead. Returns their numbers."""
        ended = [number for number, child in self._children.items() if child.poll() is None]
        for number in ended:
            self._children[number].send_signal(signal.SIGTERM)
        for number in ended:
            with suppress(subprocess.TimeoutExpired):
                self._children[number].wait(_ENDING_SECONDS)
        if self._lock is not None:
            self._lock.release()
        self._lock = None
        return ended

    def _has_lock(self) -> bool:
        if self._lock is not None:
            if self._lock.is_held():
                return True
            self._lock.release()
            self._say("the database forgot this daemon's lock")
        self._lock = self._book.daemon.take(self._owner)
        if self._lock is not None:
            self._leads_since = self._clock()
            self._say("this daemon serves the schedules")
        elif not self._waits_for_lock:
            leader = self._book.daemon.current()
            who = f" on {leader.host} (process {leader.pid})" if leader else ""
            self._say(f"another daemon{who} serves the schedules; this one waits until it ends")
        self._waits_for_lock = self._lock is None
        return self._lock is not None

    def _settle(self, schedule: Schedule) -> None:
        """One whose time zone this machine does not know keeps none of the others back."""
        try:
            self._claim(schedule)
        except UsageError as error:
            if schedule.number not in self._unknown:
                self._say(f"{schedule.name} is not looked at: {error}")
            self._unknown.add(schedule.number)

    def _claim(self, schedule: Schedule) -> None:
        now = self._clock()
        due = CronLine(schedule.cron, schedule.timezone).after(_moment(schedule.considered_until))
        if due is None or due.timestamp() > now:
            return
        rows = rows_for_due_times(schedule, now, self._recent_runs(schedule, due.timestamp(), now))
        if not rows or not self._book.runs.claim(schedule.number, rows[-1].due_at, rows):
            return
        for row in rows:
            when = _moment(row.due_at).isoformat(timespec="minutes")
            state = "left out" if row.state is RunState.SKIPPED else "due"
            why = f": {row.note}" if row.note else ""
            self._say(f"{schedule.name}: the run of {when} is {state}{why}")

    def _recent_runs(self, schedule: Schedule, first_due: float, now: float) -> list[Run]:
        """The runs of every month that a decision is about, the latest ones, and any open one."""
        runs = self._book.runs
        first, _ = month_of(schedule.timezone, first_due)
        recent = {run.number: run for run in runs.of(schedule.number)}
        recent |= {run.number: run for run in runs.between(schedule.number, first, now)}
        recent |= {run.number: run for run in runs.open() if run.schedule == schedule.number}
        return list(recent.values())

    def _take_back_lost(self) -> None:
        """After a while: processes of runs take their locks again when a server was away."""
        if self._clock() - self._leads_since < _GRACE_SECONDS:
            return
        for run in self._book.runs.open():
            if run.state is not RunState.RUNNING or run.alive or self._has_child(run):
                continue
            state = self._book.runs.take_back(run, now=self._clock())
            if state is not None:
                goes_on = "is gone on with" if state is RunState.DUE else "is given up"
                self._say(f"run {run.number}: its process was lost; it {goes_on}")

    def _start_due(self) -> None:
        runs = self._book.runs.open()
        busy = any(run.state is RunState.RUNNING and self._is_here(run) for run in runs)
        busy = busy or any(self._is_here(run) for run in runs if self._has_child(run))
        for run in runs:
            if run.state is not RunState.DUE or self._has_child(run):
                continue
            here = self._is_here(run)
            if here and (busy or self._waits(run)):
                continue
            if self._started(run):
                busy = busy or here

    def _started(self, run: Run) -> bool:
        tries = self._starts.get(run.number, 0)
        if tries >= _MOST_STARTS:
            note = f"{tries} processes ended before they had it in hand; see the daemon's stderr"
            self._book.runs.give_up(run.number, note, now=self._clock())
            return False
        if self._clock() - self._started_at.get(run.number, 0.0) < tries * _PAUSE_SECONDS:
            return False
        self._started_at[run.number] = self._clock()
        self._starts[run.number] = tries + 1
        self._children[run.number] = self._start(run.number)
        return True

    def _is_here(self, run: Run) -> bool:
        """Whether it wants this machine for itself."""
        schedule = self._schedule_of(run)
        return schedule is not None and not works_elsewhere(schedule.command)

    def _waits(self, run: Run) -> bool:
        """A sweep waits for one that somebody runs on this machine by hand: it would be refused."""
        schedule = self._schedule_of(run)
        return schedule is not None and is_sweep(schedule.command) and self._occupied()

    def _schedule_of(self, run: Run) -> Schedule | None:
        return None if run.schedule is None else self._book.numbered(run.schedule)

    def _has_child(self, run: Run) -> bool:
        return run.number in self._children

    def _collect(self) -> None:
        ended = [number for number, child in self._children.items() if child.poll() is not None]
        for number in ended:
            del self._children[number]
            run = self._book.runs.numbered(number)
            if run is None or run.state is RunState.DUE:
                continue
            self._starts.pop(number, None)
            self._say(f"run {number}: {run.state.value}{': ' if run.note else ''}{run.note}")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
