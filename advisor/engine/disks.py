"""Finds disk orders between the coarse sizes that the catalogue proposes.

For a language model's weights, the smallest order of a type that reads fast enough is taken (`least_order`).
For networks, `advisor.engine.fitting` searches `Orders` for the one that makes the work cheapest."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, DiskRule
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import Disk, DiskChoice, Offer, Rejected
from advisor.engine.candidates import attached_disks, rejected_offer
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion

# IOPS are ordered in round numbers: nobody orders 5,473.
_IOPS_STEP = 10.0
# The parts of an order that can be varied, with the smallest step; `both` is a factor of rate and IOPS.
UNITS = {"rate": 1.0, "iops": _IOPS_STEP, "both": 0.001, "size": 1.0}
# Orders between the ends of a range that one round tries.
_BETWEEN = 7
_WEIGHTS = Message("the weights")


def disks_by_price(
    request: SpecQuestion, catalog: Catalog, offer: Offer, weights_gib: float
) -> list[Disk] | Rejected:
    """Disks that hold the weights, cheapest first; local ones only for a run, or if the request has one."""
    attached = attached_disks(request, catalog, offer, weights_gib, _WEIGHTS)
    if isinstance(attached, Rejected):
        return attached
    own = request.ends or request.disk is not None or LOCAL in request.disk_types
    disks = [disk for disk in attached if own or not disk.is_local]
    if not disks:
        return rejected_offer(
            offer,
            "no_disk",
            Message(
                "only its own disk holds the weights, and that is empty after a stop: --disk local takes it"
            ),
        )
    return sorted(disks, key=lambda disk: disk.usd_per_hour)


def least_disks(
    catalog: Catalog, offer: Offer, disks: Iterable[Disk], data_gib: float, mib_per_second: float
) -> list[Disk]:
    """For each network disk that reads at `mib_per_second` or more, a smaller order of its type that does."""
    sold, least = catalog.disks_of(offer.instance.cloud), []
    for disk in disks:
        kind = disk.choice.type
        if kind == LOCAL or (disk.rate.read_mib_per_second or math.inf) < mib_per_second:
            continue
        needed, most = sold.fitting_size(kind, data_gib), sold.instance_limits(offer.instance, kind)
        order = least_order(sold.rules[kind], disk.choice, needed, most, (mib_per_second, 0.0))
        if order != disk.choice:
            least.append(order_attached(catalog, offer, order))
    return least


def least_order(
    rule: DiskRule,
    order: DiskChoice,
    needed_gib: float,
    most: tuple[float, float],
    needs: tuple[float, float],
) -> DiskChoice:
    """The smallest order that gives `needs` (MiB/s, IOPS), as `order` does, where the instance passes on
    `most`. It lowers the rate, then IOPS, or the size where that buys rate, though not below `needed_gib`."""
    sold, rate, iops = Orders(rule, needed_gib), order.mib_per_second, order.iops

    def gives(tried: DiskChoice) -> bool:
        sustained = rule.sustained(tried.size_gib or 0.0, tried.iops, tried.mib_per_second)
        pairs = zip(sustained, most, needs, strict=True)
        return all(min(own, passed) >= need for own, passed, need in pairs)

    if rate is not None:
        least = rule.provision_mib_s_min or 1.0
        rate = _least(least, rate, 1.0, lambda rate: gives(sold.giving(order, iops, rate)))
    if iops is not None:
        least = max(
            rule.provision_iops_min or 1.0,
            (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf),
            rule.included_iops(needed_gib) or 0.0,
        )
        iops = _least(least, iops, _IOPS_STEP, lambda iops: gives(sold.giving(order, iops, rate)))
    found = sold.giving(order, iops, rate)
    if iops is None and rate is None and order.size_gib and rule.provision_iops_max is None:
        size = _least(needed_gib, order.size_gib, 1.0, lambda gib: gives(replace(order, size_gib=gib)))
        found = replace(order, size_gib=rule.size_for(size))
    return found if gives(found) else order


def _least(low: float, high: float, unit: float, enough: Callable[[float], bool]) -> float:
    """The least of `low`, `low + unit`, .. that is enough, by bisection; `high` where none below it is."""
    numbers = range(max(0, math.ceil((high - low) / unit)))
    first = bisect_left(numbers, True, key=lambda number: enough(low + number * unit))
    return min(low + first * unit, max(low, high))


class Orders(Struct, frozen=True):
    """The orders that a disk type sells for disks that hold `needed_gib`."""

    rule: DiskRule
    needed_gib: float

    def least(self, order: DiskChoice) -> DiskChoice:
        """The smallest order that provisions the same as `order` does: rate, IOPS, or neither."""
        return self.giving(order, order.iops and 1.0, order.mib_per_second and 1.0)

    def range_of(self, order: DiskChoice, part: str) -> tuple[float, float, float] | None:
        """The lowest, present and highest amount of a `part` (of `UNITS`); None where it cannot be varied."""
        iops, rate, rule = order.iops, order.mib_per_second, self.rule
        most_rate = rule.provision_mib_s_max or rate
        most_iops = rule.provision_iops_max or iops
        if part == "size":
            size = order.size_gib
            if size is None or rule.provision_iops_max is not None:
                return None
            return self.needed_gib, size, min(2 * size, rule.max_gib)
        if part == "rate" and rate is not None:
            return rule.provision_mib_s_min or 1.0, rate, most_rate or rate
        if part == "iops" and iops is not None:
            # More IOPS may pay only where the order does not also provision a rate.
            least = (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf)
            most = iops if rate else most_iops or iops
            return max(rule.provision_iops_min or 1, least), iops, most
        if part == "both" and iops is not None and rate is not None:
            least = min((rule.provision_iops_min or 1.0) / iops, (rule.provision_mib_s_min or 1.0) / rate)
            return least, 1.0, min((most_iops or iops) / iops, (most_rate or rate) / rate, 2.0)
        return None

    def with_part(self, order: DiskChoice, part: str, amount: float) -> DiskChoice:
        """The smallest order like `order` with at least this amount of a part."""
        iops, rate = order.iops, order.mib_per_second
        if part == "size":
            return replace(order, size_gib=self.rule.size_for(float(math.ceil(amount))))
        if part == "both":
            iops, rate = amount * (iops or 0), amount * (rate or 0)
        elif part == "rate":
            rate = amount
        else:
            iops = amount
        return self.giving(order, iops, rate)

    def giving(self, order: DiskChoice, iops: float | None, rate: float | None) -> DiskChoice:
        """The smallest order with at least these IOPS and this rate (None: not provisioned)."""
        rule = self.rule
        if rate is not None:
            rate = max(float(math.ceil(rate)), rule.provision_mib_s_min or 1.0)
        if iops is not None:
            ratio = rule.provision_mib_s_per_iops or math.inf
            least = max(iops, (rate or 0.0) / ratio, rule.provision_iops_min or 1.0)
            iops = min(_IOPS_STEP * math.ceil(least / _IOPS_STEP), rule.provision_iops_max or math.inf)
        size = min(rule.size_for(self.needed_gib, iops), rule.max_gib)
        return replace(order, size_gib=size, iops=iops, mib_per_second=rate)


@lru_cache(maxsize=4096)
def orders_between(
    orders: Orders, order: DiskChoice, part: str, low: float, high: float
) -> tuple[tuple[float, DiskChoice], ...]:
    """Amounts of a part from `low` up to below `high`, in a constant ratio, each with its order. They are
    cached, since most questions try the same ones."""
    step = (high / low) ** (1 / (_BETWEEN + 1))
    amounts = (low * step**number for number in range(_BETWEEN + 1))
    return tuple((amount, orders.with_part(order, part, amount)) for amount in amounts)


def order_attached(catalog: Catalog, offer: Offer, order: DiskChoice) -> Disk:
    """The disk that an order of known size gives on the offer's instance, at the price of its region."""
    return catalog.disks_of(offer.instance.cloud).attach(offer.instance, order, offer.region)
