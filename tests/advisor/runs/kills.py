"""kill -9 of daemons and runs of schedules at random instants; what must hold, checked.

Two `advisor schedule run` share a database, in which some jobs (`advisor catalog refresh --show`, a second
each) are always due. One of them is killed again and again, at any moment from its start on, the leader in
every second case, and started anew; now and then it is the process of a run. In the end every job must have
run: once, unless its own process was killed (then it was gone on with), and none may be left."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from advisor.store.records import RunState
from advisor.store.schedules import ScheduleBook
from tests.advisor.store.schedules import schedule

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


class Series:
    """Two daemons, the jobs that they run, and the kills that they go through."""

    def __init__(self, url, folder, seed, gap_seconds):
        self.book = ScheduleBook(url)
        self._folder, self._random, self._gap_seconds = folder, random.Random(seed), gap_seconds
        self._lost, self.killed, self.jobs = Counter(), Counter(), 0
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(_TRACE)
        self._environment = {
            **os.environ,
            "ADVISOR_DATABASE_URL": url,
            "TRACE": str(folder / "trace"),
            "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', Path.cwd())}",
            "XDG_STATE_HOME": str(folder / "state"),
        }

    @property
    def said(self):
        """What all daemons told."""
        return (self._folder / "said").read_text()

    def run(self, kills):
        """All of it; returns what does not hold."""
        both = [self._started(), self._started()]
        try:
            while self.killed.total() < kills:
                for _ in range(_ALWAYS_DUE - len(self.book.runs.open())):
                    self._add_job()
                time.sleep(self._random.uniform(0.0, self._gap_seconds))
                if self._random.random() >= 0.2 or not self._kill_run():
                    self._kill_daemon(both)
            deadline = time.monotonic() + _LONGEST_END_SECONDS
            while not self._have_ended() and time.monotonic() < deadline:
                if any(process.poll() is not None for process in both):
                    break  # told by its exit code
                time.sleep(0.2)
            for process in both:
                process.send_signal(signal.SIGTERM)
            return self._faults([process.wait(_LONGEST_END_SECONDS) for process in both])
        finally:
            for process in both:
                process.kill()
                process.wait()
            self.book.close()

    def _started(self):
        command = [sys.executable, "-m", "advisor", "schedule", "run"]
        with (self._folder / "said").open("ab") as said:
            return subprocess.Popen(command, env=self._environment, stderr=said)

    def _add_job(self):
        """One whose due time is over by an hour: it is to run once, now."""
        command = ("catalog", "refresh", "--show", "--region", f"region-{self.jobs}")
        new = schedule(f"job-{self.jobs}", cron="0 * * * *", command=command, folder=str(self._folder))
        self.book.add(new, now=time.time() - _OVERDUE_SECONDS)
        self.jobs += 1

    def _have_ended(self):
        runs = [run for job in self.book.all() for run in self.book.runs.of(job.number)]
        return len(runs) >= self.jobs and all(run.state is RunState.DONE for run in runs)

    def _kill_daemon(self, both):
        leader, location = self.book.leader(), self._random.randrange(2)
        if leader and self._random.random() < 0.5:
            location = next((n for n, process in enumerate(both) if process.pid == leader.pid), location)
        leads = leader is not None and both[location].pid == leader.pid
        both[location].kill()
        both[location].wait()
        self.killed["leader" if leads else "other daemon"] += 1
        begun = time.monotonic()
        while leads and self.book.leader() is None:
            assert time.monotonic() - begun < _LONGEST_END_SECONDS, f"nobody leads: {self.said[-500:]}"
            time.sleep(0.05)
        both[location] = self._started()

    def _kill_run(self):
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

    def _faults(self, codes):
        traced = (self._folder / "trace").read_text().splitlines()
        times = Counter(line.split("region-")[1].split()[0] for line in traced if "region-" in line)
        faults = [] if codes == [128 + signal.SIGTERM] * 2 else [f"the daemons ended with {codes}"]
        if "Traceback" in self.said:
            faults.append(self.said[-500:])
        for job in self.book.all():
            runs, ran = self.book.runs.of(job.number), times[job.name.removeprefix("job-")]
            if [run.state for run in runs] != [RunState.DONE]:
                faults.append(f"{job.name}: {[(run.state.value, run.note) for run in runs]}")
                continue
            most = 1 + self._lost[runs[0].number]
            if not 1 <= ran <= most or runs[0].attempts > most:
                faults.append(f"{job.name}: ran {ran} times in {runs[0].attempts} attempts")
        return faults
