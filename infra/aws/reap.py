"""The reaper: removes what sweeps left on AWS after its time, in every region.

The third of three independent ends (a timer in the guest, the controller's `finally`, this). It knows nothing
but tags and the clock. Only what says `advisor:managed` = `true` and has an `advisor:expires-at` in the past
is touched; nothing is detached or emptied by force."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import chain
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from advisor.errors import AdvisorError, CloudError, UsageError
from advisor.infra.aws import machines, tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import AwsFailure, Refused, kind_of, mend_of
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
        managed, not_listed = all_managed(aws, region, sweep.owner)
        left += map(_unseen, not_listed)
        result = [entry for entry in managed if entry.sweep_id == sweep.id]
        # Lists may not show it (any more, or again: EC2 asks one of several).
        if first and first.region == region and all(entry.id != first.id for entry in result):
            result.append(Managed("instance", first.id, region, sweep.id, sweep.owner, first.expires_at))
        remaining = remove_all(aws, result)
        there = {entry.thing.id for entry in remaining}
        removed += [entry for entry in result if entry.id not in there]
        left += [f"{entry.thing.kind} {entry.thing.id} in {region}: {entry.reason}" for entry in remaining]
    return Ended(removed=tuple(removed), left=tuple(left))


def _unseen(entry: Unlisted) -> str:
    if isinstance(entry.error, Refused) and entry.kind != "all":
        return f"no {entry.kind} in {entry.region} is listed: {mend_of(entry.error)}"
    return f"what there is in {entry.region} is not known: {entry.reason}"


def end_instance(aws: Aws, machine: LaunchedMachine) -> None:
    """End one instance and wait until it is billed no more; `CloudError` where it is not."""
    aws.ask(machine.region, "terminate_instances", InstanceIds=[machine.id])
    deadline = aws.clock.now() + PATIENCE
    if state := state_until_ended(aws, machine.region, machine.id, deadline, ("shutting-down", "terminated")):
        raise CloudError(f"{machine.id} in {machine.region} does not end: it is {state}")


def not_ended(ended: Ended, machine: LaunchedMachine | None, meter: Meter | None) -> NotEndedError:
    """The error that tells a user what to do where an instance may still run."""
    text = "; ".join(ended.left)
    if machine is None:
        return NotEndedError(
            f"not everything has ended, as far as AWS says ({text})",
            hint=(
                "what there may be ends itself when its time is over, and `advisor cloud "
                "reap` removes the rest then; `advisor cloud status` lists what is left"
            ),
        )
    itself = "its own timer ends it, and so does the next pass of the reaper"
    if machine.expires_at and meter:
        most = format_usd(max(meter.budget_usd, meter.spent(machine.expires_at)))
        itself = (
            f"{machine.id} powers itself off at {tags.time_text(machine.expires_at)}, and costs "
            f"{most} at most until then"
        )
    return NotEndedError(
        f"not everything has ended, as far as AWS says ({text})",
        hint=(
            f"{itself}; to end it now: `aws ec2 terminate-instances --instance-ids {machine.id} "
            f"--region {machine.region}`; `advisor cloud status` lists what is left"
        ),
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
        f"a budget of {format_usd(budget_usd)}{used} does not pay {minutes:.0f} minutes of {what} "
        f"at {format_usd(hourly)}/h",
        hint=f"give --budget {cents / 100:.2f}USD or more",
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


# Of a minute, so much may go into asking: the budget is looked at every minute all the same.
_PATIENCE = 20.0
# Lists do not know an instance for seconds after its launch.
_FORGIVEN = timedelta(minutes=2)


class Why(StrEnum):
    """Why nothing more is waited for."""

    DONE = "done"
    FAILED = "failed"
    BUDGET = "budget"
    EXPIRED = "expired"
    SHUT_DOWN = "shut_down"  # by the guest itself, without a word
    TAKEN_BACK = "taken_back"
    ENDED = "ended"


class Work(Protocol):
    """The work of an instance; results come back by themselves (a database, S3)."""

    def reported(self, machine: LaunchedMachine) -> Why | None:
        """The guest's own report of its end (`done`, `failed`, `expired`, `taken_back`); None while it
        works, or is silent. Collects results that have come back."""

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        """Tell where it stands; `trouble` is why AWS could not be asked."""

    def on_end(self, outcome: Outcome) -> None:
        """Keep what the instance leaves behind; what it held is removed after this."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of an instance's time; `code` is EC2's state reason where the instance ended by itself."""

    why: Why
    machine: LaunchedMachine
    at: datetime
    code: str = ""


def watch(aws: Aws, machine: LaunchedMachine, meter: Meter, work: Work) -> Outcome:
    """Wait until the work is done, the budget or the time is over, or the instance has ended. The budget is
    looked at by the clock alone: it holds while AWS answers nothing at all."""
    while True:
        began, why = aws.clock.now(), None
        if not meter.pays_next_minute(began):
            why = Why.BUDGET
        elif machine.expires_at and began + BILLING_MINUTE > machine.expires_at:
            why = Why.EXPIRED
        if why := why or work.reported(machine):
            return Outcome(why=why, machine=machine, at=began)
        machine, trouble = _looked(aws, machine)
        if not machine.lives:
            why = work.reported(machine) or _ending(machine)
            return Outcome(why=why, machine=machine, at=began, code=machine.reason)
        work.on_minute(machine, meter.spent(began), trouble)
        used = (aws.clock.now() - began).total_seconds()
        aws.clock.sleep(max(1.0, BILLING_MINUTE.total_seconds() - used))


def _looked(aws: Aws, machine: LaunchedMachine) -> tuple[LaunchedMachine, str]:
    """The instance as it is now; as it was, with the reason, where that is not known."""
    try:
        return machines.instance(aws, machine.region, machine.id, patience=_PATIENCE), ""
    except machines.NotListed as error:
        if aws.clock.now() - machine.launched_at > _FORGIVEN:
            machine = replace(machine, state="terminated", reason="Forgotten")
        return machine, str(error)
    except AdvisorError as error:
        return machine, str(error)


def _ending(machine: LaunchedMachine) -> Why:
    kind = kind_of(machine.reason)
    if kind is AwsFailure.SPOT_TAKEN_BACK:
        return Why.TAKEN_BACK
    return Why.SHUT_DOWN if kind is AwsFailure.OWN_END else Why.ENDED


REGIONS_AT_ONCE = 8
HOME_REGION = "us-east-1"  # lists the regions there are


class Reaped(Struct, frozen=True, kw_only=True):
    """The result of a pass. `expired` was to be removed; `remaining` are those of it that are still there
    (none in a dry run, which tries nothing), `kept` those whose time is not over or unknown."""

    now: datetime
    dry_run: bool
    regions: tuple[str, ...]
    expired: tuple[Managed, ...]
    kept: tuple[Managed, ...]
    remaining: tuple[Remaining, ...]
    not_listed: tuple[Unlisted, ...]

    @property
    def removed(self) -> tuple[Managed, ...]:
        """The resources that are gone now."""
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
    """Remove what has expired, in all regions of the account or in these. What fails is listed and hinders
    nothing else; `AdvisorError` where not even the regions are known."""
    if now.tzinfo is None:
        raise ValueError("now has to be an aware time")
    wanted = tuple(dict.fromkeys(regions)) or tuple(enabled_regions(aws, HOME_REGION))
    answers = each_at_once(lambda region: _reap_region(aws, region, now, owner, dry_run), wanted, at_once)
    return Reaped(
        now=now,
        dry_run=dry_run,
        regions=wanted,
        expired=tuple(chain.from_iterable(answer.expired for answer in answers)),
        kept=tuple(chain.from_iterable(answer.kept for answer in answers)),
        remaining=tuple(chain.from_iterable(answer.remaining for answer in answers)),
        not_listed=tuple(chain.from_iterable(answer.not_listed for answer in answers)),
    )


def _reap_region(aws: Aws, region: str, now: datetime, owner: str | None, dry_run: bool) -> Reaped:
    result, not_listed = all_managed(aws, region, owner)
    expired = [entry for entry in result if entry.is_expired(now)]
    return Reaped(
        now=now,
        dry_run=dry_run,
        regions=(region,),
        expired=tuple(expired),
        kept=tuple(entry for entry in result if not entry.is_expired(now)),
        remaining=() if dry_run else tuple(remove_all(aws, expired)),
        not_listed=tuple(not_listed),
    )


Thing = TypeVar("Thing")
Answer = TypeVar("Answer")


def each_at_once(work: Callable[[Thing], Answer], things: Sequence[Thing], most: int) -> list[Answer]:
    """`work` of each thing, in their order, by so many threads at most; what one raises is raised. The
    threads are daemons: Ctrl-C does not wait for what they are asking, as that of a `ThreadPoolExecutor`
    does."""
    futures = [Future[Answer]() for _ in things]
    coming = iter(list(zip(things, futures, strict=True)))  # shared: each is taken by one thread

    def run() -> None:
        for thing, future in coming:
            try:
                future.set_result(work(thing))
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(most, len(things))):
        threading.Thread(target=run, daemon=True).start()
    wait(futures)
    return [future.result() for future in futures]
