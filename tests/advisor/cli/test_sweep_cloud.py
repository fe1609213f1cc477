"""`advisor sweep run --on aws` against moto behind EC2's own ways, for one type and for several."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import boto3
import msgspec
import pytest
from msgspec.structs import replace

from advisor.cli.main import run
from advisor.infra.aws import regions
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.runs.cloud.exchange import End, Phase, StateLog, object_of
from advisor.store.measurements import open_store
from tests.infra.aws.bed import Bed, worn
from tests.infra.aws.wire import Request
from tests.sweeps.builders import PROFILE, measurement, trial

GRID = (
    *shlex.split("sweep run --networks resnet50 --tasks training --vcpus 1,2 --memory 4GiB"),
    *shlex.split("--disks gp3,st1:500GiB"),
)
ON_AWS = (
    *GRID,
    *shlex.split("--on aws --instance g4dn.xlarge --budget 5USD --owner ada --sweep-id nightly"),
    *shlex.split("--instance-profile none"),
)


def after_launch(bed: Bed, minutes: float, act: Callable[[Any], None]) -> dict[str, Any]:
    """Have something happen to each instance a while after its launch; returns them by id."""
    launched: dict[str, Any] = {}

    def on_answer(request: Request) -> None:
        for machine in bed.instances("running"):
            if request.operation == "RunInstances" and machine.id not in launched:
                launched[machine.id] = machine
                moment = bed.clock.now() + timedelta(minutes=minutes)
                bed.clock.at(moment, lambda machine=machine: act(machine))

    bed.faulty.on_answer = on_answer
    return launched


def box_of(bed: Bed, machine: Any) -> ResultBucket:
    """Where an instance sends what it measured."""
    prefix = f"sweeps/{worn(machine)['advisor:sweep-id']}/{machine.instance_type}"
    return ResultBucket(bed.aws(), "us-east-1", "results", prefix)


def sent(bed: Bed, machine: Any, row: Any, ending: End = End.DONE, said: str = "29 trials") -> None:
    """A guest sends a measurement, tells its end and powers off."""
    box = box_of(bed, machine)
    box.put_once(*object_of(row))
    StateLog(box, machine.id, bed.clock).note(Phase.ENDED, ending, 0, said)
    bed.end(machine.id, "Client.InstanceInitiatedShutdown")


def guest_that_measures(bed: Bed, minutes: float, ending: End = End.DONE, **row: Any) -> None:
    """Each instance sends a measurement after a while, tells its end and powers off."""

    def finish(machine: Any) -> None:
        bed.faulty.plan = lambda _: ""
        sent(bed, machine, measurement(**row), ending)

    after_launch(bed, minutes, finish)


def test_a_dry_run_shows_offers_cost_and_checks_and_what_is_missing_launches_nothing(
    shown, account, answer, stderr, monkeypatch
) -> None:
    text = shown(*ON_AWS, "--dry-run")
    parts = ("g4dn.xlarge   us-east-1a  spot", "ok       bucket: results in us-east-1", "budget $5")
    assert [part for part in (*parts, "Nothing is missing") if part not in text] == []
    assert account.left() == []
    document = answer(*ON_AWS, "--dry-run")
    assert document["can_launch"]
    assert document["most_usd"] <= 5.0 + document["offers"][-1]["usd_per_hour_at_most"] / 60 + 1e-4
    assert [volume["type"] for volume in document["volumes"]] == ["gp3", "st1"]
    assert any(word.startswith("--accelerator=") for word in document["command"])
    account.ways.quotas = {"L-DB2E81BA": 0.0, "L-3819A6DF": 0.0}
    account.ways.denied = {"TerminateInstances"}
    assert "request-service-quota-increase" in shown(*ON_AWS, "--dry-run", code=1)
    text = stderr(*ON_AWS, code=1)
    assert "nothing was launched" in text
    assert "request-service-quota-increase" in text
    assert account.left() == []
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "aws configure" in stderr(*ON_AWS, code=1)
    text = shown(*ON_AWS, "--dry-run", code=1)
    assert "No offer is known; what is missing for that is below." in text
    assert "Costs $5.000 at most (budget $5.000" in text
    assert answer(*ON_AWS, "--dry-run", code=1)["most_usd"] == 5.0
    checks = [
        line.split()[0] for line in text.splitlines() if line.startswith(("ok ", "missing ", "without "))
    ]
    assert checks == sorted(checks, key=("missing", "without", "ok").index)


def test_a_sweep_comes_back_with_its_measurements_and_leaves_nothing(account, answer) -> None:
    guest_that_measures(account, 20)
    document = answer(*ON_AWS)
    assert (document["ended"], document["measured_now"], document["instances"]) == ("done", 1, 1)
    assert 0 < document["spent_usd"] < 0.2
    assert account.left() == []
    with closing(open_store()) as store:
        assert len(store.read().measurements) == 1


def test_a_sweep_that_fails_there_says_why(stderr, account) -> None:
    guest_that_measures(account, 20, End.FAILED)
    assert "29 trials" in stderr(*ON_AWS, code=1)
    assert account.left() == []


def test_data_in_s3_are_read_by_the_instance_which_needs_the_right(account, answer) -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="photos")
    body = msgspec.json.encode({"profile": PROFILE})
    s3.put_object(Bucket="photos", Key="train/profile.json", Body=body)
    document = answer(*ON_AWS, "--data", "s3://photos/train", "--dry-run", code=1)
    assert "--data=s3://photos/train" in " ".join(document["command"])
    (check,) = [item for item in document["checks"] if item["check"] == "data"]
    assert "--instance-profile" in check["mend"]


def test_a_large_disk_of_an_own_image_is_paid_by_the_budget(account, shown, monkeypatch) -> None:
    """An image of 1 TiB is launched with 1 TiB, whatever the default is."""

    def hourly() -> float:
        return json.loads(shown(*ON_AWS, "--dry-run", "-o", "json"))["offers"][0]["usd_per_hour_at_most"]

    before = hourly()
    image = regions._image
    monkeypatch.setattr(regions, "_image", lambda row: replace(image(row), root_gib=1024))
    assert hourly() - before == pytest.approx((1024 - 120) * 0.08 / 730, rel=0.01)


def test_a_failed_start_is_shown_and_its_console_kept(account, capsys) -> None:
    """The guest's own log tells why; EC2 forgets the console soon, the bucket does not."""
    account.ways.console = "Cloud-init v. 24.4 running\n[   61.2] reboot: Power down\n"

    def fails(machine: Any) -> None:
        said = b"ERROR: No matching distribution for torch\n\n"
        box_of(account, machine).put(f"guests/{machine.id}.boot.log", said)
        account.end(machine.id, "Client.InstanceInitiatedShutdown")

    failed = after_launch(account, 2, fails)
    status = run([*ON_AWS, "-o", "json"])
    shown = capsys.readouterr()
    assert status == 1, shown.err
    assert json.loads(shown.out)["said"] == "ERROR: No matching distribution for torch"
    assert "reboot: Power down" in shown.err
    assert run(["cloud", "log", "nightly"]) == 0
    shown = capsys.readouterr()
    for name, text in ((".boot.log", "No matching distribution"), (".console.log", "reboot")):
        assert f"{next(iter(failed))}{name}" in shown.out
        assert text in shown.out
    assert run(["cloud", "log", "weekly"]) == 1


BOTH = (
    *GRID,
    *shlex.split("--on aws --instance g4dn.xlarge,g6.xlarge --budget 5USD --owner ada --sweep-id"),
    *shlex.split("nightly --instance-profile none"),
)


def guests_that_measure(bed: Bed, endings: dict[str, End]) -> None:
    """The instance of each type sends a row of its own GPU after ten minutes, and powers off."""

    def finish(machine: Any) -> None:
        gpu = json.loads(box_of(bed, machine).get("job.json") or b"")["arguments"][-1].partition("=")[2]
        row = measurement(trial=trial(accelerator=gpu, emulated_step_seconds=None))
        sent(bed, machine, row, endings[machine.instance_type], "out of disk")

    after_launch(bed, 10, finish)


@pytest.mark.slow
def test_each_type_measures_its_own_gpu_within_one_budget(account, answer) -> None:
    guests_that_measure(account, {"g4dn.xlarge": End.DONE, "g6.xlarge": End.DONE})
    document = answer(*BOTH)
    assert document["measured_now"] == 2
    assert [instance["run"]["ended"] for instance in document["sweeps"]] == ["done", "done"]
    spent = [instance["run"]["spent_usd"] for instance in document["sweeps"]]
    assert document["spent_usd"] == pytest.approx(sum(spent))
    tags = map(worn, account.instances())
    budgets = {each["advisor:sweep-id"]: each["advisor:budget-usd"] for each in tags}
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
    assert "g4dn.xlarge: Ended: done; 1 measurement." in printed.out
    assert "out of disk" in printed.err
    assert account.left() == []


def test_a_dry_run_shows_both_plans_and_what_one_lacks_is_told_before_any_is_launched(
    account, answer, shown, stderr
) -> None:
    document = answer(*BOTH, "--dry-run")
    assert [plan["budget_usd"] > 2 for plan in document["plans"]] == [False, True]
    assert sum(plan["budget_usd"] for plan in document["plans"]) == pytest.approx(5.0)
    assert "cuda:T4" in shown(*BOTH, "--dry-run")
    account.ways.out = {("g6.xlarge", "", "")}
    account.ways.quotas = {"L-DB2E81BA": 4.0, "L-3819A6DF": 0.0}
    account.ways.denied = {"CreateSecurityGroup"}
    assert "ec2:CreateSecurityGroup" in stderr(*BOTH, code=1)
    assert account.instances() == []
