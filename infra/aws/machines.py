"""The instances and volumes of a sweep in the cloud, read from their tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from advisor.domain import Market
from advisor.errors import CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.launch_options import LaunchedMachine, oldest_first

# 'User initiated (2026-11-21 16:00:00 GMT)'
_ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


def instances_of(
    aws: Aws, regions: Iterable[str], sweep_id: str, slot: str | None = None
) -> list[LaunchedMachine]:
    """The sweep's instances in any state, ended ones too for as long as EC2 lists them (about an
    hour), oldest first."""
    filters = tags.managed_filters(sweep_id=sweep_id)
    result = [
        machine_from(row, region)
        for region in regions
        for reservation in aws.pages(region, "describe_instances", "Reservations", Filters=filters)
        for row in reservation["Instances"]
    ]
    return oldest_first([entry for entry in result if slot is None or entry.slot == slot])


class NotListed(CloudError):
    """EC2 does not know the instance: not yet, or not any more."""


def instance(aws: Aws, region: str, instance_id: str, *, patience: float | None = None) -> LaunchedMachine:
    """One instance as it is now; `NotListed` where EC2 does not know it."""
    try:
        answer = aws.ask(region, "describe_instances", patience=patience, InstanceIds=[instance_id])
    except Refused as refused:
        if refused.code == "InvalidInstanceID.NotFound":
            raise NotListed(f"EC2 does not know {instance_id}") from refused
        raise
    for reservation in answer.get("Reservations", ()):
        for row in reservation["Instances"]:
            return machine_from(row, region)
    raise NotListed(f"EC2 does not know {instance_id}")


def console_output(aws: Aws, machine: LaunchedMachine) -> str:
    """The instance's console output as EC2 keeps it: the last 64 KiB, for about an hour after its end;
    empty where it has none (it is posted minutes after a start)."""
    answer = aws.ask(machine.region, "get_console_output", InstanceId=machine.id)
    return str(answer.get("Output", ""))  # botocore has decoded it


def as_ended(machine: LaunchedMachine) -> LaunchedMachine:
    """An instance that is remembered no more."""
    return replace(machine, state="terminated", reason="Forgotten")


def machine_from(row: Mapping[str, Any], region: str) -> LaunchedMachine:
    """An item of `Instances`; a tag that cannot be read counts as missing."""
    own = tags.tags_from(row.get("Tags"))
    state = row["State"]["Name"]
    why = row.get("StateTransitionReason", "")
    ended = _ENDED_AT.search(why)
    return LaunchedMachine(
        id=row["InstanceId"],
        region=region,
        zone=row.get("Placement", {}).get("AvailabilityZone", ""),
        instance_type=row["InstanceType"],
        market=Market.SPOT if row.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        state=state,
        launched_at=row["LaunchTime"].astimezone(UTC),
        token=row.get("ClientToken", ""),
        slot=own.get(tags.SLOT, ""),
        generation=int(_number(own.get(tags.GENERATION))),
        usd_per_hour=_number(own.get(tags.USD_PER_HOUR)),
        spent_before_usd=_number(own.get(tags.SPENT_BEFORE_USD)),
        expires_at=tags.time_from(own.get(tags.EXPIRES_AT, "")),
        ended_at=_utc(ended.group(1)) if ended else None,
        reason=row.get("StateReason", {}).get("Code", "") if state != "running" else "",
        private_ip=row.get("PrivateIpAddress", ""),
    )


def spent_usd(machines: Sequence[LaunchedMachine], now: datetime) -> float:
    """The most that a slot's instances have cost, each from its launch to its end. Each one carries what
    those before it cost: the ones that EC2 no longer lists count too."""
    before = max((entry.spent_before_usd + _cost(entry, now) for entry in machines), default=0.0)
    return max(before, sum(_cost(entry, now) for entry in machines))


def _cost(entry: LaunchedMachine, now: datetime) -> float:
    """EC2 bills seconds, at least 60 (EC2 User Guide, "Billing and purchasing options")."""
    until = now if entry.lives else entry.ended_at or min(now, entry.expires_at or now)
    seconds = max(60.0, (until - entry.launched_at).total_seconds())
    return entry.usd_per_hour * seconds / 3600


def _utc(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
