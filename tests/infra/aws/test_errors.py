"""What AWS may say of a launch has one reaction: every code has a class, and an image that does not
serve is told before."""

import pytest

from advisor.catalog import load_catalog
from advisor.infra.aws.errors import AwsFailure, Reaction, error_codes, kind_of, reaction_to
from advisor.infra.aws.regions import unfit

REACTIONS = {
    "InsufficientInstanceCapacity": (AwsFailure.CAPACITY, Reaction.NEXT_OFFER),
    "UnfulfillableCapacity": (AwsFailure.CAPACITY, Reaction.NEXT_OFFER),
    "InsufficientHostCapacity": (AwsFailure.CAPACITY, Reaction.NEXT_OFFER),
    "InsufficientReservedInstanceCapacity": (AwsFailure.CAPACITY, Reaction.NEXT_OFFER),
    "ReservationCapacityExceeded": (AwsFailure.RESERVATION, Reaction.NEXT_MARKET),
    "SpotMaxPriceTooLow": (AwsFailure.PRICE, Reaction.NEXT_MARKET),
    "MaxSpotInstanceCountExceeded": (AwsFailure.QUOTA, Reaction.NEXT_QUOTA),
    "VcpuLimitExceeded": (AwsFailure.QUOTA, Reaction.NEXT_QUOTA),
    "InstanceLimitExceeded": (AwsFailure.QUOTA, Reaction.NEXT_QUOTA),
    "MaxFleetCountExceeded": (AwsFailure.QUOTA, Reaction.NEXT_QUOTA),
    "Unsupported": (AwsFailure.OFFERING, Reaction.NEXT_ZONE),
    "InsufficientFreeAddressesInSubnet": (AwsFailure.NETWORK, Reaction.NEXT_ZONE),
    "IdempotentParameterMismatch": (AwsFailure.TOKEN, Reaction.FIND),
    "DryRunOperation": (AwsFailure.OK, Reaction.GO_ON),
    "UnauthorizedOperation": (AwsFailure.PERMISSION, Reaction.STOP),
    "PendingVerification": (AwsFailure.ACCOUNT, Reaction.STOP),
    "RequestLimitExceeded": (AwsFailure.THROTTLE, Reaction.ASK_AGAIN),
    "ServerInternal": (AwsFailure.SERVER, Reaction.ASK_AGAIN),
    "InternalError": (AwsFailure.SERVER, Reaction.ASK_AGAIN),
    "Unavailable": (AwsFailure.SERVER, Reaction.ASK_AGAIN),
    "ServiceUnavailable": (AwsFailure.SERVER, Reaction.ASK_AGAIN),
    "Server.SpotInstanceTermination": (AwsFailure.SPOT_TAKEN_BACK, Reaction.LAUNCH_AGAIN),
    "Client.InstanceInitiatedShutdown": (AwsFailure.OWN_END, Reaction.DONE),
    "Client.VolumeLimitExceeded": (AwsFailure.VOLUME_QUOTA, Reaction.STOP),
}


def test_all_24_codes_have_their_class() -> None:
    assert error_codes() == REACTIONS
    assert len(REACTIONS) == 24


@pytest.mark.parametrize(
    ("code", "kind", "reaction"),
    [
        ("Server.InsufficientInstanceCapacity", AwsFailure.CAPACITY, Reaction.NEXT_OFFER),
        ("Server.InternalError", AwsFailure.SERVER, Reaction.ASK_AGAIN),
        ("ExpiredToken", AwsFailure.CREDENTIALS, Reaction.STOP),
        ("ThrottlingException", AwsFailure.THROTTLE, Reaction.ASK_AGAIN),
        ("Client.InternalError", AwsFailure.KEY, Reaction.STOP),
        ("IdempotentInstanceTerminated", AwsFailure.TOKEN, Reaction.LAUNCH_AGAIN),
        ("Client.UserInitiatedShutdown", AwsFailure.UNKNOWN, Reaction.STOP),
        ("SomethingNew", AwsFailure.UNKNOWN, Reaction.STOP),
        ("", AwsFailure.UNKNOWN, Reaction.STOP),
    ],
)
def test_relatives_are_known_and_what_nobody_knows_stops(code, kind, reaction) -> None:
    """Trying on after an error that nobody knows could cost money."""
    assert (kind_of(code), reaction_to(code)) == (kind, reaction)


PLAIN = {"ImageId": "ami-1", "Architecture": "x86_64", "PlatformDetails": "Linux/UNIX"}


def told(row: dict[str, object], name: str = "g4dn.xlarge", *, named: bool = False) -> str:
    found = unfit(PLAIN | row, (load_catalog().instance(name, "aws"),), named=named)
    return found.text if found else ""


def test_a_plain_image_serves() -> None:
    assert told({}) == ""
    assert unfit({"ImageId": "ami-1"}, (load_catalog().instance("g5.xlarge", "aws"),), named=True) is None


@pytest.mark.parametrize(
    "row",
    [
        {"PlatformDetails": "Windows"},
        {"PlatformDetails": "Red Hat Enterprise Linux"},
        {"ProductCodes": [{"ProductCodeId": "x", "ProductCodeType": "marketplace"}]},
    ],
)
def test_an_image_that_costs_by_itself_would_pass_the_budget(row: dict[str, object]) -> None:
    assert "which no budget counts" in told(row, named=True)


def test_an_image_for_another_cpu_is_told() -> None:
    assert "g5g.xlarge is arm64" in told({}, "g5g.xlarge")
    assert told({"Architecture": "arm64"}, "g5g.xlarge") == ""


@pytest.mark.parametrize("name", ["p3.2xlarge", "g3.4xlarge"])
def test_the_open_driver_knows_no_gpu_before_turing(name: str) -> None:
    """The instance would find no GPU, after minutes that are paid; one's own image may have it."""
    assert "does not know the" in told({}, name)
    assert told({}, name, named=True) == ""
