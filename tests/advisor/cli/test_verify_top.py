"""`advisor verify --on aws --top 3` as a user meets it: moto's instances side by side, whose guests
send what they measured; the choice, the store, and nothing left."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from typing import Any

import pytest

from advisor.catalog import load_catalog
from advisor.domain import Task
from advisor.store.measurements import open_store
from tests.advisor.cli.test_sweep_cloud import account, after_launch, sent
from tests.infra.aws.bed import Bed
from tests.sweeps.builders import measurement, resources, trial

__all__ = ["account"]
ASK = (
    *shlex.split("verify --task inference --model googlenet --target-throughput 500 --on aws"),
    *shlex.split("--budget 3USD --owner ada --instance-profile none --top 3"),
)


def guests(bed: Bed, rates: dict[str, float], gpus: int = 1) -> dict[str, Any]:
    """Each instance sends what its type reaches (images/s), tells its end and powers off; a type
    without a rate fails its start. Returns the instances by type, as they were launched."""
    kinds: dict[str, Any] = {}

    def finish(machine: Any) -> None:
        kind = machine.instance_type
        kinds[kind] = machine
        if kind not in rates:
            bed.end(machine.id, "Client.InstanceInitiatedShutdown")
            return
        row = measurement(
            trial=trial(
                task=Task.INFERENCE if gpus == 1 else Task.TRAINING,
                accelerator="cuda:T4",
                resources=resources(vcpus=float(len(kinds)), gpu_count=gpus),  # each its own trial
            ),
            step_seconds=(8 * gpus / rates[kind],) * 200,
            environment={"instance_type": kind},
        )
        sent(bed, machine, row, said="1 trial")

    after_launch(bed, 5, finish)
    return kinds


def planned(answer: Any) -> list[str]:
    """The types that a dry run names, cheapest first."""
    plans = answer(*ASK, "--dry-run")["plans"]
    return [plan["command"][plan["command"].index("--instance") + 1] for plan in plans]


@pytest.mark.slow
def test_the_cheapest_that_reaches_it_is_taken_once_the_cheaper_one_has_missed(answer, account) -> None:
    first, second, third = planned(answer)
    assert account.instances() == []
    launched = guests(account, {first: 300.0, second: 900.0, third: 1200.0})
    document = answer(*ASK)
    assert (document["chosen"], document["settled"]) == (second, True)
    assert [candidate["verdict"] for candidate in document["candidates"]] == ["missed", "pass", "pass"]
    assert document["spent_usd"] < 3.0
    assert set(launched) == {first, second, third}
    assert account.left() == []
    with closing(open_store()) as store:
        assert len(store.read().measurements) == 3


@pytest.mark.slow
def test_a_type_with_several_gpus_is_measured_on_all_of_them(answer, account) -> None:
    """No --max-gpus is sent, and what comes back counts a batch of each GPU."""
    ask = [{"inference": "training", "500": "2000", "3": "1", "3USD": "30USD"}.get(w, w) for w in ASK]
    plan = answer(*ask, "--dry-run")
    kind = plan["command"][plan["command"].index("--instance") + 1]
    gpus = load_catalog().instance(kind, "aws").gpu_count
    assert gpus > 1
    assert "--max-gpus" not in plan["command"]
    guests(account, {kind: 2500.0}, gpus)
    document = answer(*ask)
    measured = document["candidates"][0]["verification"]["measured"]
    assert (document["chosen"], measured["processes"]) == (kind, gpus)
    assert measured["throughput"]["median"] == pytest.approx(2500.0)


@pytest.mark.slow
def test_a_start_that_fails_leaves_the_others_and_keeps_the_choice_open(answer, ask, account) -> None:
    _, second, third = planned(answer)
    guests(account, {second: 900.0, third: 1200.0})
    code, out, err = ask(*ASK, "-o", "json")
    document = json.loads(out)
    assert code == 1
    assert (document["chosen"], document["settled"]) == (second, False)
    assert "nothing was measured" in document["candidates"][0]["error"]
    assert "undecided" in err
    assert account.left() == []
