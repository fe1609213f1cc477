"""An instance lives for its work and its budget, and all of it is gone afterwards."""

from datetime import timedelta
from typing import Any

import pytest

from advisor.errors import CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.orders import Fallbacks
from advisor.infra.aws.provisioned import Provisioned, Provisioner, provision
from advisor.infra.aws.reap import Why
from tests.infra.aws.bed import Bed, launched_at, worn
from tests.infra.aws.builders import Minutes, a_slot, looked
from tests.infra.aws.faults import CTRL_C_BEFORE, LOST_REPLY, LOST_REQUEST
from tests.infra.aws.test_provisioner import always, failing, run_requests


def provisioned(
    bed: Bed, minutes: float, plan: Any = None, kind: type[Minutes] = Minutes, **sweep: Any
) -> Provisioned:
    result = looked(bed)
    bed.faulty.asked.clear()
    bed.faulty.plan = plan or (lambda _: "")
    work, queue = kind(bed.clock, minutes), timedelta(minutes=1)
    return provision(bed.aws(), a_slot(result, **sweep), Fallbacks(result.options), work, queue=queue)


def ends_after(bed: Bed, minutes: float, reason: str) -> None:
    moment = bed.clock.now() + timedelta(minutes=minutes)
    bed.clock.at(moment, lambda: bed.end(bed.instances("running")[0].id, reason))


TWICE = [(fault, fault) for fault in ("RequestLimitExceeded", "InternalError", LOST_REPLY)]


@pytest.mark.parametrize("faults", [(), *TWICE])
def test_work_that_is_done_ends_everything(bed: Bed, faults: tuple[str, ...]) -> None:
    """An end that fails at first is asked for again."""
    done = provisioned(bed, 30, failing("TerminateInstances", *faults))
    assert done.outcome.why is Why.DONE
    assert done.instances == 1
    assert bed.left() == []
    # 30 minutes, and up to one until it is noticed, at $0.24 a spot instance and its volumes.
    assert 0.12 < done.spent_usd < 0.2


@pytest.mark.parametrize(("budget_usd", "taken_back_after"), [(0.5, None), (0.6, 60)])
def test_a_budget_ends_it_before_it_is_passed(bed: Bed, budget_usd, taken_back_after) -> None:
    """Both instances count where one follows another."""
    if taken_back_after:
        ends_after(bed, taken_back_after, "Server.SpotInstanceTermination")
    done = provisioned(bed, 10_000, budget_usd=budget_usd)
    # The expiry is the end of the budget, to the second below.
    assert done.outcome.why in (Why.BUDGET, Why.EXPIRED)
    assert done.instances == (2 if taken_back_after else 1)
    assert budget_usd - 0.03 < done.spent_usd <= budget_usd
    assert bed.left() == []


def test_its_time_ends_it_however_much_the_budget_pays(bed: Bed) -> None:
    done = provisioned(bed, 10_000, budget_usd=500.0, hours=2.0)
    assert done.outcome.why is Why.EXPIRED
    lived = done.outcome.at - done.outcome.machine.launched_at
    assert timedelta(minutes=118) < lived <= timedelta(hours=2)
    assert bed.left() == []


@pytest.mark.parametrize("silent_after", [0, 10])
def test_the_budget_holds_while_ec2_answers_nothing(bed: Bed, silent_after: int) -> None:
    """It is looked at by the clock alone; what could not be ended is told, with what ends it."""

    def plan(request: Any) -> str:
        launched = [launched_at(instance) for instance in bed.instances()]
        is_silent = launched and bed.clock.now() - launched[0] >= timedelta(minutes=silent_after)
        return LOST_REQUEST if is_silent else ""

    with pytest.raises(CloudError) as caught:
        provisioned(bed, 10_000, plan, budget_usd=0.5)
    (machine,) = bed.instances("running")
    lived = bed.clock.now() - launched_at(machine)
    assert lived < timedelta(hours=0.5 / float(worn(machine)[tags.USD_PER_HOUR]), minutes=10)
    message = str(caught.value)
    assert f"--instance-ids {machine.id}" in message
    assert "powers itself off at" in message
    assert "$0.5" in message


def test_a_spot_instance_that_is_taken_back_is_followed_by_another(bed: Bed) -> None:
    ends_after(bed, 20, "Server.SpotInstanceTermination")
    done = provisioned(bed, 60)
    assert done.outcome.why is Why.DONE
    assert done.instances == 2
    first, second = run_requests(bed)
    assert first.values["ClientToken"] != second.values["ClientToken"]
    subnet = "NetworkInterface.1.SubnetId"
    assert first.values[subnet] != second.values[subnet], "the offer was just taken back"
    assert bed.left() == []


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [
        ("Client.VolumeLimitExceeded", "volumes are at their limit"),
        ("Client.UserInitiatedShutdown", "ended it"),
    ],
)
def test_an_end_that_would_come_again_stops_with_the_way_out(bed: Bed, reason: str, way_out: str) -> None:
    ends_after(bed, 3, reason)
    with pytest.raises(CloudError, match=way_out):
        provisioned(bed, 60)
    assert bed.left() == []


def test_a_guest_that_powers_off_by_itself_is_not_launched_again(bed: Bed) -> None:
    """Its set-up failed, or its timer ended it: another one would cost the same for nothing."""
    ends_after(bed, 5, "Client.InstanceInitiatedShutdown")
    done = provisioned(bed, 60)
    assert done.outcome.why is Why.SHUT_DOWN
    assert len(run_requests(bed)) == 1
    assert bed.left() == []


def test_expired_credentials_at_the_end_are_told_with_the_command(bed: Bed) -> None:
    def plan(request: Any) -> str:
        ran = bed.instances() and bed.clock.now() - began > timedelta(minutes=10)
        return "ExpiredToken" if ran else ""

    began = bed.clock.now()
    with pytest.raises(CloudError, match="advisor cloud status"):
        provisioned(bed, 30, plan)
    assert len(bed.instances("running")) == 1


def test_what_may_not_be_listed_any_more_keeps_the_instance_from_no_end(bed: Bed) -> None:
    """Rights may go while it runs: the rest is ended, and what is not known is told."""
    bed.clock.at(bed.clock.now() + timedelta(minutes=5), lambda: bed.ways.denied.add("DescribeKeyPairs"))
    with pytest.raises(CloudError, match="ec2:DescribeKeyPairs"):
        provisioned(bed, 10)
    assert bed.left() == []


@pytest.mark.parametrize("calls", range(1, 5))
def test_ctrl_c_before_lists_show_the_instance_ends_it_all_the_same(bed: Bed, calls: int) -> None:
    bed.ways.lag_seconds, lines = 8.0, []

    def plan(request: Any) -> str:
        lines.extend([request] if bed.instances() else [])
        return CTRL_C_BEFORE if len(lines) == calls else ""

    with pytest.raises(KeyboardInterrupt):
        provisioned(bed, 10, plan)
    assert bed.left() == []


@pytest.mark.parametrize("operation", ["DescribeVolumes", "TerminateInstances"])
def test_who_interrupts_the_end_waits_for_it(bed: Bed, operation: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        provisioned(bed, 10, failing(operation, CTRL_C_BEFORE))
    assert bed.left() == []


def test_nothing_is_launched_twice_while_the_first_still_runs(bed: Bed) -> None:
    """A guest that tells of its spot notice runs on for two minutes."""
    machines = []

    class Noticed(Minutes):
        def reported(self, machine: Any) -> Why | None:
            machines.append(len(bed.instances("running")))
            if len({instance.id for instance in bed.instances()}) == 1 and len(machines) == 3:
                return Why.TAKEN_BACK
            return super().reported(machine)

    done = provisioned(bed, 30, kind=Noticed)
    assert done.instances == 2
    assert max(machines) == 1
    assert bed.left() == []


def test_no_other_offer_is_tried_while_nobody_knows_of_the_last_one(bed: Bed) -> None:
    with pytest.raises(CloudError, match="may have been done or not"):
        provisioned(bed, 30, always("RunInstances", LOST_REQUEST))
    assert len({request.values["ClientToken"] for request in run_requests(bed)}) == 1
    assert bed.left() == []


def test_a_group_of_that_name_that_is_somebodys_own_is_left_alone(bed: Bed) -> None:
    """`--sweep-id prod` where somebody has a group `advisor-prod`, with open ports."""
    result = looked(bed)
    ec2 = bed.aws().client("ec2", "us-east-1")
    group = ec2.create_security_group(
        GroupName="advisor-s1", Description="ours", VpcId=result.regions["us-east-1"].network
    )["GroupId"]
    with pytest.raises(CloudError, match="none of the advisor's"):
        provisioned(bed, 30)
    assert run_requests(bed) == []
    (left,) = bed.own_groups()
    assert left.id == group
    assert worn(left) == {}


def test_a_sweep_of_that_name_of_another_owner_is_not_touched(bed: Bed) -> None:
    """Both call theirs `nightly`: neither adopts, ends or removes what is the other's."""
    result = looked(bed)
    machine, _ = Provisioner(bed.aws(), a_slot(result), Fallbacks(result.options)).get(bed.clock.now())
    with pytest.raises(CloudError, match="--owner ada"):
        provisioned(bed, 30, owner="eve")
    assert [instance.id for instance in bed.instances("running")] == [machine.id]
    assert len(bed.own_groups()) == 1
