"""Daemons and the processes of runs in a world with a clock of its own, where anything is killed.

The book is the real one, in memory. A daemon is killed before or after any of its transactions;
what it had started goes on. Which processes have gone is told by the world, not by the kernel.
"""

from advisor.runs.daemon import Daemon
from advisor.store.database import Database
from advisor.store.records import Ending, NewSchedule, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process


class Killed(BaseException):
    """kill -9, as far as a daemon's own code can tell."""


class World:
    def __init__(self, monkeypatch, random, now, run_seconds=600.0):
        self.random, self.now, self.run_seconds = random, now, run_seconds
        self.processes, self.executed, self.said = [], [], []
        self._left_to_live = None
        self.occupied = False
        self.book = ScheduleBook("sqlite://")
        self._real = {name: getattr(Database, name) for name in ("read", "write")}
        for name in self._real:
            monkeypatch.setattr(Database, name, self._dangerous(name))

    def daemon(self):
        return Daemon(
            self.book,
            start=self.start,
            clock=lambda: self.now,
            say=self.said.append,
            occupied=lambda: self.occupied,
        )

    def add(self, name, cron, timezone="UTC", **changes):
        values = {"command": ("fit",), "folder": "/", **changes}
        new = NewSchedule(name=name, cron=cron, timezone=timezone, **values)
        return self.book.add(new, now=self.now)

    def start(self, number):
        self.processes.append(Process(self, number))
        return self.processes[-1]

    def work(self):
        """What the processes do by themselves meanwhile."""
        for one in self.processes:
            one.live()
        self.processes = [one for one in self.processes if one.poll() is None]

    def tick(self, daemon, transactions=None):
        """One round of a daemon; False when it was killed in it, after so many transactions."""
        self._left_to_live = transactions
        try:
            daemon.tick()
        except Killed:
            release(daemon._lock)
            return False
        finally:
            self._left_to_live = None
        return True

    def _dangerous(self, name):
        real = self._real[name]

        def call(database, work, **options):
            self._maybe_die()
            outcome = real(database, work, **options)
            self._maybe_die()
            return outcome

        return call

    def _maybe_die(self):
        if self._left_to_live is None:
            return
        self._left_to_live -= 0.5
        if self._left_to_live <= 0:
            raise Killed


class Process:
    """The process of a run: takes it in hand a moment after it was started, and ends later."""

    def __init__(self, world, number):
        self._world, self._number, self._owner = world, number, this_process()
        self._ends, self._code, self._lock = None, None, None

    def live(self):
        if self._code is not None:
            return
        world = self._world
        if self._ends is None:
            self._begin(world)
        elif world.now >= self._ends:
            ending = Ending(state=RunState.DONE, exit_code=0, cost_usd=1.0)
            world.book.runs.end(self._number, self._owner, ending, now=world.now)
            release(self._lock)
            self._code = 0

    def _begin(self, world):
        self._lock = world.book.runs.begin(self._number, self._owner, log="/log", now=world.now)
        if self._lock is None:
            self._code = 0
            return
        self._ends = world.now + world.run_seconds
        world.executed.append(self._number)

    def kill(self):
        release(self._lock)
        self._code = -9

    def poll(self):
        return self._code

    def send_signal(self, _number):
        self.kill()

    def wait(self, timeout=None):
        return self._code


def release(lock):
    """As the kernel does with the locks of a process that has ended."""
    if lock is not None:
        lock.release()
