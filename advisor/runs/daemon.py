"""The daemon: gives each due time its row, and starts a process for each row.

One daemon at a time has the database's lock; others wait for it. What a daemon decides lies in the database
before it acts, and each run is a process of its own: killed at any moment, the next daemon goes on from the
rows."""

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
from advisor.runs.schedules import CronLine, is_sweep, rows_for_due_times, too_dear, works_elsewhere
from advisor.runs.sweeps.sweeping import sweep_runs_here
from advisor.store.locks import HeldLock
from advisor.store.records import Run, RunState, Schedule
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import Owner, this_process

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

Process = subprocess.Popen[bytes]


class Daemon(Struct):
    """The daemon of a database. `occupied` says whether somebody runs a sweep here by hand."""

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
        """Work until `stopping`; a database that is away is told once and waited for."""
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
            # Until it is time to look again, or a run has ended: another one may wait for it. Who waits for
            # another daemon's end looks each second.
            until = time.monotonic() + (_WAITING_SECONDS if self._waits_for_lock else poll_seconds)
            while not stopping.wait(_GLANCE_SECONDS) and time.monotonic() < until:
                if any(child.poll() is not None for child in self._children.values()):
                    break

    def tick(self) -> bool:
        """Settle what is due now; False where another daemon has the lock."""
        if self.book.reopen_replaced():
            self.say("another file lies where the database was; this daemon goes on with that")
        self._collect()
        if not self._has_lock():
            return False
        for schedule in self.book.all():
            try:
                self._claim(schedule)
            except UsageError as error:  # a time zone that this machine does not know keeps back no other one
                if schedule.number not in self._unknown:
                    self.say(f"{schedule.name} is not looked at: {error}")
                self._unknown.add(schedule.number)
        self._take_back_lost()
        self._start_due()
        return True

    def leave(self) -> list[int]:
        """End the runs in hand politely, and let another daemon lead. Returns their numbers."""
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
        rows = rows_for_due_times(schedule, now, going, partial(too_dear, self.book, schedule))
        if not rows or not runs.claim(number, rows[-1].due_at, rows):
            return
        for row in rows:
            when = datetime.fromtimestamp(row.due_at, UTC).isoformat(timespec="minutes")
            state = "left out" if row.state is RunState.SKIPPED else "due"
            why = f": {row.note}" if row.note else ""
            self.say(f"{schedule.name}: the run of {when} is {state}{why}")

    def _take_back_lost(self) -> None:
        """Not at once: after a server's restart the processes of runs take their locks again."""
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
        """One run at a time on this machine, beside any number that measure elsewhere."""
        runs: list[tuple[Run, tuple[str, ...]]] = []
        for run in self.book.runs.open():
            schedule = None if run.schedule is None else self.book.numbered(run.schedule)
            runs.append((run, schedule.command if schedule else ()))
        here = {run.number for run, command in runs if command and not works_elsewhere(command)}
        busy = any(
            run.number in here and (run.state is RunState.RUNNING or run.number in self._children)
            for run, _ in runs
        )
        for run, command in runs:
            if run.state is not RunState.DUE or run.number in self._children:
                continue
            if run.number in here and busy:
                continue
            # A sweep waits for one that somebody runs on this machine by hand: it would be refused.
            if run.number in here and is_sweep(command) and self.occupied():
                continue
            if self._started(run):
                busy = busy or run.number in here

    def _started(self, run: Run) -> bool:
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
