"""Real daemons on one database: each due job once, also when daemons are killed at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.store.schedule_book import ScheduleBook
from sweeps.store.schedule_words import NewSchedule, RunState

# Every program of Python's that is started tells its command line.
TRACE = """
import os, sys
with open(os.environ["TRACE"], "a") as file:
    file.write(" ".join(sys.orig_argv[1:]) + "\\n")
"""
JOBS = 6
HOUR = 3600.0
DEADLINE_SECONDS = 200


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/schedules.sqlite"
    return request.getfixturevalue("postgresql").new_database()


@pytest.fixture
def book(url, tmp_path):
    """Jobs that are overdue: what they do takes a moment, and differs."""
    book = ScheduleBook(url)
    for number in range(JOBS):
        command = ("catalog", "refresh", "--show", "--region", f"region-{number}")
        new = NewSchedule(
            name=f"job-{number}", cron="0 * * * *", timezone="UTC", command=command,
            folder=str(tmp_path),
        )  # fmt: skip
        book.add(new, now=time.time() - HOUR)
    yield book
    book.close()


@pytest.fixture
def daemon(url, tmp_path):
    """Starts a daemon; all are gone in the end."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(TRACE)
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", str(Path.cwd()))])
    environment = {
        **os.environ, "ADVISOR_DATABASE_URL": url, "PYTHONPATH": path,
        "TRACE": str(tmp_path / "trace"),
    }  # fmt: skip
    started = []

    def start():
        command = [sys.executable, "-m", "advisor", "schedule", "run"]
        with (tmp_path / "said").open("ab") as said:
            started.append(subprocess.Popen(command, env=environment, stderr=said))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
            one.wait()


def all_ended(book):
    runs = [run for one in book.all() for run in book.runs.of(one.number)]
    return len(runs) == JOBS and all(run.state is RunState.DONE for run in runs)


def assert_each_ran_once(book, tmp_path):
    for one in book.all():
        (run,) = book.runs.of(one.number)
        assert (run.state, run.exit_code, run.attempts) == (RunState.DONE, 0, 1), run.note
    lines = (tmp_path / "trace").read_text().splitlines()
    for number in range(JOBS):
        assert len([line for line in lines if line.endswith(f"region-{number} -o json")]) == 1


def wait_until_ended(book, tmp_path):
    begun = time.monotonic()
    while not all_ended(book):
        assert time.monotonic() - begun < DEADLINE_SECONDS, (tmp_path / "said").read_text()
        time.sleep(0.2)


@pytest.mark.slow
def test_two_daemons_run_each_job_once_and_leave_cleanly(book, daemon, tmp_path):
    both = [daemon(), daemon()]
    wait_until_ended(book, tmp_path)
    assert_each_ran_once(book, tmp_path)
    for one, number in zip(both, (signal.SIGINT, signal.SIGTERM), strict=True):
        one.send_signal(number)
        assert one.wait(60) == 128 + number
    said = (tmp_path / "said").read_text()
    assert said.count("this daemon leads") >= 1
    assert "Traceback" not in said
    assert book.leadership.current() is None


@pytest.mark.slow
def test_a_daemon_that_is_killed_at_any_moment_neither_loses_nor_repeats_a_job(
    book, daemon, tmp_path
):
    moments = random.Random(11)
    for _ in range(6):
        one = daemon()
        time.sleep(moments.uniform(0.3, 3.0))
        one.kill()
        one.wait()
    daemon()
    wait_until_ended(book, tmp_path)
    assert_each_ran_once(book, tmp_path)
