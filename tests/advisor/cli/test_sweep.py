import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.domain import LimitedBy, Status
from advisor.store.measurements import open_store

GRID = (
    *shlex.split("--networks googlenet --tasks preprocessing --vcpus 0.5,1 --memory 1GiB --disks"),
    *shlex.split("unlimited --accelerator cpu"),
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ((), "2 trials, about 1 min, $0.01"),
        (("--repeats", "20"), "2 trials in 40 runs, about 10 min, $0.100"),
        (("--iterations", "9000"), "2 trials; --iterations has each take as long as its steps do"),
    ],
)
def test_a_plan_tells_the_time_of_all_runs_or_that_nobody_knows_it(sweep, question, said):
    assert said in sweep("plan", *GRID, "--usd-per-hour", "0.6", *question)


def test_the_small_preset_covers_what_a_model_needs(answer):
    trials = [trial["trial"] for trial in answer("sweep", "plan", "--preset", "small")["trials"]]
    resources = [trial["resources"] for trial in trials]
    assert len(trials) >= 24
    assert {has["vcpus"] for has in resources} == {0.5, 1.0, 2.0}
    assert len({has["disk"]["type"] for has in resources}) == 2
    assert {trial["accelerator"] for trial in trials} == {"cpu", "emulated:T4"}
    dataset_mib = trials[0]["workload"]["dataset"]["samples"] * 104_000 / 2**20
    sizes = {has["memory_mib"] for has in resources}
    assert any(200 < size < dataset_mib for size in sizes)
    assert any(size > dataset_mib for size in sizes)
    assert {trial["workload"]["task"] for trial in trials} == {"training", "inference", "preprocessing"}


def test_a_disk_path_must_be_mounted_and_how_well_is_measured_is_part_of_the_trial(
    stderr, monkeypatch, tmp_path, answer
):
    monkeypatch.setattr("advisor.runs.fields._is_on_root_disk", lambda _folder: True)
    said = stderr("sweep", "plan", *GRID, "--disk-path", f"unlimited={tmp_path}")
    assert re.search(r"nothing is mounted there; .*unlimited=/ where", said)
    monkeypatch.setattr("advisor.runs.fields._is_on_root_disk", lambda _folder: False)
    question = ("--rel-error", "1%", "--repeats", "3", "--iterations", "1000")
    special = answer("sweep", "plan", *GRID, "--disk-path", f"unlimited={tmp_path}", *question)["trials"]
    plain = answer("sweep", "plan", *GRID)["trials"]
    plan = special[0]["trial"]["plan"]
    assert plan == plan | {"rel_error": 0.01, "repeats": 3, "iterations": 1000, "disk_source": "mounted"}
    assert special[0]["trial"]["dataset_path"].startswith(str(tmp_path))
    assert plain[0]["trial"]["plan"]["rel_error"] == 0.02
    assert "repeats" not in plain[0]["trial"]["plan"]
    assert {row["trial_id"] for row in plain}.isdisjoint(row["trial_id"] for row in special)


@pytest.mark.parametrize("how", [(), ("--adaptive", "--budget", "2trials")])
def test_a_run_measures_once_and_again_once_what_is_older_than_fresh_since(answer, images, measured, how):
    command = ("run", *GRID, *how, "--data", images, "--executor", "process")
    fresh = ("--fresh-since", "2027-01-04T03:00+01:00")
    assert [answer("sweep", *command)["measured_now"] for _ in range(2)] == [2, 0]
    measured.row["started_at"] = "2027-01-04T02:00:01+00:00"
    assert [answer("sweep", *command, *fresh)["measured_now"] for _ in range(2)] == [2, 0]
    assert len(measured.given) == 4


def test_status_and_list_tell_what_is_left(sweep, answer, images, measured):
    assert answer("sweep", "status", *GRID, "--data", images)["counts"] == {"waiting": 2}
    sweep("run", *GRID, "--data", images, "--executor", "process")
    assert "2  ok" in sweep("status")
    listed = answer("sweep", "list")["trials"]
    assert [row["state"] for row in listed] == ["ok", "ok"]
    assert all(row["throughput_samples_per_second"] > 0 for row in listed)


def test_failed_trials_are_stored_told_and_measured_again_when_asked(sweep, stderr, images, measured):
    measured.row["status"] = Status.FAILED
    command = ("run", *GRID, "--data", images, "--executor", "process")
    assert re.search(r"2 of 2 .*such device.*--retry-failed", stderr("sweep", *command, code=1))
    measured.row["status"] = Status.OK
    sweep(*command)
    assert len(measured.given) == 2
    sweep(*command, "--retry-failed")
    assert len(measured.given) == 4
    assert {row.status for row in open_store().all()} == {Status.OK}


def test_a_second_sweep_on_the_machine_is_refused(stderr, images, measured, monkeypatch):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0instance-sizing-advisor/{os.environ['ADVISOR_SWEEP_LOCK']}")
        words = ("run", *GRID, "--data", images, "--executor", "process")
        assert "another sweep" in stderr("sweep", *words, code=1)


@pytest.mark.kills
@pytest.mark.machine
@pytest.mark.slow
def test_a_killed_sweep_leaves_nothing_and_goes_on(images, tmp_path):
    """kill -9 in the middle of the second trial: one row is kept, one trial is measured again."""
    how = ("--data", str(images), "--executor", "process", "--when-busy", "skip", "-o", "json")
    command = [sys.executable, "-m", "advisor", "sweep", "run", *GRID, *how]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    sweeping = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while not (first := open_store().all()) and sweeping.poll() is None:
        time.sleep(0.1)
    sweeping.send_signal(signal.SIGKILL)
    sweeping.wait()
    sweeping.stdout.close()
    done = subprocess.run(command, env=environment, check=True, capture_output=True)
    assert json.loads(done.stdout)["measured_now"] == 2 - len(first)
    rows = open_store().all()
    assert rows[: len(first)] == first
    assert len(rows) == 2
    limits = {LimitedBy.CGROUP_V1, LimitedBy.CGROUP_V2, LimitedBy.AFFINITY, LimitedBy.NONE}
    assert {row.limited_by for row in rows} <= limits
    assert not list(Path("/sys/fs/cgroup").glob(f"*/advisor-{sweeping.pid}-*"))
