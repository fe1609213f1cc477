"""`advisor sweep run --on aws` as a user meets it, against moto behind EC2's own ways."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from importlib.resources import files
from typing import Any

import boto3
import jsonschema
import pytest
from msgspec.structs import replace

from advisor.cli.main import run
from advisor.infra.aws import regions
from advisor.infra.aws.guest.result_bucket import ResultBucket
from advisor.runs.cloud.exchange import End, Phase, Sender, StateLog
from advisor.store.measurements import open_store
from tests.infra.aws.bed import Bed, prepared
from tests.infra.aws.faults import LOST_REPLY
from tests.infra.aws.serving import serving
from tests.infra.aws.wire import Request
from tests.infra.live.conftest import without_real_aws
from tests.sweeps.builders import measurement

GRID = (
    *shlex.split("sweep run --networks resnet50 --tasks training --vcpus 1,2 --memory 4GiB"),
    *shlex.split("--disks gp3,st1:500GiB"),
)
ON_AWS = (
    *GRID,
    *shlex.split("--on aws --instance g4dn.xlarge --budget 5USD --owner ada --sweep-id nightly"),
    *shlex.split("--instance-profile none"),
)


def schema(name: str) -> Any:
    return json.loads((files("advisor.render") / f"schemas/{name}.schema.json").read_text())


@pytest.fixture
def account(monkeypatch, tmp_path) -> Iterator[Bed]:
    """An account with a bucket, on loopback; its clock is the command's."""
    without_real_aws(monkeypatch, tmp_path)
    with prepared(monkeypatch) as bed, serving(bed) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("ADVISOR_BUCKET", "results")
        monkeypatch.setattr("advisor.infra.aws.asking.SystemClock", lambda: bed.clock)
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="results")
        bed.faulty.asked.clear()
        yield bed


def guest_that_measures(
    bed: Bed, minutes: float, ending: End = End.DONE, *, sweep: str = "nightly", **row: Any
) -> None:
    """Each instance sends a measurement after a while, tells its end and powers off."""
    seen: set[str] = set()

    def finish(machine: Any) -> None:
        box = ResultBucket(bed.aws(), "us-east-1", "results", f"sweeps/{sweep}/g4dn.xlarge")
        bed.faulty.plan = lambda _: ""
        Sender(box).send([measurement(**row)])
        StateLog(box, machine.id, bed.clock).note(Phase.ENDED, ending, 0, "29 trials")
        bed.end(machine.id, "Client.InstanceInitiatedShutdown")

    def on_answer(request: Request) -> None:
        for machine in bed.instances("running"):
            if request.operation == "RunInstances" and machine.id not in seen:
                seen.add(machine.id)
                moment = bed.clock.now() + timedelta(minutes=minutes)
                bed.clock.at(moment, lambda machine=machine: finish(machine))

    bed.faulty.on_answer = on_answer


def test_a_dry_run_shows_offers_cost_and_checks_and_launches_nothing(account, capsys) -> None:
    assert run([*ON_AWS, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "g4dn.xlarge   us-east-1a  spot" in shown
    assert "ok       region: us-east-1 is enabled" in shown
    assert "budget $5" in shown
    assert "Nothing is missing" in shown
    assert account.left() == []


def test_a_dry_run_as_json_keeps_its_schema(account, capsys) -> None:
    assert run([*ON_AWS, "--dry-run", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("cloud-plan"))
    assert document["can_launch"]
    assert document["most_usd"] <= 5.0 + document["offers"][-1]["usd_per_hour_at_most"] / 60 + 1e-4
    assert [one["type"] for one in document["volumes"]] == ["gp3", "st1"]
    assert "--accelerator" in document["command"]


def test_what_is_missing_is_told_and_the_exit_code_says_so(account, capsys) -> None:
    account.ways.quotas = {"L-DB2E81BA": 0.0, "L-3819A6DF": 0.0}
    account.ways.denied = {"TerminateInstances"}
    assert run([*ON_AWS, "--dry-run"]) == 1
    shown = capsys.readouterr().out
    assert "request-service-quota-increase" in shown
    assert run(list(ON_AWS)) == 1
    told = capsys.readouterr().err
    assert "nothing was launched" in told
    assert "request-service-quota-increase" in told
    assert account.left() == []


def test_a_denied_end_is_told_before_anything_is_launched(account, capsys) -> None:
    account.ways.denied = {"TerminateInstances"}
    assert run(list(ON_AWS)) == 1
    assert '"ec2:TerminateInstances"' in capsys.readouterr().err
    assert account.left() == []


@pytest.mark.parametrize(
    ("denied", "action"),
    [
        ("DescribeVolumes", "ec2:DescribeVolumes"),
        ("PUT /results/software", "s3:PutObject"),
        ("GET /results/sweeps", "s3:GetObject"),
        ("GET /results", "s3:GetBucketLocation"),
    ],
)
def test_what_is_denied_is_told_with_its_statement_before_a_launch(account, capsys, denied, action) -> None:
    account.faulty.plan = lambda one: "AccessDenied" if one.operation.startswith(denied) else ""
    assert run(list(ON_AWS)) == 1
    told = capsys.readouterr().err
    assert "nothing was launched" in told
    assert f'"{action}"' in told
    assert account.left() == []


def test_without_credentials_that_is_told_and_no_more(account, capsys, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert run(list(ON_AWS)) == 1
    assert "aws configure" in capsys.readouterr().err
    assert run([*ON_AWS, "--dry-run"]) == 1
    assert "No offer is known" in capsys.readouterr().out


def test_a_sweep_comes_back_with_its_measurements_and_leaves_nothing(account, capsys) -> None:
    guest_that_measures(account, 20)
    assert run([*ON_AWS, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("cloud-run"))
    assert (document["ended"], document["measured_now"], document["instances"]) == ("done", 1, 1)
    assert 0 < document["spent_usd"] < 0.2
    assert account.left() == []
    with closing(open_store()) as store:
        assert len(store.read().measurements) == 1


@pytest.mark.slow
def test_what_is_measured_anew_takes_the_place_of_what_was_before(account, capsys) -> None:
    """As a schedule asks for it: another sweep each time, and the older row stays on record."""
    old = measurement(started_at="2026-11-01T00:00:00Z")
    with closing(open_store()) as store:
        store.append_all([old])
    fresh = {"started_at": "2026-11-21T12:10:00Z"}
    guest_that_measures(account, 20, sweep="nightly-20261121T1200", **fresh)
    assert run([*ON_AWS, "--fresh-since", "2026-11-21T12:00:00Z", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["sweep_id"], document["measured_now"]) == ("nightly-20261121T1200", 1)
    with closing(open_store()) as store:
        assert [one.started_at for one in store.all()] == [fresh["started_at"]]
        assert store.earlier() == [old]


@pytest.mark.slow
def test_a_database_of_which_nothing_is_seen_here_is_not_told_as_nothing(account, capsys) -> None:
    account.faulty.on_answer = lambda request: None
    ends = [*ON_AWS, "--database-parameter", "/advisor/database", "--budget", "0.2USD"]
    assert run([*ends, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("cloud-run"))
    assert document["measured_now"] is None
    assert run([*ends, "--sweep-id", "other"]) == 1
    assert "in its database, if anything" in capsys.readouterr().out


@pytest.mark.slow
def test_the_same_command_after_it_launches_nothing(account, capsys) -> None:
    guest_that_measures(account, 20)
    assert run(list(ON_AWS)) == 0
    account.faulty.asked.clear()
    assert run(list(ON_AWS)) == 0
    shown = capsys.readouterr().out
    assert "measured before" in shown
    assert "0 measurements came back" in shown.split("measured before")[0].rpartition("All is")[2]
    launched = [one for one in account.faulty.asked if one.operation == "RunInstances"]
    assert all(one.values.get("DryRun") == "true" for one in launched)


def test_a_lost_reply_over_the_wire_makes_no_second_instance(account) -> None:
    lost: list[str] = []

    def plan(request: Request) -> str:
        dry = request.values.get("DryRun") == "true"
        if request.operation == "RunInstances" and not dry and not lost:
            lost.append(LOST_REPLY)
            return LOST_REPLY
        return ""

    account.faulty.plan = plan
    guest_that_measures(account, 20)
    assert run(list(ON_AWS)) == 0
    assert lost
    assert len(account.instances()) == 1


def test_a_sweep_that_fails_there_says_why(account, capsys) -> None:
    guest_that_measures(account, 20, End.FAILED)
    assert run(list(ON_AWS)) == 1
    assert "29 trials" in capsys.readouterr().err
    assert account.left() == []


@pytest.mark.slow
def test_a_budget_that_is_over_ends_it_and_keeps_what_came_back(account, capsys) -> None:
    guest_that_measures(account, 10_000)
    assert run([*ON_AWS, "--budget", "0.3USD"]) == 1
    shown = capsys.readouterr().out
    assert "no room for another minute" in shown
    assert account.left() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*GRID, "--on", "aws", "--budget", "5USD"), "--on aws needs --instance"),
        ((*GRID, "--on", "aws", "--instance", "g4dn.xlarge"), "--on aws needs --budget"),
        ((*ON_AWS, "--budget", "2h"), "budget of money"),
        ((*ON_AWS, "--budget", "0.01USD"), "does not pay 10 minutes"),
        ((*ON_AWS, "--instance", "g4dn.xlrage"), "did you mean g4dn.xlarge"),
        ((*ON_AWS, "--vcpus", "64"), "take a larger --instance"),
        ((*ON_AWS, "--region", "us-esat-1"), "or us-east-1"),
        ((*ON_AWS, "--data", "photos"), "lies on this machine"),
        ((*ON_AWS, "--data", "gs://bucket/photos"), "is read from S3"),
        ((*ON_AWS, "--adaptive"), "give the grid"),
        ((*ON_AWS, "--sweep-id", "a b"), "is no sweep id"),
        ((*ON_AWS, "--owner", "x;y"), "is no tag"),
        ((*GRID, "--dry-run"), "only with --on aws"),
        ((*GRID, "--bucket", "b", "--region", "us-east-1"), "--bucket, --region"),
    ],
)
def test_what_cannot_be_asked_is_told_with_the_way_out(account, capsys, arguments, told) -> None:
    assert run(list(arguments)) == 2
    assert told in capsys.readouterr().err
    assert account.left() == []


def test_data_in_s3_are_read_by_the_instance_which_needs_the_right(account, capsys) -> None:
    """They are planned with by their profile, and not brought here."""
    profile = {
        "name": "p",
        "samples": 500,
        "bytes_per_sample": 9e4,
        "storage_format": "tar",
        "width": 500,
        "height": 375,
    }
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="photos")
    body = json.dumps({"profile": profile})
    s3.put_object(Bucket="photos", Key="train/profile.json", Body=body)
    assert run([*ON_AWS, "--data", "s3://photos/train", "--dry-run", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "--data s3://photos/train" in " ".join(document["command"])
    (check,) = [one for one in document["checks"] if one["check"] == "data"]
    assert "--instance-profile" in check["mend"]


def test_a_large_disk_of_an_own_image_is_paid_by_the_budget(account, capsys, monkeypatch) -> None:
    """An image of 1 TiB is launched with 1 TiB, whatever the default is."""

    def hourly() -> float:
        assert run([*ON_AWS, "--dry-run", "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)["offers"][0]["usd_per_hour_at_most"]

    before = hourly()
    told = regions._image
    monkeypatch.setattr(regions, "_image", lambda row: replace(told(row), root_gib=1024))
    assert hourly() - before == pytest.approx((1024 - 120) * 0.08 / 730, rel=0.01)


def test_a_failed_start_is_shown_and_its_console_kept(account, capsys) -> None:
    """The guest's own log tells why; EC2 forgets the console soon, the bucket does not."""
    account.ways.console = "Cloud-init v. 24.4 running\n[   61.2] reboot: Power down\n"
    failed: list[str] = []

    def fails(machine: Any) -> None:
        box = ResultBucket(account.aws(), "us-east-1", "results", "sweeps/nightly/g4dn.xlarge")
        box.put(f"guests/{machine.id}.boot.log", b"ERROR: No matching distribution for torch\n\n")
        account.end(machine.id, "Client.InstanceInitiatedShutdown")

    def on_answer(request: Request) -> None:
        for machine in account.instances("running"):
            if request.operation == "RunInstances" and machine.id not in failed:
                failed.append(machine.id)
                moment = account.clock.now() + timedelta(minutes=2)
                account.clock.at(moment, lambda machine=machine: fails(machine))

    account.faulty.on_answer = on_answer
    status = run([*ON_AWS, "-o", "json"])
    shown = capsys.readouterr()
    assert status == 1, shown.err
    assert json.loads(shown.out)["said"] == "ERROR: No matching distribution for torch"
    assert "reboot: Power down" in shown.err
    assert run(["cloud", "log", "nightly"]) == 0
    shown = capsys.readouterr()
    for name, text in ((".boot.log", "No matching distribution"), (".console.log", "reboot")):
        assert f"{failed[0]}{name}" in shown.out
        assert text in shown.out
    assert run(["cloud", "log", "weekly"]) == 1


def test_the_least_budget_is_what_the_slowest_start_of_the_type_needs(account, capsys) -> None:
    """Ten minutes, where none was measured; then as long as one took here, and a trial."""
    assert run([*ON_AWS, "--budget", "0.15USD", "--dry-run"]) == 0
    began: set[str] = set()

    def on_answer(request: Request) -> None:
        for machine in account.instances("running"):
            if request.operation == "RunInstances" and machine.id not in began:
                began.add(machine.id)
                moment = account.clock.now() + timedelta(minutes=25)
                account.clock.at(moment, lambda machine=machine: measuring(machine))

    def measuring(machine: Any) -> None:
        box = ResultBucket(account.aws(), "us-east-1", "results", "sweeps/nightly/g4dn.xlarge")
        StateLog(box, machine.id, account.clock).note(Phase.SWEEPING)

    account.faulty.on_answer = on_answer
    assert run([*ON_AWS, "--budget", "0.3USD"]) == 1  # it measures on until the budget is over
    capsys.readouterr()
    assert run([*ON_AWS, "--budget", "0.15USD", "--dry-run"]) == 2
    assert "does not pay 30 minutes" in capsys.readouterr().err
