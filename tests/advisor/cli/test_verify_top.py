"""`advisor verify --on aws --top 3` as a user meets it: moto's instances side by side, whose guests
send what they measured; the choice, the store, and nothing left."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from datetime import timedelta
from typing import Any

import jsonschema
import pytest

from advisor.catalog import load_catalog
from advisor.cli.main import run
from advisor.domain import Task
from advisor.infra.aws.guest.result_bucket import ResultBucket
from advisor.runs.cloud.exchange import End, Phase, Sender, StateLog
from advisor.store.measurements import open_store
from tests.advisor.cli.test_sweep_cloud import account, schema
from tests.infra.aws.bed import Bed, worn
from tests.infra.aws.wire import Request
from tests.sweeps.builders import measurement, resources, trial

__all__ = ["account"]
ASK = (
    *shlex.split("verify --task inference --model googlenet --target-throughput 500 --on aws"),
    *shlex.split("--budget 3USD --owner ada --instance-profile none --top 3 -o json"),
)


def guests(bed: Bed, rates: dict[str, float], gpus: int = 1) -> dict[str, Any]:
    """Each instance sends what its type reaches (images/s), tells its end and powers off; a type
    without a rate fails its start. Returns the instances by type, as they were launched."""
    launched: dict[str, Any] = {}

    def finish(machine: Any) -> None:
        kind = machine.instance_type
        prefix = f"sweeps/{worn(machine)['advisor:sweep-id']}/{kind}"
        box = ResultBucket(bed.aws(), "us-east-1", "results", prefix)
        if kind in rates:
            vcpus = 1.0 + list(launched).index(kind)  # each its own trial
            row = measurement(
                trial=trial(
                    task=Task.INFERENCE if gpus == 1 else Task.TRAINING,
                    accelerator="cuda:T4",
                    resources=resources(vcpus=vcpus, gpu_count=gpus),
                ),
                step_seconds=(8 * gpus / rates[kind],) * 200,
                environment={"instance_type": kind},
            )
            Sender(box).send([row])
            StateLog(box, machine.id, bed.clock).note(Phase.ENDED, End.DONE, 0, "1 trial")
        bed.end(machine.id, "Client.InstanceInitiatedShutdown")

    def on_answer(request: Request) -> None:
        for machine in bed.instances("running"):
            if request.operation == "RunInstances" and machine.instance_type not in launched:
                launched[machine.instance_type] = machine
                moment = bed.clock.now() + timedelta(minutes=5)
                bed.clock.at(moment, lambda machine=machine: finish(machine))

    bed.faulty.on_answer = on_answer
    return launched


def planned(capsys: Any) -> list[str]:
    """The types that a dry run names, cheapest first."""
    run([*ASK, "--dry-run"])
    plans = json.loads(capsys.readouterr().out)["plans"]
    return [plan["command"][plan["command"].index("--instance") + 1] for plan in plans]


@pytest.mark.slow
def test_the_cheapest_that_reaches_it_is_taken_once_the_cheaper_one_has_missed(account, capsys) -> None:
    first, second, third = planned(capsys)
    assert account.instances() == []
    launched = guests(account, {first: 300.0, second: 900.0, third: 1200.0})
    assert run([*ASK]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    jsonschema.validate(document, schema("verified-choice"))
    assert (document["chosen"], document["settled"]) == (second, True)
    assert [one["verdict"] for one in document["candidates"]] == ["missed", "pass", "pass"]
    assert document["spent_usd"] < 3.0
    assert set(launched) == {first, second, third}
    assert account.left() == []
    with closing(open_store()) as store:
        assert len(store.read().measurements) == 3


@pytest.mark.slow
def test_a_type_with_several_gpus_is_measured_on_all_of_them(account, capsys) -> None:
    """No --max-gpus is sent, and what comes back counts a batch of each GPU."""
    ask = [{"inference": "training", "500": "2000", "3": "1", "3USD": "30USD"}.get(w, w) for w in ASK]
    assert run([*ask, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    kind = plan["command"][plan["command"].index("--instance") + 1]
    gpus = load_catalog().instance(kind, "aws").gpu_count
    assert gpus > 1
    assert "--max-gpus" not in plan["command"]
    guests(account, {kind: 2500.0}, gpus)
    assert run(ask) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("verified-choice"))
    measured = document["candidates"][0]["verification"]["measured"]
    assert (document["chosen"], measured["processes"]) == (kind, gpus)
    assert measured["throughput"]["median"] == pytest.approx(2500.0)


@pytest.mark.slow
def test_a_start_that_fails_leaves_the_others_and_keeps_the_choice_open(account, capsys) -> None:
    _, second, third = planned(capsys)
    guests(account, {second: 900.0, third: 1200.0})
    assert run([*ASK]) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (document["chosen"], document["settled"]) == (second, False)
    assert "nothing was measured" in document["candidates"][0]["error"]
    assert "undecided" in shown.err
    assert account.left() == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("--instance", "g4dn.xlarge"), "takes the best types"),
        (("--top", "9"), "8"),
        (("--target-throughput", "1e12"), "offer"),
    ],
)
def test_what_cannot_be_chosen_among_is_told(account, capsys, changed, told) -> None:
    assert run([*ASK, *changed]) in (2, 3)
    assert told in capsys.readouterr().err
    assert account.instances() == []
