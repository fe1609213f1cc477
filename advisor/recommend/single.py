"""The throughput of one named instance: no ranking, no target, no price needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from advisor.catalog import Catalog, OfferQuery, Rejection, check, is_accelerated, resources_of
from advisor.domain import (
    BatchPoint,
    Disk,
    Gpu,
    InstancePrediction,
    InstanceType,
    Offer,
    Precision,
    Prediction,
    Request,
    Resources,
    Task,
    Workload,
)
from advisor.errors import UsageError
from advisor.recommend.candidates import PerformanceModel, disks_for, workloads_of
from advisor.recommend.judging import GOOD_ENOUGH
from advisor.recommend.latency import batch_latencies
from advisor.recommend.runs import run_times
from advisor.recommend.wording import (
    Assumed,
    assumptions,
    burst_warnings,
    idle_gpus,
    price_warnings,
)
from advisor.records import replace
from advisor.units import format_mib


def predict_instance(
    request: Request,
    catalog: Catalog,
    model: PerformanceModel,
    name: str,
    *,
    today: date | None = None,
) -> InstancePrediction:
    """Predict `request` on the instance type `name`; `UsageError` says why it cannot run there.

    Without a disk in the request: the cheapest one with which the lower bound is within 5 % of
    the best, and the smallest such batch. Prices that are old on `today` are warned of.
    """
    instance = catalog.instance(name)
    note = _note(request, catalog, instance)
    offer = _offer(request, catalog, instance)
    region = offer.region if offer else request.region
    disk, workload, prediction = _good_enough(request, catalog, model, instance, region)
    resources = resources_of(catalog, instance, disk, request.max_gpus)
    points = _by_batch(request, model, resources.gpu, resources)
    (run,) = run_times(request, model, [(workload, resources)], [prediction])
    price = offer.price if offer else None
    warned = price_warnings(price, disk, today) if today else []
    warned += [*burst_warnings(disk, prediction), *idle_gpus(instance, workload, prediction)]
    return InstancePrediction(
        instance=instance,
        disk=disk,
        workload=workload,
        prediction=prediction,
        price=price,
        note=note,
        by_batch=points,
        good_batch_size=smallest_good_batch(points),
        run=run,
        assumptions=assumptions(request, Assumed(workload, prediction, instance), ranked=False),
        warnings=tuple(warned),
        region=offer.region if offer else None,
    )


def _note(request: Request, catalog: Catalog, instance: InstanceType) -> str:
    """What the user must mind; `UsageError` where the type cannot run the request at all."""
    computes, accelerated = request.task is not Task.PREPROCESSING, is_accelerated(instance)
    if computes and not accelerated and request.precision is not Precision.FP32:
        raise UsageError(
            f"no rate of {request.precision} on a CPU was measured: ask for {instance.name} with "
            "--precision fp32, or for an instance with a GPU"
        )
    verdict = check(instance, catalog.gpu_of(instance), needs_gpu=computes and accelerated)
    if not isinstance(verdict, Rejection):
        return verdict.note
    if verdict.reason != "not_offered":
        raise UsageError(f"{instance.name} cannot run this: {verdict.detail}")
    return verdict.detail


def _good_enough(
    request: Request,
    catalog: Catalog,
    model: PerformanceModel,
    instance: InstanceType,
    region: str | None,
) -> tuple[Disk, Workload, Prediction]:
    """The cheapest disk and smallest batch whose lower bound is within 5 % of the best one."""
    gpu = catalog.gpu_of(instance)
    workloads = [w for w in workloads_of(request) if _fits(model, w, gpu)]
    if not workloads:
        needed = format_mib(model.gpu_memory_mib(workloads_of(request)[0]))
        raise UsageError(f"{instance.name} cannot run this: it needs {needed} of GPU memory")
    options = [
        (disk, workload, resources_of(catalog, instance, disk, request.max_gpus))
        for disk in disks_for(request, catalog, instance, region)
        for workload in workloads
    ]
    if not options:
        raise UsageError(
            f"no disk of known rate and price holds {request.dataset.name} on {instance.name}: "
            "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
        )
    predictions = model.predict(
        [(workload, resources) for _, workload, resources in options],
        confidence=request.confidence,
    )
    enough = GOOD_ENOUGH * max(prediction.lower for prediction in predictions)
    disk, workload, prediction = next(
        (disk, workload, prediction)
        for (disk, workload, _), prediction in zip(options, predictions, strict=True)
        if prediction.lower >= enough
    )
    bursting = catalog.disks_of(instance.cloud).with_burst(instance, disk)
    return bursting, workload, prediction


def _offer(request: Request, catalog: Catalog, instance: InstanceType) -> Offer | None:
    """The instance in the region that is asked for, or in its cheapest; None without a price."""
    query = OfferQuery(
        cloud=instance.cloud,
        region=request.region if instance.cloud == request.cloud else None,
        market=request.market,
        instances=(instance.name,),
    )
    found, _ = catalog.cheapest(query, 1)
    return found[0] if found else None


def smallest_good_batch(points: Sequence[BatchPoint]) -> int:
    """The smallest batch within 5 % of the best lower bound; throughput is saturated beyond."""
    enough = GOOD_ENOUGH * max(point.prediction.lower for point in points)
    return min(point.batch_size for point in points if point.prediction.lower >= enough)


def _by_batch(
    request: Request, model: PerformanceModel, gpu: Gpu | None, resources: Resources
) -> tuple[BatchPoint, ...]:
    """Every batch size that is worth a look and fits, and the one that was asked for."""
    sizes = set(workloads_of(request)) | set(workloads_of(replace(request, batch_size=None)))
    workloads = sorted((w for w in sizes if _fits(model, w, gpu)), key=lambda w: w.batch_size)
    asked = [(workload, resources) for workload in workloads]

    def predict(some: list[tuple[Workload, Resources]]) -> list[Prediction]:
        return model.predict(some, confidence=request.confidence)

    return tuple(
        BatchPoint(batch_size=workload.batch_size, prediction=prediction, latency=latency)
        for workload, prediction, latency in zip(
            workloads, predict(asked), batch_latencies(asked, predict), strict=True
        )
    )


def _fits(model: PerformanceModel, workload: Workload, gpu: Gpu | None) -> bool:
    if workload.task is Task.PREPROCESSING or gpu is None:
        return True
    return model.gpu_memory_mib(workload) <= gpu.memory_mib
