"""From nothing to exactly one instance, whatever EC2 answers."""

from datetime import timedelta
from typing import Any

import pytest
from moto.ec2.models import ec2_backends

from advisor.errors import CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.errors import Reaction, error_codes
from advisor.infra.aws.launch_options import LaunchedMachine
from advisor.infra.aws.orders import Fallbacks
from advisor.infra.aws.provisioned import BudgetOverError, NoCapacityError, Provisioner
from tests.infra.aws.bed import Bed, worn
from tests.infra.aws.builders import a_slot, looked
from tests.infra.aws.ec2_ways import ACCOUNT
from tests.infra.aws.faults import (
    CRASH_AFTER,
    CUT,
    DONE_ALL_THE_SAME,
    GARBAGE,
    LOST_REPLY,
    LOST_REQUEST,
    Crashed,
)
from tests.infra.aws.wire import Request
from tests.rows import table

CASES = table("infra_cases")

SAID_AGAIN = [code for code, (_, what) in error_codes().items() if what is Reaction.ASK_AGAIN]


def failing(operation: str, *faults: str) -> Any:
    """A plan: the first requests of an operation fail so, the others are answered."""
    left = list(faults)
    return lambda request: left.pop(0) if left and request.operation == operation else ""


def always(operation: str, fault: str) -> Any:
    return lambda request: fault if request.operation == operation else ""


def launching(bed: Bed, *types: str, plan: Any = None, regions=("us-east-1",), **sweep: Any) -> Provisioner:
    """What launches; only its own requests fail, by the plan."""
    bed.faulty.plan = lambda _: ""
    result = looked(bed, *types, regions=regions)
    bed.faulty.asked.clear()
    bed.faulty.plan = plan or bed.faulty.plan
    return Provisioner(bed.aws(), a_slot(result, **sweep), Fallbacks(result.options))


def run_requests(bed: Bed) -> list[Request]:
    return [entry for entry in bed.faulty.asked if entry.operation == "RunInstances"]


def kept(bed: Bed, entry: Provisioner) -> LaunchedMachine:
    machine, _ = entry.get(in_minutes(bed, 1))
    assert [made.id for made in bed.instances("running")] == [machine.id]
    return machine


def in_minutes(bed: Bed, minutes: float) -> Any:
    return bed.clock.now() + timedelta(minutes=minutes)


def test_an_instance_is_safe_from_its_first_moment(bed: Bed) -> None:
    """Tags, encryption, IMDSv2, its end at a shutdown and the empty group are in the request."""
    machine, meter = launching(bed).get(in_minutes(bed, 1))
    (made,) = bed.instances("running")
    (request,) = run_requests(bed)
    values = request.values
    assert made.instance_initiated_shutdown_behavior == "terminate"
    metadata = made.metadata_options
    assert (metadata.http_tokens, metadata.http_put_response_hop_limit) == ("required", 1)
    assert made.key_name is None
    assert [values[key] for key in values if key.endswith("Ebs.Encrypted")] == ["true"] * 3
    assert {values[f"BlockDeviceMapping.{n}.Ebs.DeleteOnTermination"] for n in (1, 2, 3)} == {"true"}
    expected = {tags.MANAGED: "true", tags.SWEEP_ID: "s1", tags.OWNER: "ada", tags.NAME: "advisor-s1"}
    assert worn(made) | expected | {tags.BUDGET_USD: "5"} == worn(made)
    assert tags.time_from(worn(made)[tags.EXPIRES_AT]) == machine.expires_at
    assert made.lifecycle == "spot"
    assert float(values["InstanceMarketOptions.SpotOptions.MaxPrice"]) == pytest.approx(0.24)
    assert meter.usd_per_hour == pytest.approx(machine.usd_per_hour)
    group = bed.own_groups()[0]
    assert group.ingress_rules == []
    # A volume that outlives its instance is found by its tags.
    assert [worn(volume)[tags.SWEEP_ID] for volume in bed.volumes()] == 3 * ["s1"]


@pytest.mark.parametrize("fault", [LOST_REPLY, LOST_REQUEST, CUT, GARBAGE, DONE_ALL_THE_SAME, *SAID_AGAIN])
@pytest.mark.parametrize("times", [1, 2])
def test_an_answer_that_is_lost_makes_no_second_instance(bed: Bed, fault: str, times: int) -> None:
    """The same request with the same token is asked again; EC2 dedupes."""
    kept(bed, launching(bed, plan=failing("RunInstances", *[fault] * times)))
    assert len({run_request.values["ClientToken"] for run_request in run_requests(bed)}) == 1


@pytest.mark.parametrize("fault", [LOST_REPLY, DONE_ALL_THE_SAME])
@pytest.mark.parametrize("code", ["", "InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_an_instance_whose_answers_get_lost_is_found_by_its_token(bed: Bed, fault: str, code: str) -> None:
    """All of them, or one before a refusal, which is no proof: the next offer would be a second instance."""
    bed.ways.lag_seconds = 20 if code else 15
    plan = failing("RunInstances", fault, code) if code else always("RunInstances", fault)
    kept(bed, launching(bed, plan=plan))


@pytest.mark.parametrize(("lag_seconds", "requests"), [(20, 0), (70, 1)])
def test_a_controller_after_a_crash_finds_the_instance_of_the_one_before(
    bed: Bed, lag_seconds: int, requests: int
) -> None:
    """Even where lists do not show it for a while; later, by its token, though that asked with
    another expiry."""
    bed.ways.lag_seconds = lag_seconds
    first = launching(bed, plan=failing("RunInstances", CRASH_AFTER))
    with pytest.raises(Crashed):
        first.get(in_minutes(bed, 1))
    kept(bed, launching(bed))
    assert len(run_requests(bed)) == requests


def test_after_an_end_the_next_generation_has_a_token_of_its_own(bed: Bed) -> None:
    """The old token would give the old instance, which has ended."""
    machine, _ = launching(bed).get(in_minutes(bed, 1))
    bed.clock.sleep(600)
    bed.end(machine.id, "Server.SpotInstanceTermination")
    again, meter = launching(bed).get(in_minutes(bed, 1))
    assert (again.id != machine.id, again.generation) == (True, 1)
    assert meter.spent_usd == pytest.approx(machine.usd_per_hour / 6, rel=0.02)


def test_a_token_of_an_instance_that_is_long_forgotten_gets_a_new_one(bed: Bed) -> None:
    """The same command hours later: lists tell nothing, and EC2 refuses the token (since 2025)."""
    machine, _ = launching(bed).get(in_minutes(bed, 1))
    bed.end(machine.id, "Client.InstanceInitiatedShutdown")
    for region in ec2_backends[ACCOUNT].values():
        region.reservations.clear()
    again = kept(bed, launching(bed))
    assert (again.id != machine.id, again.generation) == (True, 1)


def ends_at_once(bed: Bed, reason: str) -> None:
    """The first instance ends before anybody has seen it run."""

    def on_answer(request: Request) -> None:
        if request.operation == "RunInstances" and len(bed.instances()) == 1:
            bed.end(bed.instances()[0].id, reason)

    bed.faulty.on_answer = on_answer


def test_an_offer_whose_instance_comes_to_nothing_is_not_the_next_one(bed: Bed) -> None:
    entry = launching(bed)
    ends_at_once(bed, "Server.InsufficientInstanceCapacity")
    kept(bed, entry)
    first, second = (_offer(bed, request) for request in run_requests(bed))
    assert first != second


def test_disks_that_cannot_be_decrypted_are_not_tried_again(bed: Bed) -> None:
    """`Client.InternalError` is about the account's key, and no server's error."""
    entry = launching(bed)
    ends_at_once(bed, "Client.InternalError")
    with pytest.raises(CloudError, match="kms:CreateGrant"):
        entry.get(in_minutes(bed, 1))
    assert len(run_requests(bed)) == 1


@pytest.mark.parametrize("code", ["InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound"])
def test_a_group_that_shows_late_is_waited_for(bed: Bed, code: str) -> None:
    kept(bed, launching(bed, plan=failing("RunInstances", code, code)))
    assert len(bed.own_groups()) == 1


def test_two_controllers_keep_one_instance(bed: Bed, monkeypatch) -> None:
    """The second one does not see the first one's; after its own launch both are there."""
    result = looked(bed)
    entry = Provisioner(bed.aws(), a_slot(result), Fallbacks(result.options))
    machine, _ = entry.get(in_minutes(bed, 1))
    bed.clock.sleep(5)
    other = Provisioner(bed.aws(), a_slot(result), Fallbacks(result.options[1:]))
    monkeypatch.setattr(other, "_adopted", lambda: None)
    assert kept(bed, other).id == machine.id


def test_twelve_offers_are_tried_within_a_minute(bed: Bed) -> None:
    """Spot over the zones, the next type, the next region, then on demand."""
    entry = launching(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"), budget_usd=50.0)
    bed.ways.out = {("", "", "")}
    began = bed.clock.now()
    with pytest.raises(NoCapacityError, match="InsufficientInstanceCapacity"):
        entry.get(began)
    tried = [_offer(bed, request) for request in run_requests(bed)]
    assert len(tried) == len(set(tried)) >= 12
    assert (bed.clock.now() - began).total_seconds() <= 60
    assert tried == sorted(tried, key=lambda offer: offer[0] != "spot")
    regions = [region for market, region, *_ in tried if market == "spot"]
    assert regions == sorted(regions)


def _offer(bed: Bed, request: Request) -> tuple[str, str, str, str]:
    values = request.values
    market = "spot" if "InstanceMarketOptions.MarketType" in values else "on-demand"
    zone = bed.ways.zone_of(request.region, values["NetworkInterface.1.SubnetId"])
    return market, request.region, values["InstanceType"], zone


def test_an_offer_without_capacity_is_left_alone_for_three_minutes(bed: Bed) -> None:
    entry = launching(bed)
    bed.ways.out = {("", "", "")}
    began = bed.clock.now()
    bed.clock.at(began + timedelta(seconds=100), bed.ways.out.clear)
    entry.get(in_minutes(bed, 30))
    assert bed.clock.now() - began >= timedelta(minutes=3)


@pytest.mark.parametrize("code", ["VcpuLimitExceeded", "Unsupported", "InsufficientFreeAddressesInSubnet"])
def test_an_offer_that_cannot_be_had_is_not_asked_for_again(bed: Bed, code: str) -> None:
    launching(bed, "g4dn.xlarge", "g4dn.2xlarge", plan=failing("RunInstances", code)).get(in_minutes(bed, 1))
    first, second = (_offer(bed, request) for request in run_requests(bed))
    assert first != second


@pytest.mark.parametrize(("code", "way_out"), CASES["what_does_not_pass_stops_and_names_the_way_out"])
def test_what_does_not_pass_stops_and_names_the_way_out(bed: Bed, code: str, way_out: str) -> None:
    entry = launching(bed, plan=failing("RunInstances", code))
    with pytest.raises(CloudError) as caught:
        entry.get(in_minutes(bed, 1))
    assert way_out in str(caught.value)
    assert len(run_requests(bed)) == 1


def test_a_budget_that_pays_no_offer_for_ten_minutes_launches_none(bed: Bed) -> None:
    entry = launching(bed, budget_usd=0.02)
    with pytest.raises(BudgetOverError, match="larger --budget"):
        entry.get(in_minutes(bed, 1))
    assert run_requests(bed) == []
