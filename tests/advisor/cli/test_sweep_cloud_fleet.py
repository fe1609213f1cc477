"""`advisor sweep run --on aws --instance A,B`: an instance of each type, side by side."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from datetime import timedelta
from typing import Any

import jsonschema
import pytest

from advisor.cli.main import run
from advisor.infra.aws.guest.result_bucket import ResultBucket
from advisor.runs.cloud.exchange import End, Phase, Sender, StateLog
from advisor.store.measurements import open_store
from tests.advisor.cli.test_sweep_cloud import GRID, account, schema
from tests.infra.aws.bed import Bed, worn
from tests.infra.aws.wire import Request
from tests.sweeps.builders import measurement, trial

__all__ = ["account"]
BOTH = (
    *GRID,
    *shlex.split("--on aws --instance g4dn.xlarge,g6.xlarge --budget 5USD --owner ada --sweep-id"),
    *shlex.split("nightly --instance-profile none"),
)


def guests_that_measure(bed: Bed, endings: dict[str, End]) -> None:
    """The instance of each type sends a row of its own GPU after ten minutes, and powers off."""
    seen: set[str] = set()

    def finish(machine: Any) -> None:
        kind = machine.instance_type
        box = ResultBucket(
            bed.aws(), "us-east-1", "results", f"sweeps/nightly-{kind.replace('.', '-')}/{kind}"
        )
        gpu = json.loads(box.get("job.json") or b"")["arguments"][-1]
        Sender(box).send([measurement(trial=trial(accelerator=gpu, emulated_step_seconds=None))])
        StateLog(box, machine.id, bed.clock).note(Phase.ENDED, endings[kind], 0, "out of disk")
        bed.end(machine.id, "Client.InstanceInitiatedShutdown")

    def on_answer(request: Request) -> None:
        if request.operation != "RunInstances":
            return
        for machine in bed.instances("running"):
            if machine.id not in seen:
                seen.add(machine.id)
                moment = bed.clock.now() + timedelta(minutes=10)
                bed.clock.at(moment, lambda machine=machine: finish(machine))

    bed.faulty.on_answer = on_answer


@pytest.mark.slow
def test_each_type_measures_its_own_gpu_within_one_budget(account, capsys) -> None:
    guests_that_measure(account, {"g4dn.xlarge": End.DONE, "g6.xlarge": End.DONE})
    assert run([*BOTH, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("cloud-fleet"))
    assert document["measured_now"] == 2
    assert [one["run"]["ended"] for one in document["sweeps"]] == ["done", "done"]
    assert document["spent_usd"] == pytest.approx(sum(one["run"]["spent_usd"] for one in document["sweeps"]))
    budgets = {worn(one)["advisor:sweep-id"]: worn(one)["advisor:budget-usd"] for one in account.instances()}
    assert budgets.keys() == {"nightly-g4dn-xlarge", "nightly-g6-xlarge"}
    assert sum(map(float, budgets.values())) <= 5.0
    assert account.left() == []
    with closing(open_store()) as store:
        rows = store.read().measurements
    assert {str(one.trial.accelerator) for one in rows} == {"cuda:T4", "cuda:L4"}


@pytest.mark.slow
def test_one_that_fails_takes_no_other_along(account, capsys) -> None:
    guests_that_measure(account, {"g4dn.xlarge": End.DONE, "g6.xlarge": End.FAILED})
    assert run(list(BOTH)) == 1
    told = capsys.readouterr()
    assert "g4dn.xlarge: All is measured: 1 measurement came back." in told.out
    assert "out of disk" in told.err
    assert account.left() == []


def test_what_one_of_them_lacks_is_told_before_any_is_launched(account, capsys) -> None:
    account.ways.out = {("g6.xlarge", "", "")}
    account.ways.quotas = {"L-DB2E81BA": 4.0, "L-3819A6DF": 0.0}
    account.ways.denied = {"TerminateInstances"}
    assert run(list(BOTH)) == 1
    assert '"ec2:TerminateInstances"' in capsys.readouterr().err
    assert account.instances() == []


def test_a_dry_run_shows_both_plans_and_what_they_cost_together(account, capsys) -> None:
    assert run([*BOTH, "--dry-run", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("cloud-fleet-plan"))
    assert [one["budget_usd"] > 2 for one in document["plans"]] == [False, True]
    assert sum(one["budget_usd"] for one in document["plans"]) == pytest.approx(5.0)
    assert run([*BOTH, "--dry-run"]) == 0
    assert "cuda:T4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("--budget", "0.1USD"), "g4dn.xlarge, with its share of the budget"),
        (("--instance", "g4dn.xlarge,g6.xlrage"), "did you mean g6.xlarge"),
        (("--instance", "g4ad.xlarge"), "trials run on NVIDIA GPUs"),
        (("--instance", ","), "--instance is empty"),
    ],
)
def test_what_cannot_be_asked_names_the_type(account, capsys, changed, told) -> None:
    start = BOTH.index("--instance")
    asked = [*BOTH[:start], *BOTH[start + 2 :]] if "--instance" in changed else BOTH
    assert run([*asked, *changed]) == 2
    assert told in capsys.readouterr().err
    assert account.instances() == []
