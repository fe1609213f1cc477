"""The disk that is enough and no more: orders between the coarse steps of the catalogue's ladder.

Of a language model's weights the least order of a type that reads so fast is enough (`least_order`); what
makes a network's work cheapest is searched by `advisor.engine.fitting`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from advisor.catalog import Catalog, DiskRule
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import Disk, DiskChoice, Offer, Rejected
from advisor.engine.candidates import attached_disks, rejected_offer
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion

# Nobody orders 5,473 IOPS.
IOPS_STEP = 10.0
_WEIGHTS = Message("the weights")
# GiB, IOPS and MiB/s of an order; None is what the size includes.
Parts = tuple[float, float | None, float | None]


def disks_by_price(
    request: SpecQuestion, catalog: Catalog, offer: Offer, weights_gib: float
) -> list[Disk] | Rejected:
    """Disks that hold the weights, cheapest first; the instance's own for a run, or if asked for."""
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
    """For each network disk larger than needed, the least order of its type that reads as fast."""
    sold, least = catalog.disks_of(offer.instance.cloud), []
    for disk in disks:
        kind = disk.choice.type
        if kind == LOCAL or (disk.rate.read_mib_per_second or math.inf) < mib_per_second:
            continue
        needed, most = sold.fitting_size(kind, data_gib), sold.passed_on(offer.instance, kind)
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
    """The least order of a type that still gives `needs` (MiB/s, IOPS) where `order` does and the
    instance passes on `most`: first less rate, then fewer IOPS, or less size where size is what
    buys rate; not below `needed_gib`."""

    def gives(parts: Parts) -> bool:
        sustained = rule.sustained(*parts)
        pairs = zip(sustained, most, needs, strict=True)
        return all(min(own, passed) >= need for own, passed, need in pairs)

    rate, iops = order.mib_per_second, order.iops
    if rate is not None:
        rate = _least(
            rule.provision_mib_s_min or 1.0,
            rate,
            1.0,
            lambda rate: gives(parts_for(rule, needed_gib, iops, rate)),
        )
    if iops is not None:
        least = max(
            rule.provision_iops_min or 1.0,
            (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf),
            rule.included_iops(needed_gib) or 0.0,
        )
        iops = _least(least, iops, IOPS_STEP, lambda tried: gives(parts_for(rule, needed_gib, tried, rate)))
    parts = parts_for(rule, needed_gib, iops, rate)
    if iops is None and rate is None and order.size_gib and rule.provision_iops_max is None:
        size = _least(needed_gib, order.size_gib, 1.0, lambda gib: gives((gib, None, None)))
        parts = rule.size_for(size), None, None
    if not gives(parts):
        return order
    size_gib, iops, rate = parts
    return DiskChoice(type=order.type, size_gib=size_gib, iops=iops, mib_per_second=rate)


def _least(low: float, high: float, unit: float, enough: Callable[[float], bool]) -> float:
    """The least of `low`, `low + unit`, .. that is enough; `high` where none before it is."""
    first, last = 0, max(0, math.ceil((high - low) / unit))
    while first < last:
        middle = (first + last) // 2
        if enough(low + middle * unit):
            last = middle
        else:
            first = middle + 1
    return min(low + first * unit, max(low, high))


def parts_for(rule: DiskRule, needed_gib: float, iops: float | None, rate: float | None) -> Parts:
    """The least order of a type that gives so much, where it provisions that at all."""
    if rate is not None:
        rate = max(float(math.ceil(rate)), rule.provision_mib_s_min or 1.0)
    if iops is not None:
        ratio = rule.provision_mib_s_per_iops or math.inf
        least = max(iops, (rate or 0.0) / ratio, rule.provision_iops_min or 1.0)
        iops = min(IOPS_STEP * math.ceil(least / IOPS_STEP), rule.provision_iops_max or math.inf)
    return min(rule.size_for(needed_gib, iops), rule.max_gib), iops, rate


def order_attached(catalog: Catalog, offer: Offer, order: DiskChoice) -> Disk:
    """An order of a known size on the offer's instance, at the price of its region."""
    return catalog.disks_of(offer.instance.cloud).attach(offer.instance, order, offer.region)
