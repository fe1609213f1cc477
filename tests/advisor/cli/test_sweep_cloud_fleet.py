"""`advisor sweep run --on aws --instance A,B`: an instance of each type, side by side."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from typing import Any

import pytest

from advisor.cli.main import run
from advisor.runs.cloud.exchange import End
from advisor.store.measurements import open_store
from tests.advisor.cli.test_sweep_cloud import GRID, account, after_launch, box_of, sent
from tests.infra.aws.bed import Bed, worn
from tests.sweeps.builders import measurement, trial

__all__ = ["account"]
BOTH = (
    *GRID,
    *shlex.split("--on aws --instance g4dn.xlarge,g6.xlarge --budget 5USD --owner ada --sweep-id"),
    *shlex.split("nightly --instance-profile none"),
)


def guests_that_measure(bed: Bed, endings: dict[str, End]) -> None:
    """The instance of each type sends a row of its own GPU after ten minutes, and powers off."""

    def finish(machine: Any) -> None:
        gpu = json.loads(box_of(bed, machine).get("job.json") or b"")["arguments"][-1]
        row = measurement(trial=trial(accelerator=gpu, emulated_step_seconds=None))
        sent(bed, machine, row, endings[machine.instance_type], "out of disk")

    after_launch(bed, 10, finish)


@pytest.mark.slow
def test_each_type_measures_its_own_gpu_within_one_budget(account, answer) -> None:
    guests_that_measure(account, {"g4dn.xlarge": End.DONE, "g6.xlarge": End.DONE})
    document = answer(*BOTH)
    assert document["measured_now"] == 2
    assert [instance["run"]["ended"] for instance in document["sweeps"]] == ["done", "done"]
    assert document["spent_usd"] == pytest.approx(
        sum(instance["run"]["spent_usd"] for instance in document["sweeps"])
    )
    budgets = {
        worn(instance)["advisor:sweep-id"]: worn(instance)["advisor:budget-usd"]
        for instance in account.instances()
    }
    assert budgets.keys() == {"nightly-g4dn-xlarge", "nightly-g6-xlarge"}
    assert sum(map(float, budgets.values())) <= 5.0
    assert account.left() == []
    with closing(open_store()) as store:
        rows = store.read().measurements
    assert {str(instance.trial.accelerator) for instance in rows} == {"cuda:T4", "cuda:L4"}


@pytest.mark.slow
def test_one_that_fails_takes_no_other_along(account, capsys) -> None:
    guests_that_measure(account, {"g4dn.xlarge": End.DONE, "g6.xlarge": End.FAILED})
    assert run(list(BOTH)) == 1
    printed = capsys.readouterr()
    assert "g4dn.xlarge: All is measured: 1 measurement came back." in printed.out
    assert "out of disk" in printed.err
    assert account.left() == []


def test_what_one_of_them_lacks_is_told_before_any_is_launched(said, account) -> None:
    account.ways.out = {("g6.xlarge", "", "")}
    account.ways.quotas = {"L-DB2E81BA": 4.0, "L-3819A6DF": 0.0}
    account.ways.denied = {"TerminateInstances"}
    assert '"ec2:TerminateInstances"' in said(*BOTH, code=1)
    assert account.instances() == []


def test_a_dry_run_shows_both_plans_and_what_they_cost_together(account, answer, shown) -> None:
    document = answer(*BOTH, "--dry-run")
    assert [plan["budget_usd"] > 2 for plan in document["plans"]] == [False, True]
    assert sum(plan["budget_usd"] for plan in document["plans"]) == pytest.approx(5.0)
    assert "cuda:T4" in shown(*BOTH, "--dry-run")
