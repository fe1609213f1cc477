"""Weeks of schedules in seconds: daemons are killed at any moment, and clocks are moved.

The book is the real one, in memory. A daemon is killed before or after any of its transactions; what it had
started goes on. Which processes have gone is told by the world, not by the kernel."""

import re
from collections import Counter
from datetime import UTC, datetime
from random import Random
from types import SimpleNamespace

import pytest

from advisor.runs.daemon import Daemon
from advisor.runs.schedules import CronLine
from advisor.store.database import Database
from advisor.store.records import Ending, Misfire, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
from tests.advisor.store.schedules import schedule

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
# Clocks go forward in Berlin on March 29th, and back in Sydney on April 5th.
FIRST, LAST = datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 4, 20, tzinfo=UTC)
SCHEDULES = {
    "spring": ("30 2 * * *", "Europe/Berlin"),
    "autumn": ("30 2 * * *", "Australia/Sydney"),
    "often": ("15 */4 * * *", "Europe/Berlin"),
    "weekly": ("0 3 * * 1", "Europe/Berlin"),
}


class Killed(BaseException):
    """kill -9, as far as a daemon's own code can tell."""


class World:
    def __init__(self, monkeypatch):
        self.random, self.now, self.run_seconds = Random(7), FIRST.timestamp(), 600.0
        self.processes, self.executed, self.said, self.daemons = [], [], [], []
        self._left_to_live, self.occupied, self.book = None, False, ScheduleBook("sqlite://")
        monkeypatch.setattr("advisor.store.locks._PAUSE_SECONDS", 0.0)  # nobody looks at a lock meanwhile
        self._real = {name: getattr(Database, name) for name in ("view", "write")}
        for name in self._real:
            monkeypatch.setattr(Database, name, self._dangerous(name))

    def daemon(self):
        told = {"clock": lambda: self.now, "occupied": lambda: self.occupied}
        self.daemons.append(Daemon(self.book, start=self.start, say=self.said.append, **told))
        return self.daemons[-1]

    def end(self):
        """As the kernel ends all that still runs."""
        for holder in (*self.daemons, *self.processes):
            release(holder._lock)

    def add(self, name, cron, timezone="UTC", **changes):
        new = schedule(name, cron=cron, timezone=timezone, **{"command": ("fit",), **changes})
        return self.book.add(new, now=self.now)

    def start(self, number):
        self.processes.append(Process(self, number))
        return self.processes[-1]

    def work(self):
        """What the processes do by themselves meanwhile."""
        for process in self.processes:
            process.live()
        self.processes = [process for process in self.processes if process.poll() is None]

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
        if self._left_to_live is not None:
            self._left_to_live -= 0.5
            if self._left_to_live <= 0:
                raise Killed


class Process:
    """The process of a run: takes it in hand a moment after it was started, and ends later."""

    def __init__(self, world, number):
        self._world, self._number, self._owner = world, number, this_process()
        self._ends, self._code, self._lock = None, None, None

    def live(self):
        world = self._world
        if self._ends is None and self._code is None:
            self._begin(world)
        elif self._code is None and world.now >= self._ends:
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


@pytest.fixture
def world(monkeypatch):
    world = World(monkeypatch)
    yield world
    world.end()


def due_times(name):
    return [moment.timestamp() for moment in CronLine(*SCHEDULES[name]).between(FIRST, LAST)]


def moments(random, due):
    """A look soon after each due time, and some in between."""
    soon = [item + random.uniform(0, 2 * MINUTE) for item in due]
    later = [item + random.uniform(8 * MINUTE, 20 * MINUTE) for item in due]
    over = LAST.timestamp() + 10 * MINUTE
    return [item for item in sorted([*soon, *later]) if item < over] + [over, over + 5 * MINUTE]


def live_through(world):
    """A month with two daemons, of which one is killed now and then, and a new one started."""
    random = world.random
    for name, entry in SCHEDULES.items():
        world.add(name, *entry, command=("sweep", "run", "--ray-address", "far"))  # side by side
    daemons = [world.daemon(), world.daemon()]
    due = sorted({item for name in SCHEDULES for item in due_times(name)})
    for moment in moments(random, due):
        world.now = moment
        world.work()  # runs went on while nobody looked
        for location in (0, 1, 0):
            life = random.uniform(0, 12) if random.random() < 0.3 else None
            if not world.tick(daemons[location], life):
                daemons[location] = world.daemon()
            world.work()


@pytest.mark.slow
def test_a_month_with_both_clock_changes_loses_nothing_and_repeats_nothing(world):
    live_through(world)
    assert max(Counter(world.executed).values()) == 1
    for job in world.book.all():
        runs = world.book.runs.latest(job.number, 10_000)
        assert sorted(run.due_at for run in runs) == due_times(job.name)
        assert {(run.state, run.attempts) for run in runs} == {(RunState.DONE, 1)}


def test_a_run_whose_process_is_killed_is_gone_on_with_and_ends_once(world):
    world.add("often", "0 * * * *")
    daemon, ended = world.daemon(), 0
    for step in range(24 * 12 + 11):
        go_on(world, daemon, 5 * MINUTE)
        for process in world.processes:
            if step < 24 * 12 and world.random.random() < 0.1:
                process.kill()
                ended += 1
    assert ended > 3
    runs = world.book.runs.latest(1, 100)
    assert len(runs) == 24
    assert {run.state for run in runs} <= {RunState.DONE, RunState.FAILED}
    assert sum(run.attempts for run in runs) == len(world.executed)


def go_on(world, daemon, *steps):
    """Let time pass in steps; after each the daemon looks, and processes do their work."""
    for seconds in steps:
        world.now += seconds
        world.tick(daemon)
        world.work()


def only_runs(world):
    return [(run.state, run.note) for run in reversed(world.book.runs.latest(1, 100))]


@pytest.mark.parametrize(
    ("misfire", "state", "words"),
    [
        (Misfire.RUN_ONCE, RunState.DUE, "late: no daemon ran at its time, nor at 2 earlier"),
        (Misfire.SKIP, RunState.SKIPPED, r"no daemon ran .* \(--misfire skip\)"),
    ],
)
def test_what_was_missed_runs_once_or_is_skipped_and_both_is_told(world, misfire, state, words):
    world.add("daily", "0 3 * * *", misfire=misfire)
    world.now += 3 * DAY
    world.tick(world.daemon())
    ((result, note),) = only_runs(world)
    assert (result, bool(re.search(words, note))) == (state, True)
    assert world.book.runs.latest(1)[0].due_at == world.now - 21 * HOUR
    assert any("daily: the run of" in line for line in world.said)


def test_a_run_that_goes_on_is_not_joined_by_the_next_one(world):
    world.run_seconds = 90 * MINUTE
    world.add("hourly", "0 * * * *")
    go_on(world, world.daemon(), *(4 * 60 + 40) * [MINUTE])
    states = [state for state, _ in only_runs(world)]
    assert states == [RunState.DONE, RunState.SKIPPED, RunState.DONE, RunState.SKIPPED]
    assert "was still going" in only_runs(world)[1][1]


def test_runs_that_measure_here_wait_for_each_other_and_none_is_lost(world):
    for name in ("one", "two", "three"):
        world.add(name, "0 3 * * *")
    daemon, most = world.daemon(), 0
    for _ in range(6 * 60):
        go_on(world, daemon, MINUTE)
        most = max(most, len(world.processes))
    assert most == 1
    assert len(world.executed) == 3


def test_a_sweep_waits_for_one_that_somebody_runs_by_hand(world):
    world.add("sweep", "0 3 * * *", command=("sweep", "run", "--preset", "small"))
    world.add("fit", "0 3 * * *")
    daemon, world.occupied = world.daemon(), True
    go_on(world, daemon, *5 * 60 * [MINUTE])
    assert len(world.executed) == 1
    world.occupied = False
    go_on(world, daemon, 0.0)
    assert len(world.executed) == 2


def test_the_budget_of_a_month_is_kept_and_begins_anew_with_the_next(world):
    """Each run costs a dollar, and may cost one and a half."""
    world.now = datetime(2026, 3, 27, 12, tzinfo=UTC).timestamp()
    world.add("daily", "0 3 * * *", "Europe/Berlin", budget_usd=3.0, run_usd=1.5)
    go_on(world, world.daemon(), *8 * 48 * [HOUR / 2])
    states = [state for state, _ in only_runs(world)]
    # Of March's three dollars two are spent on the 28th and 29th; a third run might be too dear.
    assert states == 2 * [RunState.DONE, RunState.DONE, RunState.SKIPPED, RunState.SKIPPED]
    assert "of the $3.000 of 2026-03 only $1.000 are left" in only_runs(world)[2][1]


def test_a_zone_that_this_machine_does_not_know_keeps_no_other_schedule_back(world):
    world.add("martian", "0 * * * *", "Mars/Olympus")
    world.add("hourly", "0 * * * *")
    go_on(world, world.daemon(), *6 * [HOUR / 2])
    assert len(world.executed) == 3
    assert len([line for line in world.said if "martian is not looked at" in line]) == 1


def test_a_clock_that_is_set_back_repeats_nothing(world):
    world.add("hourly", "0 * * * *")
    steps = 30 * [10 * MINUTE]
    go_on(world, world.daemon(), *steps, -3 * HOUR, *steps)
    due = [run.due_at for run in world.book.runs.latest(1, 100)]
    assert len(due) == len(set(due)) == len(world.executed) == 7


def test_a_second_daemon_waits_and_goes_on_when_the_first_has_ended(world):
    world.add("hourly", "0 * * * *")
    first, second = world.daemon(), world.daemon()
    assert first.tick() is True
    assert second.tick() is False
    assert len([line for line in world.said if "this one waits" in line]) == 1
    first.leave()
    world.now += HOUR
    assert second.tick() is True
    assert [run.state for run in world.book.runs.latest(1)] == [RunState.DUE]


def test_a_daemon_whose_lock_was_lost_takes_it_again_or_leaves_the_rest_to_another(world):
    world.add("hourly", "0 * * * *")
    first, second = world.daemon(), world.daemon()
    first.tick()
    release(first._lock)  # a database server that was started anew
    assert second.tick() is True
    assert first.tick() is False
    assert "the database forgot this daemon's lock" in world.said


def test_a_process_that_cannot_begin_is_not_started_for_ever(world):
    world.add("hourly", "0 * * * *")
    started, daemon = [], world.daemon()
    stillborn = SimpleNamespace(poll=lambda: 1)
    daemon.start = lambda number: started.append(number) or stillborn
    for _ in range(20):
        world.now += 5 * MINUTE
        world.tick(daemon)
    assert len(started) == 3
    assert "3 processes ended" in only_runs(world)[0][1]
