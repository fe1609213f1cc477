"""What the commands of sweeps print as JSON keeps the schemas that are shipped."""

import shlex

import pytest

from advisor.domain import Status
from advisor.sweeps.datasets.photographs import write_samples
from tests.sweeps.builders import measurement


class Executor:
    """Measures nothing; the second trial dies for want of memory."""

    def refuse_impossible(self, trials):
        pass

    def execute(self, trials):
        for number, one in enumerate(trials):
            if number == 1:
                yield measurement(trial=one, status=Status.OUT_OF_MEMORY, step_seconds=(), reason="killed")
            else:
                yield measurement(trial=one)

    def close(self):
        pass


@pytest.fixture
def grid(monkeypatch, tmp_path):
    """A grid over a few images, and an executor that measures nothing."""
    monkeypatch.setattr("advisor.sweeps.executors.process.ProcessExecutor", Executor)
    folder = tmp_path / "images"
    folder.mkdir()
    write_samples(folder, range(8), seed=0)
    return (
        *shlex.split("--networks alexnet --tasks inference --vcpus 0.5,1 --memory 1GiB,2GiB,4GiB"),
        *shlex.split("--disks slow=12MiB/s,unlimited --accelerator emulated:T4 --data"),
        folder,
        "--adaptive",
    )


def test_an_adaptive_sweep_before_it_begins_after_it_and_with_a_target(answer, grid):
    asked = (*grid, "--budget", "7trials")
    begun = answer("sweep", "plan", *asked)
    assert begun["doubt"] is None
    assert len(begun["next"]) >= 6
    ended = answer("sweep", "run", *asked, "--executor", "process", "--usd-per-hour", "0.5")
    assert ended["done"] == 7
    assert {one["state"] for one in ended["trials"]} == {"ok", "out_of_memory"}
    after = answer("sweep", "plan", *asked)
    assert (after["next"], after["done"]) == ([], 7)
    assert after["doubt"] == ended["doubt"] > 0
    target = answer("sweep", "plan", *asked, "--target-throughput", "150")
    assert target["doubt_is"] == "expected_price_regret"


@pytest.mark.parametrize("asked", [(), ("--target-throughput", "90", "--no-stop")])
def test_a_simulation_with_failures_and_words(answer, tmp_path, asked):
    table = tmp_path / "runs.csv"
    table.write_text("nodes,kind,usd_per_hour,throughput\n1,c,0.1,50\n2,c,0.2,95\n1,,0.12,\n2,m,0.24,101\n")
    answer("sweep", "simulate", "--table", table, *asked)


def test_the_way_out_of_a_failed_trial_is_one_that_an_adaptive_sweep_has(said, grid, monkeypatch):
    failed = Executor()
    failed.execute = lambda trials: (
        measurement(trial=one, status=Status.FAILED, step_seconds=(), reason="no such device")
        for one in trials
    )
    monkeypatch.setattr("advisor.sweeps.executors.process.ProcessExecutor", lambda: failed)
    asked = ("run", *map(str, grid), "--budget", "2trials", "--executor", "process")
    err = said("sweep", *asked, code=1)
    assert "no such device" in err
    assert "without --adaptive, with --retry-failed" in err


def test_the_status_of_a_sweep_with_trials_stored_and_waiting(answer, grid):
    described = grid[:-1]
    answer("sweep", "run", *grid, "--budget", "2trials", "--executor", "process")
    status = answer("sweep", "status", *described)
    assert status["counts"] == {"ok": 1, "out_of_memory": 1, "waiting": 10}
