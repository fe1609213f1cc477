"""Every code of a launch has a class and one reaction."""

from __future__ import annotations

import pytest

from advisor.infra.aws.errors import AwsFailure, Reaction, error_codes, kind_of, reaction_to

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
