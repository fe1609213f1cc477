"""`sweep plan --adaptive` and `sweep simulate`, as a user calls them."""

import json
import shlex

import pytest
from click.testing import CliRunner

from advisor.cli.sweep import sweep
from advisor.errors import AdvisorError, DataError, UsageError

GRID = (
    *shlex.split("--networks googlenet --tasks inference --vcpus 0.5,1 --memory 1GiB,2GiB,4GiB"),
    *shlex.split("--disks slow=12MiB/s,unlimited --accelerator emulated:T4"),
)
TABLE = "nodes,kind,usd_per_hour,throughput\n" + "".join(
    f"{nodes},{kind},{nodes * price:g},{nodes**0.9 * rate:g}\n"
    for nodes in (1, 2, 4, 8)
    for kind, price, rate in (("c", 0.1, 50), ("m", 0.12, 55), ("r", 0.16, 90))
)


def ask(*arguments):
    result = CliRunner().invoke(sweep, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(TABLE)
    return path


def test_an_adaptive_plan_shows_anchors_time_and_cost():
    document = json.loads(
        ask(*("plan", *GRID, "--adaptive", "--budget", "9trials"), *("--usd-per-hour", "0.6", "-o", "json"))
    )
    assert document["schema"] == "advisor.adaptive-plan/1"
    assert 6 <= len(document["next"]) <= 8
    assert document["most_trials"] == 9
    assert document["most_usd"] == pytest.approx(9 * 15 / 3600 * 0.6, abs=1e-4)
    shown = ask("plan", *GRID, "--adaptive", "--budget", "5USD", "--instance", "g4dn.xlarge")
    assert "D-optimal" in shown
    assert "$" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--adaptive",), "--budget"),
        (("--budget", "2h"), "--adaptive"),
        (("--adaptive", "--budget", "2h", "--repeats", "3"), "repeats"),
        (("--adaptive", "--budget", "2h", "--instance", "g4dn.xlarg"), "g4dn.xlarge"),
        (("--adaptive", "--budget", "2h", "--usd-per-hour", "-1"), "usd-per-hour"),
        (("--adaptive", "--budget", "2h", "--target-throughput", "fast"), "target-throughput"),
    ],
)
def test_a_wrong_flag_is_named(arguments, said):
    with pytest.raises(AdvisorError, match=said):
        ask("plan", *GRID, *arguments)


def test_failed_trials_are_not_measured_again_by_a_sweep_that_plans_itself():
    with pytest.raises(UsageError, match="--retry-failed"):
        ask("run", *GRID, "--adaptive", "--budget", "2h", "--retry-failed")


def test_a_simulation_tells_trials_regret_and_why_it_stopped(table):
    document = json.loads(ask("simulate", "--table", table, "--budget", "8trials", "-o", "json"))
    assert document["schema"] == "advisor.sweep-simulation/1"
    assert len(document["trials"]) <= 8
    assert document["trials"][-1]["regret"] < 0.05
    assert document["stopped"]
    regrets = [one["regret"] for one in document["trials"]]
    assert regrets == sorted(regrets, reverse=True)


def test_a_target_is_met_by_the_cheapest_that_reaches_it(table):
    shown = ask(
        "simulate", "--table", table, "--target-throughput", "200", "--no-stop", "--budget", "12trials"
    )
    assert "The cheapest was found" in shown
    assert "failed" in shown


def test_the_same_seed_gives_the_same_simulation(table):
    assert ask("simulate", "--table", table, "--seed", "3") == ask(
        "simulate", "--table", table, "--seed", "3"
    )


def test_other_workloads_of_the_table_are_its_history(tmp_path):
    path = tmp_path / "all.csv"
    lines = [f"{name},{nodes},{abs(nodes - 4) + 1}\n" for name in "ab" for nodes in range(1, 9)]
    path.write_text("workload,nodes,cost\n" + "".join(lines))
    document = json.loads(ask("simulate", "--table", path, "--workload", "b", "-o", "json"))
    assert document["other_workloads"] == 1
    assert document["trials"][0]["configuration"] == {"nodes": 4.0}
    with pytest.raises(UsageError, match="--workload"):
        ask("simulate", "--table", path)
    with pytest.raises(UsageError, match="unknown workload"):
        ask("simulate", "--table", path, "--workload", "c")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no rows"),
        ("a,cost\n", "no rows"),
        ("cost\n1\n", "describes a configuration"),
        ("a,cost\n1,-2\n", "line 2"),
        ("a,cost\n1,x\n", "line 2"),
        ("a,cost\n1,2,3\n", "more values"),
        ("a,a,cost\n1,2,3\n", "two columns of the same name"),
        ("a,cost,status\n1,2,failed\n", "nothing to find"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path, content, said):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=said):
        ask("simulate", "--table", path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--target-throughput", "9999"), "reaches 9999; lower --target-throughput"),
        (("--workload", "resnet50"), "leave --workload out"),
        (("--history", "/no/such.csv"), "no file '/no/such.csv'"),
        (("--history", "/"), "no file '/'"),
    ],
)
def test_a_simulation_of_what_is_not_there_names_the_way_out(table, asked, said):
    with pytest.raises(UsageError, match=said):
        ask("simulate", "--table", table, *asked)


def test_a_simulation_has_no_clock(table):
    with pytest.raises(UsageError, match="trials"):
        ask("simulate", "--table", table, "--budget", "2h")
