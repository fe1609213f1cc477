"""Every code of a launch has a class and one reaction."""

from __future__ import annotations

import pytest

from advisor.infra.aws.errors import Kind, Reaction, error_codes, kind_of, reaction_to

REACTIONS = {
    "InsufficientInstanceCapacity": (Kind.CAPACITY, Reaction.NEXT_OFFER),
    "UnfulfillableCapacity": (Kind.CAPACITY, Reaction.NEXT_OFFER),
    "InsufficientHostCapacity": (Kind.CAPACITY, Reaction.NEXT_OFFER),
    "InsufficientReservedInstanceCapacity": (Kind.CAPACITY, Reaction.NEXT_OFFER),
    "ReservationCapacityExceeded": (Kind.RESERVATION, Reaction.NEXT_MARKET),
    "SpotMaxPriceTooLow": (Kind.PRICE, Reaction.NEXT_MARKET),
    "MaxSpotInstanceCountExceeded": (Kind.QUOTA, Reaction.NEXT_QUOTA),
    "VcpuLimitExceeded": (Kind.QUOTA, Reaction.NEXT_QUOTA),
    "InstanceLimitExceeded": (Kind.QUOTA, Reaction.NEXT_QUOTA),
    "MaxFleetCountExceeded": (Kind.QUOTA, Reaction.NEXT_QUOTA),
    "Unsupported": (Kind.OFFERING, Reaction.NEXT_ZONE),
    "InsufficientFreeAddressesInSubnet": (Kind.NETWORK, Reaction.NEXT_ZONE),
    "IdempotentParameterMismatch": (Kind.TOKEN, Reaction.FIND),
    "DryRunOperation": (Kind.OK, Reaction.GO_ON),
    "UnauthorizedOperation": (Kind.PERMISSION, Reaction.STOP),
    "PendingVerification": (Kind.ACCOUNT, Reaction.STOP),
    "RequestLimitExceeded": (Kind.THROTTLE, Reaction.ASK_AGAIN),
    "ServerInternal": (Kind.SERVER, Reaction.ASK_AGAIN),
    "InternalError": (Kind.SERVER, Reaction.ASK_AGAIN),
    "Unavailable": (Kind.SERVER, Reaction.ASK_AGAIN),
    "ServiceUnavailable": (Kind.SERVER, Reaction.ASK_AGAIN),
    "Server.SpotInstanceTermination": (Kind.SPOT_TAKEN_BACK, Reaction.LAUNCH_AGAIN),
    "Client.InstanceInitiatedShutdown": (Kind.OWN_END, Reaction.DONE),
    "Client.VolumeLimitExceeded": (Kind.VOLUME_QUOTA, Reaction.STOP),
}


def test_all_24_codes_have_their_class() -> None:
    assert error_codes() == REACTIONS
    assert len(REACTIONS) == 24


@pytest.mark.parametrize(
    ("code", "kind", "reaction"),
    [
        ("Server.InsufficientInstanceCapacity", Kind.CAPACITY, Reaction.NEXT_OFFER),
        ("Server.InternalError", Kind.SERVER, Reaction.ASK_AGAIN),
        ("ExpiredToken", Kind.CREDENTIALS, Reaction.STOP),
        ("ThrottlingException", Kind.THROTTLE, Reaction.ASK_AGAIN),
        ("Client.InternalError", Kind.KEY, Reaction.STOP),
        ("IdempotentInstanceTerminated", Kind.TOKEN, Reaction.LAUNCH_AGAIN),
        ("Client.UserInitiatedShutdown", Kind.UNKNOWN, Reaction.STOP),
        ("SomethingNew", Kind.UNKNOWN, Reaction.STOP),
        ("", Kind.UNKNOWN, Reaction.STOP),
    ],
)
def test_relatives_are_known_and_what_nobody_knows_stops(code, kind, reaction) -> None:
    """Trying on after an error that nobody knows could cost money."""
    assert (kind_of(code), reaction_to(code)) == (kind, reaction)
