"""A hard budget at a price per hour that is never passed, and the end of what it pays for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from advisor.errors import AdvisorError, CloudError, UsageError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.launch_options import LEAST, LaunchedMachine, LaunchOption, Sweep
from advisor.infra.aws.machines import NotListed, instance
from advisor.infra.aws.managed import KINDS, PATIENCE, POLL_SECONDS, Managed, managed_of, remove_all
from advisor.infra.aws.permissions import mend_of
from advisor.messages import Message
from advisor.units import format_usd


class Ended(Struct, frozen=True, kw_only=True):
    """Resources that are gone, and those that are or may be still there, in words."""

    removed: tuple[Managed, ...]
    left: tuple[str, ...]


class NotEndedError(CloudError):
    """Something may still run, and the message says what, until when, and what ends it now."""


def end_sweep(aws: Aws, regions: Iterable[str], sweep: Sweep, first: LaunchedMachine | None = None) -> Ended:
    """End all instances of the sweep and its owner, and remove what they leave; `first` is known
    to run, and is ended before anything is looked for. Raises nothing of AWS's: what could not be
    asked or removed is listed."""
    removed: list[Managed] = []
    left: list[str] = []
    if first is not None:
        with suppress(AdvisorError):  # it is found by its tag again, and listed where it stays
            aws.ask(first.region, "terminate_instances", InstanceIds=[first.id])
    for region in regions:
        result, not_listed = _of_sweep(aws, region, sweep)
        left += not_listed
        if first is not None and first.region == region:
            result += _unlisted(first, sweep.id, result)
        remaining = remove_all(aws, result)
        there = {entry.thing.id for entry in remaining}
        removed += [entry for entry in result if entry.id not in there]
        left += [f"{entry.thing.kind} {entry.thing.id} in {region}: {entry.reason}" for entry in remaining]
    return Ended(removed=tuple(removed), left=tuple(left))


def end_instance(aws: Aws, machine: LaunchedMachine) -> None:
    """End one instance and wait until it is billed no more; `CloudError` where it is not."""
    aws.ask(machine.region, "terminate_instances", InstanceIds=[machine.id])
    deadline = aws.clock.now() + PATIENCE
    while True:
        try:
            if not instance(aws, machine.region, machine.id).lives:
                return
        except NotListed:
            return
        if aws.clock.now() >= deadline:
            raise CloudError(
                "{machine_id} in {region} does not end", machine_id=machine.id, region=machine.region
            )
        aws.clock.sleep(POLL_SECONDS)


def _of_sweep(aws: Aws, region: str, sweep: Sweep) -> tuple[list[Managed], list[str]]:
    """All there is; a kind that may not be listed hinders the end of no other, and is listed."""
    result: list[Managed] = []
    not_listed: list[str] = []
    for kind in KINDS:
        try:
            listed = managed_of(aws, kind, region, owner=sweep.owner)
            result += [entry for entry in listed if entry.sweep_id == sweep.id]
        except Refused as refused:
            not_listed.append(f"no {kind.name} in {region} is listed: {mend_of(refused)}")
        except AdvisorError as error:  # nobody answers: nor would they for other kinds
            return result, [*not_listed, f"what there is in {region} is not known: {error}"]
    return result, not_listed


def _unlisted(machine: LaunchedMachine, sweep_id: str, things: Iterable[Managed]) -> list[Managed]:
    """The instance, where lists do not show it (any more, or again: EC2 asks one of several)."""
    if any(managed.id == machine.id for managed in things):
        return []
    owner, expires_at = "", machine.expires_at
    return [Managed("instance", machine.id, machine.region, sweep_id, owner, expires_at)]


def not_ended(ended: Ended, machine: LaunchedMachine | None, meter: Meter | None) -> NotEndedError:
    """The error that tells a user what to do where an instance may still run."""
    text = "; ".join(ended.left)
    if machine is None:
        return NotEndedError(
            "not everything has ended, as far as AWS says ({text})",
            hint=(
                "what there may be ends itself when its time is over, and `advisor cloud "
                "reap` removes the rest then; `advisor cloud status` lists what is left"
            ),
            text=text,
        )
    itself = "its own timer ends it, and so does the next pass of the reaper"
    if machine.expires_at and meter:
        most = format_usd(max(meter.budget_usd, meter.spent(machine.expires_at)))
        itself = (
            f"{machine.id} powers itself off at {tags.time_text(machine.expires_at)}, and costs "
            f"{most} at most until then"
        )
    return NotEndedError(
        "not everything has ended, as far as AWS says ({text})",
        hint=Message(
            "{itself}; to end it now: `aws ec2 terminate-instances --instance-ids "
            "{machine_id} --region {region}`; `advisor cloud status` lists what is left",
            itself=itself,
            machine_id=machine.id,
            region=machine.region,
        ),
        text=text,
    )


BILLING_MINUTE = timedelta(minutes=1)
# A public IPv4 address in use (AWS, from 2024-02-01); without one the guest reaches nothing.
ADDRESS_USD_PER_HOUR = 0.005
# Surplus credits of T2, T3, T3a on Linux (AWS, "Unlimited mode pricing"); T4g's are 0.04.
CREDITS_USD_PER_VCPU_HOUR = 0.05
_YEAR_HOURS = 8760.0


class Meter(Struct, frozen=True, kw_only=True):
    """A budget that runs from `since` on, when `spent_usd` of it were gone."""

    budget_usd: float
    usd_per_hour: float
    since: datetime
    spent_usd: float = 0.0

    def spent(self, now: datetime) -> float:
        """Dollars until now; the first minute is billed whole."""
        billed = max(BILLING_MINUTE, now - self.since)
        return self.spent_usd + self.usd_per_hour * (billed / timedelta(hours=1))

    def pays_next_minute(self, now: datetime) -> bool:
        """Whether it may go on until it is asked again a minute from now."""
        return self.spent(now + BILLING_MINUTE) <= self.budget_usd

    @property
    def ends_at(self) -> datetime:
        """When the budget is used up; never more than a billing minute is spent beyond it."""
        return self.since + self.lasts

    @property
    def lasts(self) -> timedelta:
        """Hours that the rest of the budget pays."""
        return lasts(self.budget_usd, self.usd_per_hour, math.inf, self.spent_usd)


def lasts(budget_usd: float, hourly: float, hours: float, spent_usd: float = 0.0) -> timedelta:
    """Hours that the rest of a budget pays, at most `hours`."""
    paid = max(0.0, budget_usd - spent_usd) / hourly
    return timedelta(hours=min(hours, paid, _YEAR_HOURS))


def usd_per_hour(option: LaunchOption, sweep: Sweep) -> float:
    """The most that an hour costs: instance, every volume, a public address."""
    volumes = [(disk.type, disk.size_gib, disk.iops, disk.mib_per_second) for disk in sweep.volumes]
    disks = sum(_volume_usd(*volume, option.region) for volume in volumes)
    root = _volume_usd("gp3", sweep.root_gib, None, None, option.region)
    return option.usd_per_hour + _surplus_usd(option.instance_type) + disks + root + ADDRESS_USD_PER_HOUR


def refuse_too_small(
    budget_usd: float, spent: float, hourly: float, what: str, least: timedelta = LEAST
) -> None:
    """`UsageError` where the budget does not pay the least that is of use."""
    if lasts(budget_usd, hourly, math.inf, spent) >= least:
        return
    minutes = math.ceil(least / timedelta(minutes=1))
    cents = math.floor(100 * (spent + hourly * (least / timedelta(hours=1)))) + 1
    used = f", of which {format_usd(spent)} are spent already," if spent else ""
    raise UsageError(
        "a budget of {budget_usd:usd}{used} does not pay {minutes:.0f} minutes of {what} at {hourly:usd}/h",
        hint=Message("give --budget {cents:.2f}USD or more", cents=cents / 100),
        budget_usd=budget_usd,
        used=used,
        minutes=minutes,
        what=what,
        hourly=hourly,
    )


@cache
def _surplus_usd(instance_type: str) -> float:
    """Burstable types launch as *unlimited*, and what they compute beyond their credits is billed
    on top; measuring is all of that. (T2 does not, which its account may change.)"""
    instance = load_catalog().instance(instance_type, "aws")
    return CREDITS_USD_PER_VCPU_HOUR * instance.vcpus if instance.burstable else 0.0


@cache
def _volume_usd(
    disk_type: str, gib: float, iops: float | None, mib_per_second: float | None, region: str
) -> float:
    order = DiskChoice(type=disk_type, size_gib=gib, iops=iops, mib_per_second=mib_per_second)
    return load_catalog().disks.price(order, region).usd_per_hour
