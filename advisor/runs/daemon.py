"""The daemon: inserts a row for each due time, and starts a process for each row.

One daemon at a time has the database's lock; others wait for it. A daemon stores each decision before it
acts, and each run is a separate process. So a daemon may be killed at any moment: the next one continues
from the rows."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct, field

from advisor.errors import DataError, UsageError
from advisor.runs.processes import start_executor
from advisor.runs.schedules import CronLine, is_remote_sweep, is_sweep, reason_unpaid, rows_for_due_times
from advisor.runs.sweeps.sweeping import sweep_runs_here
from advisor.store.locks import HeldLock
from advisor.store.records import Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import Owner, this_process

POLL_SECONDS = 5.0
# Longest wait for the database in one `tick`; a signal to end is answered only after that.
PATIENCE_SECONDS = 5.0
# A process may end before it takes its run (no memory, an upgrade). It is then started again up to this
# often, after growing pauses.
_MOST_STARTS = 3
_PAUSE_SECONDS = 60.0
_ENDING_SECONDS = 90.0
_GLANCE_SECONDS = 0.5
_WAITING_SECONDS = 1.0
# After this daemon got the lock, no run counts as lost for this time (see `_take_back_lost`).
_GRACE_SECONDS = 10.0

Process = subprocess.Popen[bytes]


class Daemon(Struct):
    """The daemon of a database. `occupied` returns whether a sweep started by hand runs on this machine."""

    book: ScheduleBook
    start: Callable[[int], Process] = start_executor
    clock: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _line: None
    occupied: Callable[[], bool] = sweep_runs_here
    _owner: Owner = field(default_factory=this_process)
    _children: dict[int, Process] = field(default_factory=dict)
    _starts: dict[int, int] = field(default_factory=dict)
    _started_at: dict[int, float] = field(default_factory=dict)
    _unknown: set[int] = field(default_factory=set)
    _waits_for_lock: bool = False
    _lock: HeldLock | None = None
    _leads_since: float = 0.0

    def serve(self, stopping: threading.Event, poll_seconds: float = POLL_SECONDS) -> None:
        """Serve the schedules until `stopping` is set; a lost database is reported once and waited for."""
        away = False
        while not stopping.is_set():
            try:
                self.tick()
            except DataError as error:
                if not away:
                    self.say(f"{error}; due times are made good when it is back")
                away = True
            else:
                if away:
                    self.say("the database is back")
                away = False
            # Wait for the next poll, or until a run has ended, since another run may wait for that. A daemon
            # that waits for the lock tries each second.
            until = time.monotonic() + (_WAITING_SECONDS if self._waits_for_lock else poll_seconds)
            while not stopping.wait(_GLANCE_SECONDS) and time.monotonic() < until:
                if any(child.poll() is not None for child in self._children.values()):
                    break

    def tick(self) -> bool:
        """Handle all due times up to now; False where another daemon has the lock."""
        if self.book.reopen_replaced():
            self.say("another file lies where the database was; this daemon goes on with that")
        self._collect()
        if not self._has_lock():
            return False
        for schedule in self.book.all():
            try:
                self._claim(schedule)
            except UsageError as error:  # its time zone is unknown here; the other schedules go on
                if schedule.number not in self._unknown:
                    self.say(f"{schedule.name} is not looked at: {error}")
                self._unknown.add(schedule.number)
        self._take_back_lost()
        self._start_due()
        return True

    def leave(self) -> list[int]:
        """End the running child processes by SIGTERM, release the lock, and return their run numbers."""
        living = {number: child for number, child in self._children.items() if child.poll() is None}
        for child in living.values():
            child.send_signal(signal.SIGTERM)
        for child in living.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(_ENDING_SECONDS)
        if self._lock is not None:
            self._lock.release()
        self._lock = None
        return list(living)

    def _has_lock(self) -> bool:
        if self._lock is not None:
            if self._lock.is_held():
                return True
            self._lock.release()
            self.say("the database forgot this daemon's lock")
        self._lock = self.book.lead(self._owner)
        if self._lock is not None:
            self._leads_since = self.clock()
            self.say("this daemon serves the schedules")
        elif not self._waits_for_lock:
            leader = self.book.leader()
            who = f" on {leader.host} (process {leader.pid})" if leader else ""
            self.say(f"another daemon{who} serves the schedules; this one waits until it ends")
        self._waits_for_lock = self._lock is None
        return self._lock is not None

    def _claim(self, schedule: Schedule) -> None:
        now, number, runs = self.clock(), schedule.number, self.book.runs
        considered = datetime.fromtimestamp(schedule.considered_until, UTC)
        due = CronLine(schedule.cron, schedule.timezone).after(considered)
        if due is None or due.timestamp() > now:
            return
        going = next((run for run in runs.open() if run.schedule == number), None)
        rows = rows_for_due_times(schedule, now, going, partial(reason_unpaid, self.book, schedule))
        if not rows or not runs.claim(number, rows[-1].due_at, rows):
            return
        for row in rows:
            when = datetime.fromtimestamp(row.due_at, UTC).isoformat(timespec="minutes")
            state = "left out" if row.state is RunState.SKIPPED else "due"
            why = f": {row.note}" if row.note else ""
            self.say(f"{schedule.name}: the run of {when} is {state}{why}")

    def _take_back_lost(self) -> None:
        """Make runs of dead processes due again, or failed. Not right after this daemon got the lock: after a
        restart of the database server, living processes first have to take their locks again."""
        if self.clock() - self._leads_since < _GRACE_SECONDS:
            return
        for run in self.book.runs.open():
            if run.state is not RunState.RUNNING or run.alive or run.number in self._children:
                continue
            state = self.book.runs.take_back(run, now=self.clock())
            if state is not None:
                goes_on = "is gone on with" if state is RunState.DUE else "is given up"
                self.say(f"run {run.number}: its process was lost; it {goes_on}")

    def _start_due(self) -> None:
        """Start due runs: one at a time on this machine, and any number that measure elsewhere."""
        runs = self.book.runs.open()
        commands = {run.number: self._command_of(run) for run in runs}
        here = {number for number, command in commands.items() if not is_remote_sweep(command)}
        going = {run.number for run in runs if run.state is RunState.RUNNING} | self._children.keys()
        busy = bool(here & going)
        for run in runs:
            is_here = run.number in here
            if run.number in going:
                continue
            # Wait until a sweep that was started by hand has ended: until then this one would be refused.
            if is_here and (busy or (is_sweep(commands[run.number]) and self.occupied())):
                continue
            if self._has_started(run):
                busy = busy or is_here

    def _command_of(self, run: Run) -> tuple[str, ...]:
        schedule = None if run.schedule is None else self.book.numbered(run.schedule)
        return schedule.command if schedule else ()

    def _has_started(self, run: Run) -> bool:
        """Start a run's process; False if it started too recently or too often."""
        tries = self._starts.get(run.number, 0)
        if tries >= _MOST_STARTS:
            note = f"{tries} processes ended before they had it in hand; see the daemon's stderr"
            self.book.runs.give_up(run.number, note, now=self.clock())
            return False
        if self.clock() - self._started_at.get(run.number, 0.0) < tries * _PAUSE_SECONDS:
            return False
        self._started_at[run.number] = self.clock()
        self._starts[run.number] = tries + 1
        self._children[run.number] = self.start(run.number)
        return True

    def _collect(self) -> None:
        for number in [number for number, child in self._children.items() if child.poll() is not None]:
            del self._children[number]
            run = self.book.runs.numbered(number)
            if run is None or run.state is RunState.DUE:
                continue
            self._starts.pop(number, None)
            self.say(f"run {number}: {run.state.value}{': ' if run.note else ''}{run.note}")
