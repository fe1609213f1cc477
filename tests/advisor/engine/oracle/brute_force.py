"""The cheapest point that meets every limit, by looking at all of them."""

import math
import random
from functools import cached_property, partial

from advisor.catalog import resources_of

from .constraints import LIMITS, feasible, left_of_quota, limit_of, met_before
from .facts import asked_for, instance_of, offered_in, prices_of, why_unsupported
from .points import every_disk, fits_gpu, fits_ram, points_of, workloads

MOST_DISKS = 12


class BruteForce:
    """Every point of a request; where disks are many, its ends and a drawn part of its grid."""

    def __init__(self, world, request, model, seed=0):
        self.world, self.request, self.model = world, request, model
        self._random = random.Random(seed)
        self._points = {}

    @cached_property
    def types(self):
        """(cloud, name) of all that compete."""
        return asked_for(self.world, self.request)

    def points(self, cloud, name):
        """Those of one type, wherever it can be had."""
        if (cloud, name) not in self._points:
            self._points[cloud, name] = list(self._points_below(cloud, name, math.inf))
        return self._points[cloud, name]

    def cheapest(self, least=math.inf):
        """The least cost and its point or None; `least` spares points that a price alone makes dearer."""
        by_price = self.request.target_throughput is not None and self.request.run_samples is None
        most_usd = least if by_price else math.inf
        good = [
            (point.cost(self.request), type_index, point_index, point)
            for type_index, key in enumerate(self.types)
            for point_index, point in enumerate(self._points_below(*key, most_usd))
            if feasible(self.request, point)
        ]
        return min(good, default=(math.inf, 0, 0, None))

    def rightly_rejected(self, cloud, name, reason):
        """Whether no point that meets the limits before meets that of the reason."""
        met = limit_of(reason).met
        return not any(
            met(self.request, point)
            for point in self.points(cloud, name)
            if met_before(self.request, point, reason)
        )

    def places(self, cloud, name):
        """Region -> price where a type may be bought, if it runs."""
        known = instance_of(self.world, cloud, name)
        if known is None or why_unsupported(self.world, self.request, known):
            return {}
        return self.prices(cloud, name)

    def prices(self, cloud, name):
        """Region -> price where a type is sold, whether it runs or not."""
        offered = offered_in(self.world, cloud, name, self.request.market)
        prices = prices_of(self.world, self.request, cloud, name)
        return {region: usd for region, usd in prices.items() if region in offered}

    def _points_below(self, cloud, name, most_usd):
        for region, usd in self.places(cloud, name).items():
            if usd < most_usd:
                thinned = partial(self._thinned, most_usd=most_usd - usd)
                instance = instance_of(self.world, cloud, name)
                yield from points_of(self.world, self.request, self.model, instance, region, usd, thinned)

    def _thinned(self, disks, most_usd):
        """Those below a price; of too many the cheapest and fastest of each type, and some more."""
        if math.isfinite(most_usd):
            disks = [disk for disk in disks if disk.usd_per_hour < most_usd]
        if len(disks) <= MOST_DISKS:
            return disks
        ends = {}
        for disk in disks:
            ends.setdefault((disk.rate.type, "least"), disk)
            ends[disk.rate.type, "most"] = disk
        return [*ends.values(), *self._random.sample(disks, max(0, MOST_DISKS - len(ends)))]


def is_true(truth, cloud, name, reason):
    """Whether a type is rightly turned down; a CPU is by what it could do at most."""
    if reason in {limit.reason for limit in LIMITS if limit.reason}:
        on_cpu = instance_of(truth.world, cloud, name).gpu_count == 0
        points = truth.points(cloud, name)
        return (on_cpu or bool(points)) and truth.rightly_rejected(cloud, name, reason)
    return reason in _TRUTHS and _TRUTHS[reason](truth, cloud, name)


def _no_price(truth, cloud, name):
    region, offered = truth.request.region, offered_in(truth.world, cloud, name)
    priced = prices_of(truth.world, truth.request, cloud, name)
    return not priced and (region in offered if region else bool(offered))


def _facts_missing(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return instance is None or _verdict(truth, instance) == "facts_missing"


def _unsupported(truth, cloud, name):
    return _verdict(truth, instance_of(truth.world, cloud, name)) == "unsupported"


def _not_offered(truth, cloud, name):
    """Priced, and sold nowhere that was asked for."""
    priced = set(prices_of(truth.world, truth.request, cloud, name))
    sold = offered_in(truth.world, cloud, name, truth.request.market)
    return (bool(priced) or not sold) and not priced & sold


def _quota(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return instance.vcpus > left_of_quota(truth.request, instance)


def _fitting(truth, cloud, name):
    """Workloads that the memory of the GPU holds."""
    of = truth.world, truth.request, truth.model, instance_of(truth.world, cloud, name)
    return [workload for workload in workloads(*of) if fits_gpu(*of, workload)]


def _memory(truth, cloud, name):
    request, model = truth.request, truth.model
    instance = instance_of(truth.world, cloud, name)
    has = [
        resources_of(truth.world.catalog, instance, disk, request.max_gpus)
        for disk in _disks(truth, cloud, name)
    ]
    fitting = _fitting(truth, cloud, name)
    return bool(fitting and has) and not any(fits_ram(model, each, w) for w in fitting for each in has)


def _disks(truth, cloud, name):
    instance = instance_of(truth.world, cloud, name)
    return [
        disk
        for region in truth.places(cloud, name)
        for disk in every_disk(truth.world, instance, region, truth.request)
    ]


def _verdict(truth, instance):
    return why_unsupported(truth.world, truth.request, instance)


_TRUTHS = {
    "no_price": _no_price,
    "facts_missing": _facts_missing,
    "unsupported": _unsupported,
    "not_offered": _not_offered,
    "quota": _quota,
    "gpu_memory": lambda *of: not _fitting(*of),
    "memory": _memory,
    "no_disk": lambda *of: not _disks(*of),
}
