"""`advisor sweep status --watch` and `log`, beside sweeps and over a database that goes away."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.errors import DataError
from advisor.runs.sweeps.status import drivers_here
from advisor.store.measurements import SqlStore, open_store
from advisor.sweeps.trial.ownership import this_process
from tests.advisor.cli.test_sweep import GRID
from tests.builders import keep
from tests.processes import all_of, as_in_a_terminal
from tests.sweeps.builders import measurement, resources, trial

ROOT = Path(__file__).parents[3]
ADVISOR = [sys.executable, "-m", "advisor"]
TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 4)]
FAST = ("--watch", "--every", "0.05s", "-o", "json")


def statuses(text):
    return [json.loads(line) for line in text.splitlines()]


def test_watching_ends_when_nothing_runs_any_more_and_tells_a_line_each_time(sweep, monkeypatch):
    owner, looks = this_process(), []
    running = SqlStore.running

    def looking(self):
        looks.append(1)
        if len(looks) == 3:
            store.join(measurement(trial=TRIALS[1]), _fresh, owner=owner)
        return running(self)

    monkeypatch.setattr(SqlStore, "running", looking)
    with closing(open_store()) as store:
        store.append_all([measurement(trial=TRIALS[0])])
        store.leases.take({TRIALS[1].trial_id: ""}, owner)
        store.leases.begin(TRIALS[1].trial_id, owner, "the second")
        seen = statuses(sweep("status", *FAST))
    assert seen[0]["running"][0]["trial"] == "the second"
    assert seen[1]["counts"] == {"ok": 1, "waiting": 1}
    assert [(event["running"], event["counts"]) for event in seen[2:]] == [([], {"ok": 2})] * 2


def test_a_store_tells_no_end_of_a_sweep_whose_other_trials_it_does_not_know(sweep):
    owner = this_process()
    with closing(open_store()) as store:
        store.append_all([measurement(trial=entry) for entry in TRIALS[:2]])
        store.leases.take({TRIALS[2].trial_id: ""}, owner)
        store.leases.begin(TRIALS[2].trial_id, owner, "the third")
        seen = sweep("status")
    assert "not begun are not counted: describe the sweep" in seen
    assert "the rest will" not in seen


def _fresh(_row, fresh):
    return fresh


_DRIVER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from advisor.store.measurements import open_store
from advisor.sweeps.trial.ownership import this_process

with closing(open_store()) as store:
    store.leases.take({sys.argv[1]: "held"}, this_process())
    print("holds", flush=True)
    time.sleep(60)
"""


def _refusing(kill):
    def killing(pid, number):
        if pid == os.getpid():
            raise PermissionError(1, "Operation not permitted")
        kill(pid, number)

    return killing


ELSEWHERE = {"name": "other", "host": "node-7", "place": "another boot"}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        pytest.param(ELSEWHERE, r"measured elsewhere: node-7 \(process", id="on another machine"),
        pytest.param({}, rf"process {os.getpid()} \(Operation not", id="of another user"),
    ],
)
def test_stop_ends_a_driver_of_this_machine_and_names_one_that_it_cannot(stderr, monkeypatch, other, words):
    assert re.search("nobody measures into this store", stderr("sweep", "stop", code=1))
    with closing(open_store()) as store:
        store.leases.take({TRIALS[0].trial_id: ""}, replace(this_process(), **other))
        command = [sys.executable, "-c", _DRIVER, TRIALS[1].trial_id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as here:
            assert here.stdout.readline() == "holds\n"
            monkeypatch.setattr(os, "kill", _refusing(os.kill))
            assert re.search(words, stderr("sweep", "stop", code=1))
            assert here.wait(timeout=30) == -signal.SIGTERM


@pytest.mark.slow
def test_stop_ends_a_sweep_that_still_makes_its_data_however_its_database_is_written(
    stderr, shown, tmp_path, monkeypatch
):
    """It has no lease yet; another folder's file of the same name is another database."""
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/m.sqlite")
    with closing(open_store()) as store:
        identity = store.identity
    near = {**os.environ, "ADVISOR_DATABASE_URL": "sqlite:///m.sqlite", "PYTHONPATH": str(ROOT)}
    command = [*ADVISOR, "sweep", "run", *GRID]
    with subprocess.Popen(command, env=near, cwd=tmp_path) as sweep:
        while not drivers_here(identity):
            assert sweep.poll() is None
            time.sleep(0.05)
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(tmp_path.parent)
            elsewhere.setenv("ADVISOR_DATABASE_URL", "sqlite:///m.sqlite")
            assert re.search("nobody measures into this store", stderr("sweep", "stop", code=1))
        assert f"(process {sweep.pid})" in shown("sweep", "stop")
        assert sweep.wait(timeout=60) == 128 + signal.SIGTERM
    assert drivers_here(identity) == set()


def test_a_database_that_goes_away_meanwhile_is_told_and_waited_for(sweep, monkeypatch):
    monkeypatch.setattr("advisor.cli.sweep_status._PATIENCE_SECONDS", 0.0)
    owner, looks = this_process(), []
    summaries = SqlStore.summaries

    def failing(self, *arguments):
        looks.append(1)
        if len(looks) in (3, 4):
            store.leases.give_back(owner)
            raise DataError("database 'db': gone; start it (postgresql://me:secret@db)")
        return summaries(self, *arguments)

    with closing(open_store()) as store:
        store.leases.take({TRIALS[0].trial_id: ""}, owner)
        store.leases.begin(TRIALS[0].trial_id, owner, "")
        monkeypatch.setattr(SqlStore, "summaries", failing)
        seen = statuses(sweep("status", *FAST))
    assert [bool(event["trouble"]) for event in seen] == [False, False, True, True, False, False]
    assert "gone" in seen[2]["trouble"]
    assert "secret" not in json.dumps(seen)
    assert seen[2]["running"]
    assert not seen[-1]["running"]


def test_a_database_that_was_never_seen_is_an_error(stderr, monkeypatch):
    monkeypatch.setattr("advisor.cli.sweep_status._PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("ADVISOR_DATABASE_URL", "postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in stderr("sweep", "status", *FAST, code=1)


def test_without_a_terminal_there_is_no_escape_code_and_a_trial_without_a_log_is_told_from_its_row(sweep):
    keep(measurement(trial=TRIALS[0], status=Status.OUT_OF_MEMORY))
    text = sweep("status", "--watch", "--every", "0.05")
    assert text == "1 trial\n     1  out of memory\n\n"
    keep(measurement(trial=TRIALS[0]))
    text = sweep("log", TRIALS[0].trial_id[:6])
    assert [words in text for words in ("planned", "status ok", "stored")] == [True] * 3


@pytest.mark.machine
@pytest.mark.slow
def test_a_real_sweep_is_seen_from_inside_and_from_another_terminal(sweep, images, tmp_path):
    """Live display on a pseudo terminal, status beside it, Ctrl-C, then the rest."""
    described = (*GRID, "--iterations", "20", "--data", str(images))
    metrics = tmp_path / "m.prom"
    how = ("--executor", "process", "--usd-per-hour", "1", "--metrics-file", str(metrics))
    how += ("--when-busy", "skip")
    command = [*ADVISOR, "sweep", "run", *described, *how]
    ours, theirs = os.openpty()
    on_screen = {"env": {**os.environ, "TERM": "xterm"}, "preexec_fn": as_in_a_terminal}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, **on_screen)
    os.close(theirs)
    reading = ThreadPoolExecutor(1).submit(all_of, ours)
    watching = [*ADVISOR, "sweep", "status", *described, "--watch", "--every", "0.2", "-o", "json"]
    watch = subprocess.Popen(watching, stdout=subprocess.PIPE, text=True)
    while not (first := open_store().all()) and process.poll() is None:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    shown = reading.result()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "of 2 done" in shown
    assert "cost" in shown

    rest = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in rest.stderr
    seen = statuses(watch.communicate()[0])
    assert watch.returncode == 0
    assert any(state["running"] for state in seen)
    assert (seen[-1]["left"], seen[-1]["trials"]) == (0, 2)
    assert "advisor_sweep_trials_skipped 1.0\n" in metrics.read_text()
    assert "advisor_sweep_trials_left 0.0\n" in metrics.read_text()

    events, whole = (
        [line["event"] for line in statuses(sweep("log", *trial, "-o", "json"))]
        for trial in ((first[0].trial.trial_id,), ())
    )
    before = {"planned", "began", "attempt_began", "worker_started", "loaded", "cache_prepared"}
    assert before <= set(events)
    assert events.index("limits_on") < events.index("attempt_ended") < events.index("stored")
    assert {"sweep_began", "sweep_ended"} <= set(whole)
