"""Disks on an instance: a grid over what can be ordered, by the documented rules of each type.

Where the points of the grid lie differs from world to world, so that together they are fine.
"""

import math

from advisor.domain import DiskChoice
from advisor.errors import AdvisorError

HEADROOM = 1.2  # docs: sized for the data set plus 20 %
LOCAL = "instance_store"


def every_disk(world, instance, region, request):
    """Disks that may be bought with an instance for a request; none where none can be had."""
    if not _has_disks(world, instance.cloud):
        return ()
    dataset_gib = request.dataset.total_mib / 1024
    key = (instance.cloud, instance.name, region, dataset_gib, str(request.disk or ""))
    kept = world.disks
    if key not in kept:
        kept[key] = tuple(_sorted(_found(world, instance, region, request.disk, dataset_gib)))
    return tuple(d for d in kept[key] if d.rate.type in (request.disk_types or (d.rate.type,)))


def _found(world, instance, region, choice, dataset_gib):
    sold = world.catalog.disks_of(instance.cloud)
    for kind, size, iops, rate in _orders(sold, instance, choice, dataset_gib * HEADROOM, world.phase):
        try:
            yield sold.attach(
                instance, DiskChoice(type=kind, size_gib=size, iops=iops, mib_per_second=rate), region
            )
        except AdvisorError:
            continue  # not sold so, not there, or not at a known price


def _orders(sold, instance, choice, needed, phase):
    if choice is not None:
        rule = sold.rules.get(choice.type)
        least = max(math.ceil(needed), rule.min_gib if rule else 1)
        size = choice.size_gib or (_roomy(rule, least, choice.iops) if rule else least)
        yield choice.type, size, choice.iops, choice.mib_per_second
        return
    if needed <= instance.instance_store_gib:
        yield LOCAL, needed, None, None
    for name, rule in sold.rules.items():
        least = max(math.ceil(needed), rule.min_gib)
        if rule.provision_iops_max is None:
            for size in _grid(least, rule.max_gib, 1.3, phase):
                yield name, size, None, None
            continue
        rates = [None, *_grid(rule.provision_mib_s_min, rule.provision_mib_s_max, 1.5, phase)]
        least_iops, most_iops = rule.provision_iops_min, rule.provision_iops_max
        for iops in (None, *_grid(least_iops, most_iops, 1.5, phase, unit=10)):
            for rate in rates if rule.provision_mib_s_max else [None]:
                yield name, _roomy(rule, least, iops), iops, rate


def _roomy(rule, least, iops):
    """The size that may have so many IOPS, where IOPS are sold by the GiB."""
    included = 3000 if rule.type == "gp3" else 0
    if iops is None or not rule.provision_iops_per_gib or iops <= included:
        return least
    return max(least, math.ceil(iops / rule.provision_iops_per_gib))


def _grid(low, high, step, phase, unit=1):
    """Whole units from the least to the most that is sold; the phase moves those between."""
    if high is None:
        return
    low = max(low, unit)  # nothing cannot be ordered, and no factor leads away from it
    yield math.ceil(low)
    while (low := low * step ** (phase or 1.0)) < high:
        yield min(unit * math.ceil(low / unit), high)
        phase = 1.0
    yield high


def _sorted(disks):
    return sorted(disks, key=lambda disk: disk.usd_per_hour)


def _has_disks(world, cloud):
    return cloud in world.catalog.disk_clouds
