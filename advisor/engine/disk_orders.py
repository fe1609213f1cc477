"""Orders of a disk as they are sold: whole units, the least and the ratios of the type."""

from __future__ import annotations

import math

from advisor.catalog import Catalog, DiskRule
from advisor.domain import Disk, DiskChoice, Offer

# Nobody orders 5,473 IOPS.
IOPS_STEP = 10.0
# GiB, IOPS and MiB/s of an order; None is what the size includes.
Parts = tuple[float, float | None, float | None]


def parts_for(rule: DiskRule, needed_gib: float, iops: float | None, rate: float | None) -> Parts:
    """The least order of a type that gives so much, where it provisions that at all."""
    if rate is not None:
        rate = max(float(math.ceil(rate)), rule.provision_mib_s_min or 1.0)
    if iops is not None:
        ratio = rule.provision_mib_s_per_iops or math.inf
        least = max(iops, (rate or 0.0) / ratio, rule.provision_iops_min or 1.0)
        iops = min(IOPS_STEP * math.ceil(least / IOPS_STEP), rule.provision_iops_max or math.inf)
    return min(rule.size_for(needed_gib, iops), rule.max_gib), iops, rate


def attached(catalog: Catalog, offer: Offer, order: DiskChoice) -> Disk:
    """An order of a known size on the offer's instance, at the price of its region."""
    assert order.size_gib is not None
    return catalog.disks_of(offer.instance.cloud).attach(
        offer.instance,
        order.type,
        order.size_gib,
        offer.region,
        iops=order.iops,
        mib_per_second=order.mib_per_second,
    )
