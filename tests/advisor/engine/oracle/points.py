"""All specs at all batches, each with what a request may limit. Nothing of `advisor.engine`."""

import math
from contextlib import suppress
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from msgspec.structs import replace

from advisor.catalog import resources_of
from advisor.domain import CacheState, DiskChoice, DiskRate, Precision, Stage, Task, Workload
from advisor.errors import AdvisorError

HEADROOM = 1.2  # docs: sized for the data set plus 20 %
LOCAL = "instance_store"


def every_disk(world, instance, region, request):
    """Disks that may be bought with an instance for a request; none where none can be had."""
    if instance.cloud not in world.catalog.disk_clouds:
        return ()
    dataset_gib = request.dataset.total_mib / 1024
    key = (instance.cloud, instance.name, region, dataset_gib, str(request.disk or ""))
    kept = world.disks
    if key not in kept:
        sold = _sold_disks(world, instance, region, request.disk, dataset_gib)
        kept[key] = tuple(sorted(sold, key=lambda disk: disk.usd_per_hour))
    return tuple(d for d in kept[key] if d.rate.type in (request.disk_types or (d.rate.type,)))


def _sold_disks(world, instance, region, choice, dataset_gib):
    sold = world.catalog.disks_of(instance.cloud)
    for kind, size, iops, rate in _orders(sold, instance, choice, dataset_gib * HEADROOM, world.phase):
        with suppress(AdvisorError):  # not sold so, not there, or not at a known price
            order = DiskChoice(type=kind, size_gib=size, iops=iops, mib_per_second=rate)
            yield sold.attach(instance, order, region)


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


BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
P99_OVER_P50 = 1.35  # docs/internals/model.md


def paid_hours(request, hours):
    """The hours of a run; on a commitment the term (in units of itself), on one machine a horizon."""
    committed = request.market is not None and request.market.startswith("commitment")
    return math.ceil(hours / request.horizon_hours) if committed else hours


@dataclass(frozen=True)
class Point:
    """So many of a spec at one batch: cost, rates and times; `prediction` is that of one of them."""

    instance: Any
    region: str
    disk: Any
    batch: int
    count: int
    usd: float
    prediction: Any
    p99_ms: float | None
    p99_median_ms: float | None
    hours: float | None
    sure_hours: float | None
    first_lower: float
    first_median: float

    @property
    def lower(self):
        return self.count * self.prediction.lower

    @property
    def median(self):
        return self.count * self.prediction.median

    @property
    def waits(self):
        """The hours of a run, or the dollars an hour of work without an end."""
        return self.usd if self.hours is None else self.hours

    def deciding(self, request, surely, at_the_median):
        """What a limit is held against: a bound, or the median where a miss counts by its cost."""
        return getattr(self, surely if request.is_sure else at_the_median)

    def cost(self, request):
        """What the answer is the least of."""
        cost = self.usd / self.median
        if self.hours is not None:
            cost = self.usd * paid_hours(request, self.hours)
        elif request.target_throughput is not None:
            cost = self.usd
        return cost if request.is_sure else cost * (2 - self.chance(request))

    def worst_cost(self, request):
        """The same at the lower bound of the rate."""
        return self.usd / self.lower if self.hours is None else self.usd * self.sure_hours

    def is_surely_fast_enough(self, request):
        """By the bounds of its rate and hours."""
        rate, hours = request.target_throughput, request.max_hours
        return (rate is None or self.lower >= rate) and (hours is None or self.sure_hours <= hours)

    def chance(self, request):
        """The chance of a point that meets all limits at the median."""
        aims = [(self.lower, self.median, request.target_throughput)]
        if request.max_latency_ms is not None:
            aims.append((1 / self.p99_ms, 1 / self.p99_median_ms, 1 / request.max_latency_ms))
        if self.hours is not None:
            pace = 1 / self.sure_hours, 1 / self.hours
            aims.append((*pace, request.max_hours and 1 / request.max_hours))
            most = request.max_run_usd
            aims.append((*(each / self.usd for each in pace), most and 1 / most))
        z = NormalDist().inv_cdf(request.confidence)
        return min(
            (_above(z, *(math.log(rate) for rate in aim)) for aim in aims if aim[-1] is not None), default=1.0
        )


def _above(z, lower, median, target):
    doubt = median - lower
    return NormalDist().cdf(z * (median - target) / doubt) if doubt > 0 and z > 0 else 1.0


def workloads(world, request, model, instance):
    sizes = (32,) if request.task is Task.PREPROCESSING else BATCHES
    sizes = (request.batch_size,) if request.batch_size else sizes
    plain = Workload(
        network=request.network,
        task=request.task,
        batch_size=request.batch_size or 32,
        precision=request.precision or Precision.FP32,
        dataset=request.dataset,
    )
    in_fp32 = plain
    if instance.gpu_count and request.precision is None and request.task is not Task.PREPROCESSING:
        gpu = world.catalog.gpu_of(instance)
        (plain,) = model.usual_settings(
            plain, [gpu], precision=True, memory_format=False, smallest_batch=sizes[0]
        )
    without_casts = in_fp32
    if plain.precision is not in_fp32.precision:
        without_casts = replace(in_fp32, precision=Precision.FP16)
    ways = dict.fromkeys([plain, without_casts] if request.max_latency_ms is not None else [plain])
    return [replace(way, batch_size=size) for way in ways for size in sizes]


def fits_gpu(world, request, model, instance, workload):
    if request.task is Task.PREPROCESSING or instance.gpu_count == 0:
        return True
    return model.gpu_memory_mib(workload) <= world.catalog.gpu_of(instance).memory_mib


def fits_ram(model, has, workload):
    return model.host_memory_mib(workload, has) <= has.memory_mib


def points_of(world, request, model, instance, region, price, choose=lambda disks: disks):
    """The points of a type in a region; `choose` thins out the disks."""
    run = workloads(world, request, model, instance)
    fitting = [w for w in run if fits_gpu(world, request, model, instance, w)]
    offered = [
        (disk, resources_of(world.catalog, instance, disk, request.max_gpus))
        for disk in choose(every_disk(world, instance, region, request))
    ]
    fits = [(d, w, has) for d, has in offered for w in fitting if fits_ram(model, has, w)]
    pairs = [(workload, has) for _, workload, has in fits]
    usual = model.predict(pairs, confidence=request.confidence)
    first = _first_epochs(request, model, pairs, usual)
    late = _latencies(request, model, pairs)
    for (disk, workload, _), prediction, cold in zip(fits, usual, first, strict=True):
        hours = _hours(request, cold, prediction)
        for count in range(1, request.max_count + 1):
            point = Point(
                instance=instance,
                region=region,
                disk=disk,
                batch=workload.batch_size,
                count=count,
                usd=count * (price + disk.usd_per_hour),
                prediction=prediction,
                p99_ms=late.get(workload, (None, None))[0],
                p99_median_ms=late.get(workload, (None, None))[1],
                hours=hours and hours[0] / count,
                sure_hours=hours and hours[1] / count,
                first_lower=cold.lower,
                first_median=cold.median,
            )
            yield point
            if point.is_surely_fast_enough(request):
                break  # more instances would only be idle


def _first_epochs(request, model, pairs, usual):
    if request.task is not Task.TRAINING:
        return usual
    return model.predict(pairs, confidence=request.confidence, cache=CacheState.COLD)


def _hours(request, cold, usual):
    """(likely, surely): the first epoch of a training comes from the disk, the rest as usual."""
    samples = request.run_samples
    if samples is None:
        return None
    first = min(samples, request.dataset.samples)
    return tuple(
        (first / getattr(cold, bound) + (samples - first) / getattr(usual, bound)) / 3600
        for bound in ("median", "lower")
    )


def _latencies(request, model, pairs):
    """p99 in ms by workload: decoding, copying and the network; on one GPU, since no batch is split."""
    if request.max_latency_ms is None:
        return {}
    memory = DiskRate(type="memory")
    alone = dict.fromkeys((w, replace(has, disk=memory, gpu_count=1)) for w, has in pairs)
    latency_of = {}
    for (workload, has), prediction in zip(
        alone, model.predict(list(alone), confidence=request.confidence), strict=True
    ):
        batch, rates = workload.batch_size, prediction.stage_rates
        seconds = batch / rates[Stage.ACCELERATOR] + max(batch, has.vcpus) / rates[Stage.HOST]
        seconds += batch / rates[Stage.TRANSFER] if Stage.TRANSFER in rates else 0.0
        doubt = prediction.median / prediction.lower if prediction.lower > 0 else math.inf
        latency_of[workload] = 1000 * P99_OVER_P50 * doubt * seconds, 1000 * P99_OVER_P50 * seconds
    return latency_of
