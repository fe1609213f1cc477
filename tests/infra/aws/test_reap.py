"""The reaper against moto: what has expired goes, and nothing else."""

import pytest

from advisor.errors import AdvisorError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.reap import reap
from tests.infra.aws.builders import is_clean
from tests.infra.aws.lifecycles import FakeClock
from tests.infra.aws.reaping import (
    FUTURE,
    MAKERS,
    NOW,
    REGIONS,
    Faulty,
    a_group,
    a_key,
    a_volume,
    an_instance,
    aws,
    client_of,
    moto_account,
    worn,
)


@pytest.fixture(autouse=True)
def moto_ec2(monkeypatch):
    with moto_account(monkeypatch):
        yield


def left(reaped_with=None):
    """(kind, id) of everything with our tags that a later pass still sees."""
    outcome = reap(reaped_with or aws(), now=NOW, dry_run=True, regions=REGIONS)
    return {(entry.kind, entry.id) for entry in (*outcome.expired, *outcome.kept)}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_expired_thing_of_every_kind_goes(kind):
    made = {(kind, MAKERS[kind](region)) for region in REGIONS}
    reaped = reap(aws(), now=NOW, regions=REGIONS)
    assert {(entry.kind, entry.id) for entry in reaped.removed} == made
    assert is_clean(reaped)
    assert not left()


@pytest.mark.parametrize(
    "expected",
    [
        worn(FUTURE),
        worn(**{tags.EXPIRES_AT: None}),
        worn(**{tags.EXPIRES_AT: "yesterday"}),
        worn(**{tags.EXPIRES_AT: "2026-11-21T11:00:00"}),
        worn(**{tags.MANAGED: "True"}),
        worn(**{tags.MANAGED: None}),
        {"Name": "somebody's"},
    ],
)
def test_what_is_not_ours_or_not_over_stays(expected):
    made = {make("us-east-1", expected) for make in MAKERS.values()}
    client = Faulty(client_of("ec2"), {})
    reaped = reap(Aws(lambda *_: client, FakeClock()), now=NOW, regions=REGIONS[:1])
    assert not reaped.expired
    assert is_clean(reaped)
    assert {entry.id for entry in reaped.kept} == (made if expected.get(tags.MANAGED) == "true" else set())
    assert all(entry.startswith("describe_") for entry in client.asked)


def test_all_regions_of_the_account_are_asked_and_without_them_nothing_is_claimed(few_regions):
    name = an_instance("ap-southeast-2")
    reaped = reap(aws(), now=NOW)
    assert set(reaped.regions) == few_regions
    assert [entry.id for entry in reaped.removed] == [name]
    with pytest.raises(AdvisorError, match="AuthFailure"):
        reap(aws({"us-east-1": {"describe_regions": "AuthFailure"}}), now=NOW)
    with pytest.raises(ValueError, match="aware"):
        reap(aws(), now=NOW.replace(tzinfo=None))


def test_a_dry_run_tells_the_same_and_removes_nothing_nor_does_a_pass_of_another_owner():
    made = {(kind, make("us-east-1")) for kind, make in MAKERS.items()}
    outcome = reap(aws(), now=NOW, dry_run=True, regions=REGIONS)
    assert {(entry.kind, entry.id) for entry in outcome.expired} == made
    assert outcome.removed == ()
    assert not is_clean(outcome)
    assert reap(aws(), now=NOW, owner="bob", regions=REGIONS).removed == ()
    assert left() == made


def test_an_instance_takes_its_own_volumes_along():
    expected = worn()
    an_instance(
        "us-east-1",
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "DeleteOnTermination": True}}
        ],
    )
    ec2 = client_of("ec2")
    listed = [{"Key": key, "Value": value} for key, value in expected.items()]
    for volume in ec2.describe_volumes()["Volumes"]:
        ec2.create_tags(Resources=[volume["VolumeId"]], Tags=listed)
    assert is_clean(reap(aws(), now=NOW, regions=REGIONS))
    assert not ec2.describe_volumes()["Volumes"]


def test_what_one_is_refused_for_hinders_no_other_one():
    a_volume("us-east-1")
    a_group("us-east-1")
    a_key("us-east-1")
    a_volume("eu-west-1")
    refusing = aws({"us-east-1": {"delete_volume": "UnauthorizedOperation"}})
    reaped = reap(refusing, now=NOW, regions=REGIONS)
    assert {entry.kind for entry in reaped.removed} == {"volume", "security-group", "key-pair"}
    (remaining,) = reaped.remaining
    assert (remaining.thing.kind, remaining.thing.region) == ("volume", "us-east-1")
    assert "advisor cloud policy reaper" in remaining.reason
    assert not is_clean(reaped)


def test_a_kind_that_may_not_be_listed_hinders_no_other_kind():
    a_volume("us-east-1")
    a_key("us-east-1")
    faults = {"us-east-1": {"describe_volumes": "UnauthorizedOperation"}}
    reaped = reap(aws(faults), now=NOW, regions=REGIONS)
    assert [entry.kind for entry in reaped.removed] == ["key-pair"]
    (not_listed,) = reaped.not_listed
    assert (not_listed.region, not_listed.kind) == ("us-east-1", "volume")


def test_expired_credentials_are_told_once_a_region_and_nothing_is_claimed():
    faults = {region: {"describe_spot_instance_requests": "RequestExpired"} for region in REGIONS}
    reaped = reap(aws(faults), now=NOW, regions=REGIONS)
    assert [(entry.region, entry.kind) for entry in reaped.not_listed] == [
        (region, "all") for region in REGIONS
    ]
    assert not is_clean(reaped)


def test_an_instance_that_ec2_says_is_gone_keeps_no_other_alive_and_is_looked_at_itself():
    names = {an_instance("us-east-1") for _ in range(3)}
    faults = {"us-east-1": {"terminate_instances": ["InvalidInstanceID.NotFound"]}}
    volume = a_volume("us-east-1")  # which somebody else removes meanwhile
    faults["us-east-1"]["delete_volume"] = "InvalidVolume.NotFound"
    reaped = reap(aws(faults), now=NOW, regions=REGIONS)
    (running,) = reaped.remaining
    assert "is running" in running.reason
    assert {entry.id for entry in reaped.removed} == names - {running.thing.id} | {volume}


def test_what_an_ending_instance_holds_is_waited_for_and_what_others_hold_is_left_alone():
    an_instance("us-east-1")
    a_group("us-east-1")
    held = ["DependencyViolation"] * 3
    clock = FakeClock()
    reaped = reap(aws({"us-east-1": {"delete_security_group": held}}, clock), now=NOW, regions=REGIONS)
    assert is_clean(reaped)
    assert clock.now() > NOW
    a_group("us-east-1")
    clock, faults = FakeClock(), {"us-east-1": {"delete_security_group": "DependencyViolation"}}
    reaped = reap(aws(faults, clock), now=NOW, regions=REGIONS)
    assert "DependencyViolation" in reaped.remaining[0].reason
    assert clock.now() == NOW
