"""Removing things of one region in an order in which nothing holds another one back.

Spot requests first (a persistent one would launch again), then instances; once those have ended,
what they held: volumes, network interfaces, security groups, keys, launch templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from advisor.errors import AdvisorError
from infra.aws.asking import Aws
from infra.aws.errors import Refused
from infra.aws.finding import Managed
from infra.aws.permissions import reaping_refusal

PATIENCE = timedelta(minutes=5)  # a GPU instance takes minutes to end, and its volumes a little
POLL_SECONDS = 5.0
_AT_ONCE = 50
# Kind -> operation, and its parameter: a list of ids, or one id.
_BY_LISTS = {
    "spot-request": ("cancel_spot_instance_requests", "SpotInstanceRequestIds"),
    "instance": ("terminate_instances", "InstanceIds"),
}
_SINGLY = {
    "volume": ("delete_volume", "VolumeId"),
    "network-interface": ("delete_network_interface", "NetworkInterfaceId"),
    "security-group": ("delete_security_group", "GroupId"),
    "key-pair": ("delete_key_pair", "KeyName"),
    "launch-template": ("delete_launch_template", "LaunchTemplateId"),
}
# Held by something that may just be ending ("InvalidParameterValue": an interface in use).
_HELD = frozenset(
    {
        "VolumeInUse", "DependencyViolation", "InvalidParameterValue",
        "InvalidNetworkInterface.InUse", "InvalidGroup.InUse", "IncorrectState",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Remaining:
    """A thing that is still there, and why."""

    found: Managed
    reason: str


def remove_all(aws: Aws, expired: Sequence[Managed]) -> list[Remaining]:
    """Remove these things of one region; returns those that are still there.

    What one of them is refused for hinders no other one, and raises nothing.
    """
    left: list[Remaining] = []
    for kind in _BY_LISTS:
        left += _remove_lists(aws, [managed for managed in expired if managed.kind == kind])
    refused = {remaining.found.id for remaining in left}
    ending = [
        managed for managed in expired if managed.kind == "instance" and managed.id not in refused
    ]
    deadline = aws.clock.now() + (PATIENCE if ending else timedelta())
    left += _wait_for(aws, ending, deadline)
    for kind in _SINGLY:
        for managed in expired:
            if managed.kind == kind:
                left += _remove_held(aws, managed, deadline)
    return left


def _remove_lists(aws: Aws, things: Sequence[Managed]) -> list[Remaining]:
    """EC2 takes these by lists, and refuses a whole list for one of it."""
    left: list[Remaining] = []
    for start in range(0, len(things), _AT_ONCE):
        part = things[start : start + _AT_ONCE]
        if _refusal(aws, part) is None:
            continue
        for entry in part:
            refused = _refusal(aws, [entry])
            left += [Remaining(entry, reaping_refusal(refused))] if refused else []
    return left


def _refusal(aws: Aws, things: Sequence[Managed]) -> AdvisorError | None:
    """Send the request; why these were not removed by it. One that is gone is removed."""
    kind, region = things[0].kind, things[0].region
    operation, parameter = (_BY_LISTS | _SINGLY)[kind]
    wanted: Any = [thing.id for thing in things] if kind in _BY_LISTS else things[0].id
    try:
        aws.ask(region, operation, **{parameter: wanted})
    except AdvisorError as error:
        return None if len(things) == 1 and _is_gone(error) else error
    return None


def _is_gone(error: AdvisorError) -> bool:
    """`InvalidVolume.NotFound`, `InvalidLaunchTemplateId.NotFoundException`, ..: somebody was
    faster, or the answer to our own first request got lost."""
    return isinstance(error, Refused) and ".NotFound" in error.code


def _wait_for(aws: Aws, ending: Sequence[Managed], deadline: datetime) -> list[Remaining]:
    """Until these instances have ended; those that have not are told."""
    left = {managed.id: managed for managed in ending}
    while left:
        states = _states(aws, list(left.values()))
        left = {name: entry for name, entry in left.items() if states[name] != "terminated"}
        if not left or aws.clock.now() >= deadline:
            break
        aws.clock.sleep(POLL_SECONDS)
    return [
        Remaining(entry, f"was told to end, and is {states[name]}; the next pass looks again")
        for name, entry in left.items()
    ]


def _states(aws: Aws, things: Sequence[Managed]) -> dict[str, str]:
    """The state of each instance by id; one that EC2 has forgotten has ended."""
    states: dict[str, str] = {}
    for start in range(0, len(things), _AT_ONCE):
        part = things[start : start + _AT_ONCE]
        names = [entry.id for entry in part]
        # A filter passes over an id that is gone; `InstanceIds` would refuse the whole list.
        filters = [{"Name": "instance-id", "Values": names}]
        try:
            rows = list(
                aws.pages(part[0].region, "describe_instances", "Reservations", Filters=filters)
            )
        except AdvisorError as error:
            states |= dict.fromkeys(names, f"in an unknown state ({error})")
            continue
        states |= dict.fromkeys(names, "terminated")
        states |= {entry["InstanceId"]: entry["State"]["Name"] for row in rows
                   for entry in row["Instances"]}  # fmt: skip
    return states


def _remove_held(aws: Aws, managed: Managed, deadline: datetime) -> list[Remaining]:
    """Remove it; again as long as what holds it may be ending."""
    while refused := _refusal(aws, [managed]):
        is_held = isinstance(refused, Refused) and refused.code in _HELD
        if not is_held or aws.clock.now() >= deadline:
            return [Remaining(managed, reaping_refusal(refused))]
        aws.clock.sleep(POLL_SECONDS)
    return []
