"""Ends sweeps on AWS: the watch over one instance's budget, its end, and the reaper for what is left.

The reaper removes expired resources in every region. It is the third of three independent ways to end an
instance, after a timer in the guest and the controller's `finally`, and needs only tags and the clock. It
only removes resources with `advisor:managed` = `true` and an `advisor:expires-at` in the past, and detaches
or empties nothing by force."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from advisor.errors import AdvisorError, CloudError, UsageError
from advisor.infra.aws import machines, tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import AwsFailure, kind_of
from advisor.infra.aws.launch_options import LEAST, LaunchedMachine, LaunchOption, Sweep
from advisor.infra.aws.machines import (
    PATIENCE,
    Managed,
    Remaining,
    Unlisted,
    all_managed,
    enabled_regions,
    remove_all,
    state_until_ended,
)
from advisor.messages import format_usd


class Ended(Struct, frozen=True, kw_only=True):
    """The removed resources, and descriptions of those that are or may be left."""

    removed: tuple[Managed, ...]
    left: tuple[str, ...]


class NotEndedError(CloudError):
    """Resources may still run; the message says which, until when, and how to end them now."""


def end_sweep(aws: Aws, regions: Iterable[str], sweep: Sweep, first: LaunchedMachine | None) -> Ended:
    """End the sweep's instances, and remove their resources. `first` is known to run, and is ended before
    others are searched. AWS errors are not raised: what could not be listed or removed is in `left`."""
    removed: list[Managed] = []
    left: list[str] = []
    if first is not None:
        with suppress(AdvisorError):  # it is found by its tag below, and listed if it stays
            aws.ask(first.region, "terminate_instances", InstanceIds=[first.id])
    for region in regions:
        managed, not_listed = all_managed(aws, region, sweep.owner)
        left += [f"{entry.kind} in {region} is not listed: {entry.reason}" for entry in not_listed]
        result = [entry for entry in managed if entry.sweep_id == sweep.id]
        # EC2's lists may lack it, since their replicas lag.
        if first and first.region == region and all(entry.id != first.id for entry in result):
            result.append(Managed("instance", first.id, region, sweep.id, sweep.owner, first.expires_at))
        remaining = remove_all(aws, result)
        there = {entry.thing.id for entry in remaining}
        removed += [entry for entry in result if entry.id not in there]
        left += [f"{entry.thing.kind} {entry.thing.id} in {region}: {entry.reason}" for entry in remaining]
    return Ended(removed=tuple(removed), left=tuple(left))


def end_instance(aws: Aws, machine: LaunchedMachine) -> None:
    """End an instance and wait until it is no longer billed; `CloudError` if it does not end."""
    aws.ask(machine.region, "terminate_instances", InstanceIds=[machine.id])
    deadline = aws.clock.now() + PATIENCE
    if state := state_until_ended(aws, machine.region, machine.id, deadline, ("shutting-down", "terminated")):
        raise CloudError(f"{machine.id} in {machine.region} does not end: it is {state}")


def not_ended(ended: Ended, machine: LaunchedMachine | None, meter: Meter | None) -> NotEndedError:
    """The error for an instance that may still run, with what the user can do."""
    itself = "what there may be ends itself when its time is over"
    if machine and machine.expires_at and meter:
        most = format_usd(max(meter.budget_usd, meter.spent(machine.expires_at)))
        itself = (
            f"{machine.id} powers itself off at {tags.time_text(machine.expires_at)}, and costs "
            f"{most} at most until then; to end it now: `aws ec2 terminate-instances --instance-ids "
            f"{machine.id} --region {machine.region}`"
        )
    return NotEndedError(
        f"not everything has ended, as far as AWS says ({'; '.join(ended.left)})",
        hint=f"{itself}; `advisor cloud status` lists what is left, and `advisor cloud reap` removes it",
    )


BILLING_MINUTE = timedelta(minutes=1)
# A public IPv4 address in use (AWS, from 2024-02-01); the guest needs one to reach the internet.
ADDRESS_USD_PER_HOUR = 0.005
# Surplus credits of T2, T3, T3a on Linux (AWS, "Unlimited mode pricing"); T4g's are 0.04.
CREDITS_USD_PER_VCPU_HOUR = 0.05
_YEAR_HOURS = 8760.0


class Meter(Struct, frozen=True, kw_only=True):
    """A budget that is used up from `since` on, when `spent_usd` of it had been spent."""

    budget_usd: float
    usd_per_hour: float
    since: datetime
    spent_usd: float = 0.0

    def spent(self, now: datetime) -> float:
        """Dollars spent until `now`; the first minute is billed in full."""
        billed = max(BILLING_MINUTE, now - self.since)
        return self.spent_usd + self.usd_per_hour * (billed / timedelta(hours=1))

    def pays_next_minute(self, now: datetime) -> bool:
        """True if the budget pays until the next check, a minute after `now`."""
        return self.spent(now + BILLING_MINUTE) <= self.budget_usd

    @property
    def ends_at(self) -> datetime:
        """When the budget is used up."""
        return self.since + self.lasts

    @property
    def lasts(self) -> timedelta:
        """The time that the rest of the budget pays."""
        return lasts(self.budget_usd, self.usd_per_hour, math.inf, self.spent_usd)


def lasts(budget_usd: float, hourly: float, hours: float, spent_usd: float = 0.0) -> timedelta:
    """The time that the rest of a budget pays, at most `hours`."""
    paid = max(0.0, budget_usd - spent_usd) / hourly
    return timedelta(hours=min(hours, paid, _YEAR_HOURS))


def usd_per_hour(option: LaunchOption, sweep: Sweep) -> float:
    """Upper bound of the cost of an hour: instance, volumes, and public address."""
    volumes = [(disk.type, disk.size_gib, disk.iops, disk.mib_per_second) for disk in sweep.volumes]
    disks = sum(_volume_usd(*volume, option.region) for volume in volumes)
    root = _volume_usd("gp3", sweep.root_gib, None, None, option.region)
    return option.usd_per_hour + _surplus_usd(option.instance_type) + disks + root + ADDRESS_USD_PER_HOUR


def refuse_too_small(budget_usd: float, hourly: float, what: str) -> None:
    """Raise `UsageError` if the budget does not pay the shortest useful time, `LEAST`."""
    if lasts(budget_usd, hourly, math.inf) >= LEAST:
        return
    minutes = LEAST / timedelta(minutes=1)
    cents = math.floor(100 * hourly * (LEAST / timedelta(hours=1))) + 1
    raise UsageError(
        f"a budget of {format_usd(budget_usd)} does not pay {minutes:.0f} minutes of {what} "
        f"at {format_usd(hourly)}/h",
        hint=f"give --budget {cents / 100:.2f}USD or more",
    )


@cache
def _surplus_usd(instance_type: str) -> float:
    """Cost per hour of a burstable type's surplus credits, else 0. Such types launch as *unlimited*, and
    measuring uses surplus credits all the time. (T2 is not unlimited unless its account changed that.)"""
    instance = load_catalog().instance(instance_type, "aws")
    return CREDITS_USD_PER_VCPU_HOUR * instance.vcpus if instance.burstable else 0.0


@cache
def _volume_usd(
    disk_type: str, gib: float, iops: float | None, mib_per_second: float | None, region: str
) -> float:
    order = DiskChoice(type=disk_type, size_gib=gib, iops=iops, mib_per_second=mib_per_second)
    return load_catalog().disks.price(order, region).usd_per_hour


# Seconds of a minute that requests may take, so that the budget is still checked every minute.
_PATIENCE = 20.0
# EC2's lists lack an instance for seconds after its launch.
_FORGIVEN = timedelta(minutes=2)


class Why(StrEnum):
    """The reason why the watch over an instance ended."""

    DONE = "done"
    FAILED = "failed"
    BUDGET = "budget"
    EXPIRED = "expired"
    SHUT_DOWN = "shut_down"  # by the guest, without a report
    TAKEN_BACK = "taken_back"
    ENDED = "ended"


class Work(Protocol):
    """The work of an instance as its controller sees it."""

    def reported(self, machine: LaunchedMachine) -> Why | None:
        """The guest's report of its end (`done`, `failed`, `expired`, `taken_back`); None while it works or
        is silent. Also collects new results."""

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        """Called every minute; `trouble` is why AWS did not answer, or empty."""

    def on_end(self, outcome: Outcome) -> None:
        """Called at the end, before the instance's resources are removed, to save its logs."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How the watch over an instance ended; `code` is EC2's state reason if the instance ended by itself."""

    why: Why
    machine: LaunchedMachine
    at: datetime
    code: str = ""


def watch(aws: Aws, machine: LaunchedMachine, meter: Meter, work: Work) -> Outcome:
    """Wait until the work is done, the budget or the time is over, or the instance has ended. The budget
    check needs only the clock, so it works even while AWS does not answer."""
    while True:
        began, why = aws.clock.now(), None
        if not meter.pays_next_minute(began):
            why = Why.BUDGET
        elif machine.expires_at and began + BILLING_MINUTE > machine.expires_at:
            why = Why.EXPIRED
        if why := why or work.reported(machine):
            return Outcome(why=why, machine=machine, at=began)
        machine, trouble = _refreshed(aws, machine)
        if not machine.lives:
            why = work.reported(machine) or _why_ended(machine)
            return Outcome(why=why, machine=machine, at=began, code=machine.reason)
        work.on_minute(machine, meter.spent(began), trouble)
        used = (aws.clock.now() - began).total_seconds()
        aws.clock.sleep(max(1.0, BILLING_MINUTE.total_seconds() - used))


def _refreshed(aws: Aws, machine: LaunchedMachine) -> tuple[LaunchedMachine, str]:
    """The instance in its current state; or as it was, and why AWS did not answer."""
    try:
        return machines.instance(aws, machine.region, machine.id, patience=_PATIENCE), ""
    except machines.NotListed as error:
        if aws.clock.now() - machine.launched_at > _FORGIVEN:
            machine = replace(machine, state="terminated", reason="Forgotten")
        return machine, str(error)
    except AdvisorError as error:
        return machine, str(error)


def _why_ended(machine: LaunchedMachine) -> Why:
    kind = kind_of(machine.reason)
    if kind is AwsFailure.SPOT_TAKEN_BACK:
        return Why.TAKEN_BACK
    return Why.SHUT_DOWN if kind is AwsFailure.OWN_END else Why.ENDED


REGIONS_AT_ONCE = 8
HOME_REGION = "us-east-1"  # asked for the list of regions


class Reaped(Struct, frozen=True, kw_only=True):
    """The result of a reaper's pass. `expired` had to be removed; `remaining` are those that could not be
    (empty in a dry run, which removes nothing); `kept` have not expired, or have no readable expiry."""

    now: datetime
    dry_run: bool
    regions: tuple[str, ...]
    expired: tuple[Managed, ...]
    kept: tuple[Managed, ...]
    remaining: tuple[Remaining, ...]
    not_listed: tuple[Unlisted, ...]

    @property
    def removed(self) -> tuple[Managed, ...]:
        """The resources that were removed."""
        if self.dry_run:
            return ()
        there = {entry.thing for entry in self.remaining}
        return tuple(entry for entry in self.expired if entry not in there)


def reap(
    aws: Aws,
    *,
    now: datetime,
    owner: str | None = None,
    dry_run: bool = False,
    regions: Sequence[str] = (),
    at_once: int = REGIONS_AT_ONCE,
) -> Reaped:
    """Remove expired resources, in all regions of the account or in `regions`. Failures are in the result,
    and stop nothing else; `AdvisorError` if the regions cannot be listed."""
    if now.tzinfo is None:
        raise ValueError("now has to be an aware time")
    wanted = tuple(dict.fromkeys(regions)) or tuple(enabled_regions(aws, HOME_REGION))

    def reaped(region: str) -> tuple[list[Managed], list[Remaining], list[Unlisted]]:
        managed, not_listed = all_managed(aws, region, owner)
        expired = [entry for entry in managed if not dry_run and entry.is_expired(now)]
        return managed, remove_all(aws, expired), not_listed

    pool = ThreadPoolExecutor(at_once)
    try:
        parts = list(pool.map(reaped, wanted))
    finally:  # after Ctrl-C no further region is asked
        pool.shutdown(wait=False, cancel_futures=True)
    managed = [entry for found, _, _ in parts for entry in found]
    return Reaped(
        now=now,
        dry_run=dry_run,
        regions=wanted,
        expired=tuple(entry for entry in managed if entry.is_expired(now)),
        kept=tuple(entry for entry in managed if not entry.is_expired(now)),
        remaining=tuple(entry for _, remaining, _ in parts for entry in remaining),
        not_listed=tuple(entry for _, _, not_listed in parts for entry in not_listed),
    )
