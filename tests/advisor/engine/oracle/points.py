"""All specs at all batches, each with what a request may limit. Nothing of `advisor.engine`."""

import math
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from advisor.catalog import resources_of
from advisor.domain import CacheState, DiskRate, Stage, Task, Workload

from .disks import every_disk

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
P99_OVER_P50 = 1.35  # docs/internals/model.md


@dataclass(frozen=True)
class Point:
    """So many of a spec at one batch: what they cost and reach, and how long a batch and a run
    take. `prediction` is that of one of them.
    """

    instance: Any
    region: str
    disk: Any
    batch: int
    count: int
    usd: float
    prediction: Any
    p99_ms: float | None
    hours: float | None
    sure_hours: float | None
    first_lower: float

    @property
    def lower(self):
        return self.count * self.prediction.lower

    @property
    def vcpus(self):
        return self.count * self.instance.vcpus

    def cost(self, request):
        """What the answer is the least of."""
        if self.hours is not None:
            return self.usd * self.hours
        if request.target_throughput is not None:
            return self.usd
        return self.usd / (self.count * self.prediction.median)


def workloads(request):
    sizes = (32,) if request.task is Task.PREPROCESSING else BATCHES
    sizes = (request.batch_size,) if request.batch_size else sizes
    return [
        Workload(
            network=request.network,
            task=request.task,
            batch_size=size,
            precision=request.precision,
            dataset=request.dataset,
        )
        for size in sizes
    ]


def fits_gpu(world, request, model, instance, workload):
    if request.task is Task.PREPROCESSING or instance.gpu_count == 0:
        return True
    return model.gpu_memory_mib(workload) <= world.catalog.gpu_of(instance).memory_mib


def fits_ram(model, has, workload):
    return model.host_memory_mib(workload, has) <= has.memory_mib


def points_of(world, request, model, instance, region, price, choose=lambda disks: disks):
    """The points of a type in a region; `choose` thins out the disks."""
    fitting = [w for w in workloads(request) if fits_gpu(world, request, model, instance, w)]
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
            yield Point(
                instance=instance,
                region=region,
                disk=disk,
                batch=workload.batch_size,
                count=count,
                usd=count * (price + disk.usd_per_hour),
                prediction=prediction,
                p99_ms=late.get(workload.batch_size),
                hours=hours and hours[0] / count,
                sure_hours=hours and hours[1] / count,
                first_lower=cold.lower,
            )


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
    """p99 in ms by batch: decoding (a sample on one vCPU), copying, the network; in memory, and on
    one GPU, since a batch is not split."""
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
        latency_of[batch] = 1000 * P99_OVER_P50 * doubt * seconds
    return latency_of
