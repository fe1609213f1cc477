"""kill -9 of daemons and runs of schedules at random instants; what must hold, checked.

Two `advisor schedule run` share a database, in which some jobs (`advisor catalog refresh --show`, a second
each) are always due. One of them is killed again and again, at any moment from its start on, the leader in
every second case, and started anew; now and then it is the process of a run. In the end every job must have
run: once, unless its own process was killed (then it was gone on with), and none may be left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.store.records import NewSchedule, Run, RunState
from advisor.store.schedules import ScheduleBook

# Every program of Python's that is started tells its command line.
_TRACE = """
import os, sys
with open(os.environ["TRACE"], "a") as file:
    file.write(" ".join(sys.orig_argv[1:]) + "\\n")
"""
_OVERDUE_SECONDS = 3600.0
_LONGEST_GAP_SECONDS = 2.5
_LONGEST_END_SECONDS = 300.0
_ALWAYS_DUE = 4
_JOB_SECONDS = 0.5
# A third lost process would be the end of a run: that is another rule than this one.
_MOST_LOST = 2


class Daemons:
    """`advisor schedule run` as processes on one database; what they start is traced."""

    def __init__(self, url: str, folder: Path) -> None:
        self._folder = folder
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(_TRACE)
        path = [str(folder / "site"), os.environ.get("PYTHONPATH", str(Path.cwd()))]
        self._environment = {
            **os.environ,
            "ADVISOR_DATABASE_URL": url,
            "TRACE": str(folder / "trace"),
            "PYTHONPATH": os.pathsep.join(path),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """One more."""
        command = [sys.executable, "-m", "advisor", "schedule", "run"]
        with (self._folder / "said").open("ab") as said:
            self.started.append(subprocess.Popen(command, env=self._environment, stderr=said))
        return self.started[-1]

    @property
    def said(self) -> str:
        """What all of them told."""
        return (self._folder / "said").read_text()

    @property
    def traced(self) -> list[str]:
        """The command line of every program that was started."""
        return (self._folder / "trace").read_text().splitlines()

    def close(self) -> None:
        """End those that are left, by force."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


class Jobs:
    """Schedules whose one due time is over by an hour, so that each is to run once, now."""

    def __init__(self, book: ScheduleBook, folder: Path) -> None:
        self._book, self._folder = book, folder
        self.count = 0

    def add(self, count: int) -> None:
        """So many more."""
        for _ in range(count):
            command = ("catalog", "refresh", "--show", "--region", f"region-{self.count}")
            new = NewSchedule(
                name=f"job-{self.count}",
                cron="0 * * * *",
                timezone="UTC",
                command=command,
                folder=str(self._folder),
            )
            self._book.add(new, now=time.time() - _OVERDUE_SECONDS)
            self.count += 1

    @property
    def runs(self) -> list[Run]:
        """One a job, as far as they have come."""
        return [run for job in self._book.all() for run in self._book.runs.of(job.number)]

    @property
    def have_ended(self) -> bool:
        """Whether all of them have run."""
        runs = self.runs
        return len(runs) >= self.count and all(run.state is RunState.DONE for run in runs)

    def faults(self, traced: list[str], lost: Counter[int]) -> list[str]:
        """What does not hold; `lost` has how often the process of a run was killed, by number."""
        counter = Counter(line.split("region-")[1].split()[0] for line in traced if "region-" in line)
        result = []
        for job in self._book.all():
            runs, name = self._book.runs.of(job.number), job.name.removeprefix("job-")
            if len(runs) != 1:
                result.append(f"{job.name}: {len(runs)} rows")
                continue
            (run,) = runs
            if run.state is not RunState.DONE:
                result.append(f"{job.name}: {run.state.value} {run.note}")
            most = 1 + lost[run.number]
            if not 1 <= counter[name] <= most or run.attempts > most:
                result.append(f"{job.name}: ran {counter[name]} times in {run.attempts} attempts")
        return result


class Series:
    """Two daemons, the jobs that they run, and the kills that they go through."""

    def __init__(self, url: str, folder: Path, seed: int, gap_seconds: float) -> None:
        self.book = ScheduleBook(url)
        self.jobs, self.daemons = Jobs(self.book, folder), Daemons(url, folder)
        self._random, self._gap_seconds = random.Random(seed), gap_seconds
        self._lost: Counter[int] = Counter()
        self.killed: Counter[str] = Counter()

    def run(self, kills: int) -> dict[str, Any]:
        """All of it; `faults` is empty where everything holds."""
        both = [self.daemons.start(), self.daemons.start()]
        try:
            while self.killed.total() < kills:
                open_runs = self.book.runs.open()
                self.jobs.add(max(0, _ALWAYS_DUE - len(open_runs)))
                time.sleep(self._random.uniform(0.0, self._gap_seconds))
                self._kill(both)
            self._wait(both)
            codes = [self._ended(item) for item in both]
            return self._document(codes)
        finally:
            self.daemons.close()
            self.book.close()

    def _kill(self, both: list[subprocess.Popen[bytes]]) -> None:
        if self._random.random() < 0.2 and self._kill_run():
            return
        leader = self.book.leader()
        location = self._random.randrange(2)
        if leader and self._random.random() < 0.5:
            location = next((n for n, process in enumerate(both) if process.pid == leader.pid), location)
        leads = leader is not None and both[location].pid == leader.pid
        both[location].kill()
        both[location].wait()
        self.killed["leader" if leads else "other daemon"] += 1
        if leads:
            self._wait_for_leader()
        both[location] = self.daemons.start()

    def _wait_for_leader(self) -> None:
        begun = time.monotonic()
        while self.book.leader() is None:
            if time.monotonic() - begun > _LONGEST_END_SECONDS:
                raise RuntimeError(f"no daemon leads any more: {self.daemons.said[-500:]}")
            time.sleep(0.05)

    def _kill_run(self) -> bool:
        """Kill the process of a run, as soon as one has its run in hand; False where none has."""
        deadline = time.monotonic() + _LONGEST_GAP_SECONDS
        while time.monotonic() < deadline:
            for run in self.book.runs.open():
                if run.alive and run.pid and self._lost[run.number] < _MOST_LOST:
                    time.sleep(self._random.uniform(0.0, _JOB_SECONDS))
                    with suppress(ProcessLookupError):
                        os.kill(run.pid, signal.SIGKILL)
                    self._lost[run.number] += 1
                    self.killed["run"] += 1
                    return True
            time.sleep(0.02)
        return False

    def _wait(self, both: list[subprocess.Popen[bytes]]) -> None:
        deadline = time.monotonic() + _LONGEST_END_SECONDS
        while not self.jobs.have_ended and time.monotonic() < deadline:
            if any(process.poll() is not None for process in both):
                return  # told by its exit code
            time.sleep(0.2)

    @staticmethod
    def _ended(process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(_LONGEST_END_SECONDS)

    def _document(self, codes: list[int]) -> dict[str, Any]:
        faults = self.jobs.faults(self.daemons.traced, self._lost)
        if codes != [128 + signal.SIGTERM] * 2:
            faults.append(f"the daemons ended with {codes}")
        if "Traceback" in self.daemons.said:
            faults.append(self.daemons.said[-500:])
        return {
            "kills": self.killed.total(),
            "killed": dict(self.killed),
            "jobs": self.jobs.count,
            "attempts": sum(run.attempts for run in self.jobs.runs),
            "faults": faults,
        }
