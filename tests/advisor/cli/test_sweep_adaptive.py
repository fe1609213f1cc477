"""`sweep plan --adaptive` and `sweep simulate`, as a user calls them, and the schemas that sweeps print."""

import re
import shlex

import pytest

from advisor.domain import Status

GRID = (
    *shlex.split("--networks googlenet --tasks inference --vcpus 0.5,1 --memory 1GiB,2GiB,4GiB"),
    *shlex.split("--disks slow=12MiB/s,unlimited --accelerator emulated:T4"),
)
TABLE = "nodes,kind,usd_per_hour,throughput\n" + "".join(
    f"{nodes},{kind},{nodes * price:g},{nodes**0.9 * rate:g}\n"
    for nodes in (1, 2, 4, 8)
    for kind, price, rate in (("c", 0.1, 50), ("m", 0.12, 55), ("r", 0.16, 90))
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(TABLE)
    return path


def test_an_adaptive_plan_shows_trials_time_and_cost(answer, sweep):
    words = ("plan", *GRID, "--adaptive", "--budget", "9trials", "--usd-per-hour", "0.6")
    document = answer("sweep", *words)
    assert document["schema"] == "advisor.adaptive-plan/1"
    assert (len(document["next"]), document["most_trials"]) == (4, 9)
    assert document["most_usd"] == pytest.approx(9 * 15 / 3600 * 0.6, abs=1e-4)
    shown = sweep("plan", *GRID, "--adaptive", "--budget", "5USD", "--instance", "g4dn.xlarge")
    assert "most of the rates" in shown
    assert "$" in shown
    assert "At most 1 trial, about" in sweep("plan", *GRID, "--adaptive", "--budget", "1trial")


def test_a_simulation_tells_trials_regret_and_target_and_a_seed_repeats_it(answer, table, sweep):
    document = answer("sweep", "simulate", "--table", table, "--budget", "8trials")
    assert document["schema"] == "advisor.sweep-simulation/1"
    assert len(document["trials"]) <= 8
    assert document["trials"][-1]["regret"] < 0.05
    assert document["stopped"]
    regrets = [trial["regret"] for trial in document["trials"]]
    assert regrets == sorted(regrets, reverse=True)
    target = ("--target-throughput", "200", "--no-stop", "--budget", "12trials")
    shown = sweep("simulate", "--table", table, *target)
    assert ("The cheapest was found" in shown, "failed" in shown) == (True, True)
    words = ("simulate", "--table", table, "--seed", "3")
    assert sweep(*words) == sweep(*words)


def test_other_workloads_of_the_table_are_its_history(answer, stderr, tmp_path):
    path = tmp_path / "all.csv"
    lines = [f"{name},{nodes},{abs(nodes - 4) + 1}\n" for name in "ab" for nodes in range(1, 9)]
    path.write_text("workload,nodes,cost\n" + "".join(lines))
    document = answer("sweep", "simulate", "--table", path, "--workload", "b")
    assert document["other_workloads"] == 1
    assert document["trials"][0]["configuration"] == {"nodes": 4.0}
    assert re.search("--workload", stderr("sweep", "simulate", "--table", path))
    assert re.search("unknown workload", stderr("sweep", "simulate", "--table", path, "--workload", "c"))


@pytest.fixture
def grid(images, measured):
    """A grid over a few images; the second trial dies for want of memory."""
    killed = {"status": Status.OUT_OF_MEMORY, "step_seconds": (), "reason": "killed"}
    measured.of = lambda number: killed if number == 2 else {}
    return (
        *shlex.split("--networks alexnet --tasks inference --vcpus 0.5,1 --memory 1GiB,2GiB,4GiB"),
        *shlex.split("--disks slow=12MiB/s,unlimited --accelerator emulated:T4 --data"),
        images,
        "--adaptive",
    )


def test_an_adaptive_sweep_before_it_begins_after_it_and_with_a_target(answer, grid):
    question = (*grid, "--budget", "7trials")
    begun = answer("sweep", "plan", *question)
    assert (begun["doubt"], len(begun["next"])) == (None, 4)
    ended = answer("sweep", "run", *question, "--executor", "process", "--usd-per-hour", "0.5")
    assert ended["done"] == 7
    assert {trial["state"] for trial in ended["trials"]} == {"ok", "out_of_memory"}
    after = answer("sweep", "plan", *question)
    assert (after["next"], after["done"]) == ([], 7)
    assert after["doubt"] == ended["doubt"] > 0
    target = answer("sweep", "plan", *question, "--target-throughput", "150")
    assert target["doubt_is"] == "expected_price_regret"


def test_the_way_out_of_a_failed_trial_is_one_that_an_adaptive_sweep_has(stderr, grid, measured):
    measured.of = lambda _number: {}
    measured.row |= {"status": Status.FAILED, "step_seconds": ()}
    question = ("run", *map(str, grid), "--budget", "2trials", "--executor", "process")
    err = stderr("sweep", *question, code=1)
    assert "no such device" in err
    assert "without --adaptive, with --retry-failed" in err
