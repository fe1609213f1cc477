"""A hard budget: what may still be spent, at a price per hour that is never passed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct

from advisor.catalog import load_catalog
from advisor.domain import DiskChoice
from advisor.errors import UsageError
from advisor.infra.aws.launch_options import LEAST, LaunchOption, Sweep
from advisor.messages import Message
from advisor.units import format_usd

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
    disks = sum(
        _volume_usd(disk.type, disk.size_gib, disk.iops, disk.mib_per_second, option.region)
        for disk in sweep.volumes
    )
    root = _volume_usd("gp3", sweep.root_gib, None, None, option.region)
    credits = _surplus_usd(option.instance_type)
    return option.usd_per_hour + credits + disks + root + ADDRESS_USD_PER_HOUR


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
