"""The daemon: one of them leads, gives each due time its row, and starts a process for each row.

What a daemon decides lies in the database before it acts, and
each run is a process of its own: killed at any moment, the next leader goes on from the rows.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol

from advisor.errors import DataError, UsageError
from advisor.runs.cron import CronLine
from advisor.runs.scheduling.commands import ADVISOR, environment, is_sweep, works_elsewhere
from advisor.runs.scheduling.deciding import Known, decided, month_of
from advisor.runs.sweeps.sweeping import sweep_runs_here
from sweeps.store.owners import Owner, this_process
from sweeps.store.schedule_book import ScheduleBook
from sweeps.store.schedule_words import Run, RunState, Schedule

POLL_SECONDS = 5.0
# So long a look waits for the database at most: who asks the daemon to end waits with it.
PATIENCE_SECONDS = 5.0
# A process that ends before it has its run in hand (no memory, an upgrade in its middle) is tried
# so often, after longer and longer pauses.
_MOST_STARTS = 3
_PAUSE_SECONDS = 60.0
_ENDING_SECONDS = 90.0
_GLANCE_SECONDS = 0.5

Say = Callable[[str], None]


class Started(Protocol):
    """The process of a run."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def send_signal(self, number: int) -> None:
        """Ask it to end."""

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended."""


Start = Callable[[int], Started]


def start_process(number: int) -> Started:
    """A process that executes the run of that number, in a session of its own: Ctrl-C in the
    daemon's terminal, or the daemon's death, does not end it in the middle of a trial."""
    command = [*ADVISOR, "schedule", "execute", str(number)]
    return subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, start_new_session=True
    )


class Daemon:
    """One daemon among any number on a database. `clock` tells the seconds since 1970, `occupied`
    whether a sweep that no schedule started has this machine; `between` follows each look."""

    def __init__(
        self,
        book: ScheduleBook,
        *,
        start: Start = start_process,
        clock: Callable[[], float] = time.time,
        say: Say = lambda _line: None,
        owner: Owner | None = None,
        occupied: Callable[[], bool] = sweep_runs_here,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._book = book
        self._start = start
        self._clock = clock
        self._say = say
        self._owner = owner or this_process()
        self._occupied = occupied
        self._between = between
        self._children: dict[int, Started] = {}
        self._starts: dict[int, int] = {}
        self._started_at: dict[int, float] = {}
        self._unknown: set[int] = set()
        self.fence: int | None = None

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
        """Until it is time to look again, or a run has ended: another one may wait for it."""
        until = time.monotonic() + seconds
        while not stopping.wait(_GLANCE_SECONDS) and time.monotonic() < until:
            if any(child.poll() is not None for child in self._children.values()):
                return

    def tick(self) -> bool:
        """Settle what is due now; False where another daemon leads."""
        if self._book.reopen_replaced():
            self._say("another file lies where the database was; this daemon goes on with that")
        self._collect()
        if not self._leads():
            return False
        assert self.fence is not None
        for schedule in self._book.all():
            self._settle(schedule, self.fence)
        self._take_back_lost(self.fence)
        self._start_due(self.fence)
        return True

    def leave(self) -> list[int]:
        """End the runs in hand politely, and let another daemon lead. Returns their numbers."""
        ended = [number for number, child in self._children.items() if child.poll() is None]
        for number in ended:
            self._children[number].send_signal(signal.SIGTERM)
        for number in ended:
            with suppress(subprocess.TimeoutExpired):
                self._children[number].wait(_ENDING_SECONDS)
        with suppress(DataError):
            self._book.leadership.resign(self._owner)
        self.fence = None
        return ended

    def _leads(self) -> bool:
        leadership = self._book.leadership
        if self.fence is not None and leadership.renew(self._owner, self.fence):
            return True
        before, self.fence = self.fence, leadership.take(self._owner)
        if self.fence is not None and before is None:
            self._say("this daemon leads")
        elif self.fence is None and before is not None:
            self._say("another daemon leads now")
        return self.fence is not None

    def _settle(self, schedule: Schedule, fence: int) -> None:
        """One whose time zone this machine does not know keeps none of the others back."""
        try:
            self._claim(schedule, fence)
        except UsageError as error:
            if schedule.number not in self._unknown:
                self._say(f"{schedule.name} is not looked at: {error}")
            self._unknown.add(schedule.number)

    def _claim(self, schedule: Schedule, fence: int) -> None:
        now = self._clock()
        due = CronLine(schedule.cron, schedule.timezone).after(_moment(schedule.considered_until))
        if due is None or due.timestamp() > now:
            return
        rows = decided(schedule, now, self._known(schedule, due.timestamp(), now))
        if not rows or not self._book.runs.claim(fence, schedule.number, rows[-1].due_at, rows):
            return
        for row in rows:
            when = _moment(row.due_at).isoformat(timespec="minutes")
            state = "left out" if row.state is RunState.SKIPPED else "due"
            why = f": {row.note}" if row.note else ""
            self._say(f"{schedule.name}: the run of {when} is {state}{why}")

    def _known(self, schedule: Schedule, first_due: float, now: float) -> Known:
        """The runs of every month that a decision is about, the latest ones, and any open one."""
        runs = self._book.runs
        first, _ = month_of(schedule.timezone, first_due)
        found = {run.number: run for run in runs.of(schedule.number)}
        found |= {run.number: run for run in runs.between(schedule.number, first, now)}
        found |= {run.number: run for run in runs.open() if run.schedule == schedule.number}
        return Known(tuple(found.values()))

    def _take_back_lost(self, fence: int) -> None:
        for run in self._book.runs.open():
            if run.state is not RunState.RUNNING or run.alive or self._has_child(run):
                continue
            state = self._book.runs.take_back(fence, run, now=self._clock())
            if state is not None:
                goes_on = "is gone on with" if state is RunState.DUE else "is given up"
                self._say(f"run {run.number}: its process was lost; it {goes_on}")

    def _start_due(self, fence: int) -> None:
        runs = self._book.runs.open()
        busy = any(run.state is RunState.RUNNING and self._is_here(run) for run in runs)
        busy = busy or any(self._is_here(run) for run in runs if self._has_child(run))
        for run in runs:
            if run.state is not RunState.DUE or self._has_child(run):
                continue
            here = self._is_here(run)
            if here and (busy or self._waits(run)):
                continue
            if self._started(run, fence):
                busy = busy or here

    def _started(self, run: Run, fence: int) -> bool:
        tries = self._starts.get(run.number, 0)
        if tries >= _MOST_STARTS:
            note = f"{tries} processes ended before they had it in hand; see the daemon's stderr"
            self._book.runs.give_up(fence, run.number, note, now=self._clock())
            return False
        if self._clock() - self._started_at.get(run.number, 0.0) < tries * _PAUSE_SECONDS:
            return False
        self._started_at[run.number] = self._clock()
        self._starts[run.number] = tries + 1
        self._children[run.number] = self._start(run.number)
        return True

    def _is_here(self, run: Run) -> bool:
        """Whether it wants this machine for itself."""
        schedule = self._book.numbered(run.schedule)
        return schedule is not None and not works_elsewhere(schedule.command)

    def _waits(self, run: Run) -> bool:
        """A sweep waits for one that somebody runs on this machine by hand: it would be refused."""
        schedule = self._book.numbered(run.schedule)
        return schedule is not None and is_sweep(schedule.command) and self._occupied()

    def _has_child(self, run: Run) -> bool:
        return run.number in self._children

    def _collect(self) -> None:
        ended = [number for number, child in self._children.items() if child.poll() is not None]
        for number in ended:
            del self._children[number]
            run = self._book.runs.one(number)
            if run is None or run.state is RunState.DUE:
                continue
            self._starts.pop(number, None)
            self._say(f"run {number}: {run.state.value}{': ' if run.note else ''}{run.note}")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
