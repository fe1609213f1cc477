"""Lists the cloud resources of sweeps by their tags, and removes them in an order that works.

It needs no file or database. Spot requests are removed first (a persistent one would launch again), then
instances; when those have ended, the resources that they used: volumes, network interfaces, security groups,
keys, launch templates."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

from msgspec import Struct

from advisor.domain import Market
from advisor.errors import AdvisorError, CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import AwsFailure, Refused, reaping_refusal
from advisor.infra.aws.launch_options import LaunchedMachine, oldest_first

# 'User initiated (2026-11-21 16:00:00 GMT)'
_ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


def instances_of(aws: Aws, regions: Iterable[str], sweep_id: str, slot: str | None) -> list[LaunchedMachine]:
    """A sweep's instances in any state, oldest first; EC2 lists ended ones for an hour."""
    filters = tags.managed_filters(sweep_id=sweep_id)
    result = [
        machine_from(row, region)
        for region in regions
        for reservation in aws.pages(region, "describe_instances", "Reservations", Filters=filters)
        for row in reservation["Instances"]
    ]
    return oldest_first([entry for entry in result if slot is None or entry.slot == slot])


class NotListed(CloudError):
    """EC2 does not list the instance yet, or no longer."""


def instance(aws: Aws, region: str, instance_id: str, *, patience: float | None = None) -> LaunchedMachine:
    """An instance in its current state; `NotListed` if EC2 does not list it."""
    filters = [{"Name": "instance-id", "Values": [instance_id]}]
    answer = aws.ask(region, "describe_instances", patience=patience, Filters=filters)
    for reservation in answer.get("Reservations", ()):
        for row in reservation["Instances"]:
            return machine_from(row, region)
    raise NotListed(f"EC2 does not know {instance_id}")


def console_output(aws: Aws, machine: LaunchedMachine) -> str:
    """An instance's console output: the last 64 KiB, which EC2 keeps for about an hour after its end. Empty
    in the first minutes after a start."""
    answer = aws.ask(machine.region, "get_console_output", InstanceId=machine.id)
    return str(answer.get("Output", ""))  # botocore has decoded the base64


def machine_from(row: Mapping[str, Any], region: str) -> LaunchedMachine:
    """The instance in an item of `Instances`; an unreadable tag counts as missing."""
    own = tags.tags_from(row.get("Tags"))
    state = row["State"]["Name"]
    ended = _ENDED_AT.search(row.get("StateTransitionReason", ""))
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
        ended_at=datetime.strptime(ended[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) if ended else None,
        reason=row.get("StateReason", {}).get("Code", "") if state != "running" else "",
    )


def spent_usd(machines: Sequence[LaunchedMachine], now: datetime) -> float:
    """Upper bound of the cost of a slot's instances. Each has the cost of earlier ones in a tag, so that
    instances that EC2 no longer lists count, too."""
    before = max((entry.spent_before_usd + _cost(entry, now) for entry in machines), default=0.0)
    return max(before, sum(_cost(entry, now) for entry in machines))


def _cost(entry: LaunchedMachine, now: datetime) -> float:
    """Cost of an instance so far; EC2 bills at least 60 s ("Billing and purchasing options")."""
    until = now if entry.lives else entry.ended_at or min(now, entry.expires_at or now)
    seconds = max(60.0, (until - entry.launched_at).total_seconds())
    return entry.usd_per_hour * seconds / 3600


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


class Managed(Struct, frozen=True):
    """A resource with our tags; without a readable `expires_at` it is listed but never removed."""

    kind: str
    id: str
    region: str
    sweep_id: str
    owner: str
    expires_at: datetime | None
    state: str = ""
    detail: str = ""

    def is_expired(self, now: datetime) -> bool:
        """True if its expiry is past."""
        return self.expires_at is not None and self.expires_at <= now


class ManagedKind(Struct, frozen=True, kw_only=True):
    """A kind of resource (a row of `kinds.csv`): the operation that lists it, the key of the rows in the
    answer, their fields, and the operation that removes it. Rows in a state in `gone` no longer exist, and
    cost nothing."""

    name: str
    operation: str
    rows: str
    id_field: str
    state_field: str
    detail_field: str
    removal: str
    gone: str

    def request(self, name: str) -> dict[str, Any]:
        """The parameters of the removal: `delete_` operations take one id, others a list."""
        return {self.id_field: name} if self.removal.startswith("delete_") else {f"{self.id_field}s": [name]}


KINDS = tuple(
    ManagedKind(**row)
    for row in csv.DictReader(
        (files("advisor.infra.aws") / "kinds.csv").read_text(encoding="utf-8").splitlines()
    )
)


def managed_of(aws: Aws, kind: ManagedKind, region: str, *, owner: str | None) -> Iterator[Managed]:
    """The existing resources of one kind, optionally of one owner. EC2 filters them, and each row is checked
    again, since the result may be removed."""
    filters = tags.managed_filters(owner=owner)
    for row in aws.pages(region, kind.operation, kind.rows, Filters=filters):
        for entry in row["Instances"] if kind.rows == "Reservations" else (row,):
            result = _managed(kind, entry, region)
            if result and result.state not in kind.gone.split() and owner in (None, result.owner):
                yield result


class Unlisted(Struct, frozen=True, kw_only=True):
    """A kind of resource ("all": every kind) that a region did not list, and why, with the fix."""

    region: str
    kind: str
    reason: str


def all_managed(aws: Aws, region: str, owner: str | None) -> tuple[list[Managed], list[Unlisted]]:
    """The resources of all kinds, and the kinds that could not be listed."""
    result: list[Managed] = []
    not_listed: list[Unlisted] = []
    for kind in KINDS:
        try:
            result += managed_of(aws, kind, region, owner=owner)
        except AdvisorError as error:
            # Without an answer or valid credentials, other kinds would fail, too.
            is_last = not isinstance(error, Refused) or error.kind is AwsFailure.CREDENTIALS
            name, reason = "all" if is_last else kind.name, reaping_refusal(error)
            not_listed.append(Unlisted(region=region, kind=name, reason=reason))
            if is_last:
                break
    return result, not_listed


def enabled_regions(aws: Aws, home: str) -> list[str]:
    """The regions that the account may use; `CloudError` if AWS refuses to list them."""
    try:
        answer = aws.ask(home, "describe_regions")
    except Refused as refused:
        raise CloudError(reaping_refusal(refused), hint="or name the regions with --region") from refused
    return sorted(entry["RegionName"] for entry in answer["Regions"])


def _managed(kind: ManagedKind, row: Mapping[str, Any], region: str) -> Managed | None:
    # Only network interfaces call their tags `TagSet`.
    row_tags = tags.tags_from(row.get("Tags") or row.get("TagSet"))
    if row_tags.get(tags.MANAGED) != "true":
        return None
    state = row.get(kind.state_field, "")
    return Managed(
        kind=kind.name,
        id=row[kind.id_field],
        region=region,
        sweep_id=row_tags.get(tags.SWEEP_ID, ""),
        owner=row_tags.get(tags.OWNER, ""),
        expires_at=tags.time_from(row_tags.get(tags.EXPIRES_AT, "")),
        state=state["Name"] if isinstance(state, Mapping) else state,
        detail=row.get(kind.detail_field, ""),
    )


PATIENCE = timedelta(minutes=5)  # a GPU instance takes minutes to end, and its volumes a little
POLL_SECONDS = 5.0
# Errors for a resource in use, whose user may be ending ("InvalidParameterValue": an interface in use).
_HELD = frozenset(
    {
        "VolumeInUse",
        "DependencyViolation",
        "InvalidParameterValue",
        "InvalidNetworkInterface.InUse",
        "InvalidGroup.InUse",
        "IncorrectState",
    }
)


class Remaining(Struct, frozen=True):
    """A resource that was not removed, and why."""

    thing: Managed
    reason: str


def remove_all(aws: Aws, expired: Sequence[Managed]) -> list[Remaining]:
    """Remove resources of a region one at a time (EC2 refuses a whole list for one bad entry), and return
    those that remain. Refusals stop nothing. What instances used is removed when all of them have ended."""
    left: list[Remaining] = []
    deadline = aws.clock.now()
    for kind in KINDS:
        ending = []
        for thing in (thing for thing in expired if thing.kind == kind.name):
            if refused := _refusal(aws, kind, thing, deadline):
                left.append(Remaining(thing, reaping_refusal(refused)))
            elif kind.name == "instance":
                ending.append(thing)
        deadline += PATIENCE if ending else timedelta()
        for thing in ending:
            if state := state_until_ended(aws, thing.region, thing.id, deadline):
                text = f"was asked to end, and is {state}; the next pass looks again"
                left.append(Remaining(thing, text))
    return left


def _refusal(aws: Aws, kind: ManagedKind, thing: Managed, deadline: datetime) -> AdvisorError | None:
    """Remove a resource, with retries until the deadline while it is in use; returns the final error, or
    None. A missing resource (`InvalidVolume.NotFound`, ..) counts as removed: another process removed it, or
    the answer to our first request was lost."""
    while True:
        try:
            aws.ask(thing.region, kind.removal, **kind.request(thing.id))
        except AdvisorError as error:
            code = error.code if isinstance(error, Refused) else ""
            if ".NotFound" in code:
                return None
            if code not in _HELD or aws.clock.now() >= deadline:
                return error
            aws.clock.sleep(POLL_SECONDS)
        else:
            return None


def state_until_ended(
    aws: Aws, region: str, name: str, deadline: datetime, ended: Sequence[str] = ("terminated",)
) -> str:
    """Wait until an instance is in one of the `ended` states or no longer listed, and return an empty text;
    its state if it is still there at the deadline."""
    while True:
        try:
            state = instance(aws, region, name).state
        except NotListed:
            return ""
        except AdvisorError as error:
            state = f"in an unknown state ({error})"
        if state in ended:
            return ""
        if aws.clock.now() >= deadline:
            return state
        aws.clock.sleep(POLL_SECONDS)
