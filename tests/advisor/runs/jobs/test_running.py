"""The process of a started sweep: it says how that ended, whatever ended it."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from advisor.errors import UsageError
from advisor.runs.jobs import records, running
from advisor.runs.jobs.records import JobState
from tests.processes import gone

WAITS = "import time; time.sleep(60)"


@pytest.fixture
def run(monkeypatch):
    """Runs a job whose sweep is a line of Python; returns what is known of it then."""
    monkeypatch.setattr(running, "_step_back", lambda: None)

    def worked(code, *, stop=False, max_minutes=None):
        asked = {"on": "here", "words": [], "fields": {}, "planned": 1, "max_minutes": max_minutes}
        job = records.new_job(asked, datetime.now(UTC))
        if stop:
            records.note_stop(job.folder, {"at": "now"})
        monkeypatch.setattr(running, "command_of", lambda _job: [sys.executable, "-c", code])
        running.run_job(job.id)
        return records.known_job(job.id)

    return worked


def state_of(job):
    return job.state(datetime.now(UTC))


def test_a_sweep_that_ends_well_is_done_and_its_document_is_kept(run):
    job = run("print('{}')")
    assert state_of(job) is JobState.DONE
    assert job.ended["exit_code"] == 0
    assert json.loads(job.talk_path.with_suffix(".json").read_text()) == {}


def test_a_sweep_that_fails_tells_the_last_thing_it_said(run):
    job = run("import sys; print('advisor: no such disk', file=sys.stderr); sys.exit(2)")
    assert state_of(job) is JobState.FAILED
    assert (job.ended["exit_code"], job.ended["reason"]) == (2, "no such disk")


def test_a_sweep_that_the_kernel_kills_says_by_what(run):
    job = run("import os; os.kill(os.getpid(), 9)")
    assert state_of(job) is JobState.FAILED
    assert job.ended["reason"] == "killed by SIGKILL"


def test_a_sweep_that_is_asked_to_end_is_ended_politely(run):
    said = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143)); time.sleep(60)"
    job = run(said, stop=True)
    assert state_of(job) is JobState.STOPPED
    assert "asked" in job.ended["reason"]


def test_a_sweep_ends_when_its_time_is_over(run):
    job = run(WAITS, max_minutes=0.005)
    assert state_of(job) is JobState.STOPPED
    assert "minutes are over" in job.ended["reason"]


def test_nothing_is_begun_twice(run):
    job = run("pass")
    with pytest.raises(UsageError, match="not begun again"):
        running.run_job(job.id)


def test_a_killed_process_takes_its_sweep_with_it_and_is_told_as_lost(tmp_path):
    """In a process of its own, whose end the kernel tells to the sweep."""
    asked = {"on": "here", "words": [], "fields": {}, "planned": 1, "max_minutes": None}
    job = records.new_job(asked, datetime.now(UTC))
    place = tmp_path / "pid"
    waits = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = (
        "import sys; from advisor.runs.jobs import running; "
        f"running.command_of = lambda job: [sys.executable, '-c', {waits!r}]; "
        f"running.run_job({job.id!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while not (place.exists() and place.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    assert state_of(records.known_job(job.id)) is JobState.RUNNING
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(int(place.read_text()))
    assert state_of(records.known_job(job.id)) is JobState.LOST


def test_the_command_has_the_words_and_a_log_of_its_own():
    asked = {"on": "here", "words": ["sweep", "run", "--preset=small"], "fields": {}}
    job = records.Job(records.jobs_folder() / "x", asked, {}, {}, {})
    assert running.command_of(job)[-6:] == [
        "sweep", "run", "--preset=small", f"--log-file={job.events_path}", "-o", "json"
    ]  # fmt: skip
