"""A started sweep is a row: refused beside another one, executed once, ended when asked, never lost
from sight."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from advisor.errors import UsageError
from advisor.questions.reading import from_values
from advisor.runs import jobs
from advisor.runs.jobs import (
    OtherSweep,
    SweepState,
    execute,
    start_sweep,
    sweep_document,
    sweep_of,
    sweep_state,
)
from advisor.runs.sweep_questions import Allowed, NewSweep
from tests.advisor.runs.test_executing import failing
from tests.processes import gone

GRID = {"networks": "googlenet", "tasks": "inference", "vcpus": 1, "memory": "2GiB", "disks": "gp3"}
GRID["accelerator"] = "emulated:T4"


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    """Starts processes that never take their run in hand."""
    starting = Mock(**{"return_value.wait.return_value": 0})
    monkeypatch.setattr(jobs, "start_executor", starting)
    monkeypatch.setattr(jobs, "sweep_runs_here", lambda: False)
    return starting


def sweep(**changes):
    return jobs.requested_sweep(from_values(NewSweep, {**GRID, **changes}), Allowed())


def state_of(book, item):
    return sweep_state(sweep_of(book, item.sweep_id), time.time())


def test_a_sweep_by_hand_is_not_disturbed(book, processes, monkeypatch):
    monkeypatch.setattr(jobs, "sweep_runs_here", lambda: True)
    with pytest.raises(OtherSweep, match="another sweep runs"):
        start_sweep(book, sweep(), {})
    assert (processes.call_count, book.runs.sweeps()) == (0, [])


def test_sweeps_on_aws_go_side_by_side_up_to_a_few(book):
    aws = sweep(accelerator=None, on="aws", instance="g4dn.xlarge", budget="1USD")
    start_sweep(book, sweep(), {})
    for _ in range(4):
        start_sweep(book, aws, {})
    with pytest.raises(OtherSweep, match="AWS"):
        start_sweep(book, aws, {})


def test_a_sweep_whose_process_never_came_up_is_lost_and_blocks_nobody(book, monkeypatch):
    first = start_sweep(book, sweep(), {})
    assert sweep_state(first, first.due_at + 3600) is SweepState.LOST
    monkeypatch.setattr(jobs, "STARTING_SECONDS", 0.0)
    assert "never came up" in sweep_document(first)["reason"]
    start_sweep(book, sweep(), {})
    with pytest.raises(UsageError, match="is lost"):
        execute(book, first.number, follow=dict, report=dict)


@pytest.mark.parametrize("name", ["", "..", "../x", "20261121T120000-0000000", "lock"])
def test_what_is_no_id_is_no_sweep(book, name):
    with pytest.raises(UsageError, match="there is no sweep"):
        sweep_of(book, name)


def test_the_latest_come_first_and_the_oldest_that_ended_are_forgotten(book, monkeypatch):
    monkeypatch.setattr(jobs, "MOST_KEPT", 1)
    sweeps = []
    for _ in range(4):
        item = start_sweep(book, sweep(), {})
        book.runs.give_up(item.number, "over", now=time.time())
        sweeps.append(item)
    assert {item.sweep_id for item in book.runs.sweeps()} == {sweeps[-1].sweep_id, sweeps[-2].sweep_id}
    assert [Path(item.log).parent.exists() for item in sweeps] == [False, False, True, True]


def test_the_command_has_the_words_and_a_log_of_its_own(book):
    item = start_sweep(book, sweep(), {"networks": "googlenet"}, max_minutes=5)
    assert sweep_document(item)["max_minutes"] == 5
    command = jobs.command_of(item)
    assert command[-3:] == [f"--log-file={jobs.events_path(item)}", "-o", "json"]
    assert "--networks=googlenet" in command


@pytest.fixture
def run(book, monkeypatch):
    """Executes a sweep that is a line of Python; returns it as it is then."""
    monkeypatch.setattr(jobs, "_lower_priority", lambda: None)

    def executed(code, *, stop=False, max_minutes=None):
        item = start_sweep(book, sweep(), {}, max_minutes=max_minutes)
        if stop:
            jobs.stop_sweep(book, item.sweep_id)
        monkeypatch.setattr(jobs, "command_of", lambda _one: [sys.executable, "-c", code])
        execute(book, item.number, follow=dict, report=dict)
        return sweep_of(book, item.sweep_id)

    return executed


def test_a_sweep_that_ends_well_is_done_and_its_document_is_kept(run):
    item = run("print('{}')")
    assert (sweep_state(item, time.time()), item.exit_code) == (SweepState.DONE, 0)
    assert json.loads(Path(item.log).with_suffix(".json").read_text()) == {}


SLEEPING = "import time; time.sleep(60)"
POLITE = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143)); time.sleep(60)"


@pytest.mark.parametrize(
    ("code", "question", "state", "exit_codes", "reason"),
    [
        (failing("no such disk", 2), {}, SweepState.FAILED, {2}, "no such disk"),
        ("import os; os.kill(os.getpid(), 9)", {}, SweepState.FAILED, {-9}, "killed by SIGKILL"),
        (POLITE, {"stop": True}, SweepState.STOPPED, {143, -15}, ".*asked.*"),
        (SLEEPING, {"max_minutes": 0.005}, SweepState.STOPPED, {-15}, ".*minutes are over.*"),
    ],
)
def test_how_a_sweep_ended_is_told_with_its_reason(run, code, question, state, exit_codes, reason):
    """By its own error, by the kernel, because it was asked to, or because its time was over."""
    item = run(code, **question)
    assert sweep_state(item, time.time()) is state
    assert item.exit_code in exit_codes
    assert re.fullmatch(reason, sweep_document(item)["reason"])


def test_nothing_is_begun_twice(book, run):
    item = run("pass")
    with pytest.raises(UsageError, match="not begun again"):
        execute(book, item.number, follow=dict, report=dict)


RUNNER = """
import sys
from advisor.cli import main
from advisor.runs import jobs
jobs.command_of = lambda _one: [sys.executable, "-c", sys.argv[2]]
main.main(["schedule", "execute", sys.argv[1]])
"""


def test_a_killed_process_takes_its_sweep_with_it_and_is_lost(book, tmp_path):
    """In a process of its own, whose end the kernel signals to the sweep."""
    item, pid = start_sweep(book, sweep(), {}), tmp_path / "pid"
    waits = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    environment = {**os.environ, "ADVISOR_DATABASE_URL": f"sqlite:///{book.name}"}
    process = subprocess.Popen([sys.executable, "-c", RUNNER, str(item.number), waits], env=environment)
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    assert state_of(book, item) is SweepState.RUNNING
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert gone(int(pid.read_text()))
    assert state_of(book, item) is SweepState.LOST


# Commands as child processes: whoever ends one finds it, however early.
EARLY = """
import os, signal, sys
from pathlib import Path
from advisor.runs.processes import command_process

def leave(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, leave)
# In the child, before any code of this process has run there.
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
with command_process(["sleep", "30"], sys.argv[1], Path(sys.argv[1]) / "a.log") as process:
    print(process.wait())
"""


def test_a_signal_between_fork_and_exec_ends_the_command(tmp_path):
    """Though the parent has a handler of its own, which the child inherits until its exec."""
    done = subprocess.run([sys.executable, "-c", EARLY, tmp_path], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str(-signal.SIGTERM), done.stderr
