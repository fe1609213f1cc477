"""The bottleneck of a prediction, and the gain of a little more of each resource.

Gains are differences of the same model's likely rate, asked again with changed resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import Catalog, resources_of
from advisor.domain import Disk, InstanceType, Prediction, Resources, Task, Workload
from advisor.domain.decision import Explanation, Gain
from advisor.engine.candidates import BATCH_SIZES

if TYPE_CHECKING:
    from advisor.engine.model import ExplainingModel, PerformanceModel

# Steps that somebody would take: what is bought comes in vCPUs, GiB, MiB/s and hundreds of IOPS.
MEMORY_STEP_MIB = 1024.0
IOPS_STEP = 100.0


class Change(Struct, frozen=True):
    """One resource with a little more of it."""

    resource: str
    step: str
    workload: Workload
    resources: Resources


def explain(
    catalog: Catalog,
    model: ExplainingModel,
    instance: InstanceType,
    disk: Disk,
    workload: Workload,
    prediction: Prediction,
) -> Explanation:
    """Explain the `prediction` of a workload on an instance with a disk."""
    resources = resources_of(catalog, instance, disk, prediction.gpus_used)
    rates = dict(prediction.stage_rates)
    bound = rates.pop(prediction.bottleneck)
    following = min(rates, key=rates.__getitem__, default=None)
    return Explanation(
        bottleneck=prediction.bottleneck,
        bottleneck_rate=bound,
        next_stage=following,
        next_rate=rates[following] if following else None,
        gains=_gains(model, workload, resources, prediction),
        distances=model.distances(workload, resources, prediction),
    )


def changes(model: PerformanceModel, workload: Workload, has: Resources) -> Iterator[Change]:
    """Each resource that can be had in steps, and the next larger batch that fits."""
    step = "1 vCPU, a core" if has.physical_cores >= has.vcpus else "1 vCPU, half a core"
    yield Change("vcpus", step, workload, _with_vcpu(model, workload, has))
    more_memory = replace(has, memory_mib=has.memory_mib + MEMORY_STEP_MIB)
    yield Change("memory", "1 GiB of RAM", workload, more_memory)
    disk = has.disk
    if disk.read_mib_per_second is not None:
        faster = replace(disk, read_mib_per_second=disk.read_mib_per_second + 1)
        yield Change("disk_throughput", "1 MiB/s of disk", workload, replace(has, disk=faster))
    if disk.read_iops is not None:
        faster = replace(disk, read_iops=disk.read_iops + IOPS_STEP)
        yield Change("disk_iops", f"{IOPS_STEP:g} IOPS", workload, replace(has, disk=faster))
    larger = _larger_batch(model, workload, has)
    if larger:
        yield Change("batch_size", f"batch {larger.batch_size}, not {workload.batch_size}", larger, has)


def _gains(
    model: PerformanceModel, workload: Workload, has: Resources, before: Prediction
) -> tuple[Gain, ...]:
    changed = list(changes(model, workload, has))
    pairs = [(change.workload, change.resources) for change in changed]
    predictions = model.predict(pairs, confidence=before.confidence)
    return tuple(
        Gain(
            resource=change.resource,
            step=change.step,
            samples_per_second=after.median - before.median,
            percent=100 * (after.median / before.median - 1),
            bottleneck=after.bottleneck,
        )
        for change, after in zip(changed, predictions, strict=True)
    )


def _with_vcpu(model: PerformanceModel, workload: Workload, has: Resources) -> Resources:
    """One vCPU more, which is half a core where a core is sold as two.

    Its loader process brings its own RAM: otherwise it would take from the page cache, and a
    vCPU that helps nobody would seem to do harm, though nobody had to use it.
    """
    cores = has.physical_cores * (has.vcpus + 1) / has.vcpus
    more = replace(has, vcpus=has.vcpus + 1, physical_cores=cores)
    loader_mib = model.host_memory_mib(workload, more) - model.host_memory_mib(workload, has)
    return replace(more, memory_mib=has.memory_mib + max(0.0, loader_mib))


def _larger_batch(model: PerformanceModel, workload: Workload, has: Resources) -> Workload | None:
    """The workload with the next larger batch; None where none is worth a look, or none fits."""
    larger = [size for size in BATCH_SIZES if size > workload.batch_size]
    if not larger or workload.task is Task.PREPROCESSING:
        return None
    next_one = replace(workload, batch_size=larger[0])
    if has.gpu is not None and model.gpu_memory_mib(next_one) > has.gpu.memory_mib:
        return None
    return next_one if model.host_memory_mib(next_one, has) <= has.memory_mib else None
