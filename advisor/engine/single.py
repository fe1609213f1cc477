"""The throughput of named instances: no ranking, no target, no price needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery, Rejection, check, is_accelerated, resources_of
from advisor.domain import (
    BatchPoint,
    CacheState,
    Disk,
    DiskRate,
    Gpu,
    InstancePrediction,
    InstanceType,
    MemoryFormat,
    Offer,
    OnGpu,
    Precision,
    Prediction,
    Resources,
    RunTime,
    Span,
    Task,
    Workload,
)
from advisor.domain.money import aged
from advisor.engine.assumptions import Assumed, assumptions, burst_warnings, idle_gpus, price_warnings
from advisor.engine.candidates import batches_of, cpu_rates_are_known, disks_for, workloads_on
from advisor.engine.limits import GOOD_ENOUGH
from advisor.engine.table import batch_latencies
from advisor.errors import CANNOT_RUN, UsageError
from advisor.messages import FieldName, Message
from advisor.models.performance.model import PerformanceModel
from advisor.questions.network import NetworkQuestion


def on_gpu(request: NetworkQuestion, model: PerformanceModel, gpu: Gpu) -> OnGpu:
    """The request's network on one GPU, whatever host feeds it: at the smallest batch whose lower
    bound is within 5 % of the best."""
    workloads = workloads_on(request, model, [gpu])[gpu.name]
    fitting = [w for w in workloads if model.gpu_memory_mib(w) <= gpu.memory_mib]
    if not fitting:
        return OnGpu(gpu=gpu, network=request.network)
    predictions = model.predict_gpu(fitting, gpu, confidence=request.confidence)
    enough = GOOD_ENOUGH * max(prediction.lower for prediction in predictions)
    workload, prediction = next(
        pair for pair in zip(fitting, predictions, strict=True) if pair[1].lower >= enough
    )
    return OnGpu(gpu=gpu, network=request.network, workload=workload, prediction=prediction)


def predict_instance(
    request: NetworkQuestion,
    catalog: Catalog,
    model: PerformanceModel,
    name: str,
    *,
    today: date | None = None,
) -> InstancePrediction:
    """Predict `request` on the instance type `name`; `UsageError` says why it cannot run there.

    Without a disk in the request: the cheapest one with which a lower bound is within 5 % of the
    best, and the smallest batch within 5 % of the best on that disk. Prices that are old on `today`
    are warned of.
    """
    instance = catalog.instance(name, catalog.cloud_of(name, request.cloud))
    offer = _offer(request, catalog, instance)
    notes = _notes(request, catalog, instance, offer)
    region = offer.region if offer else request.region
    table = _Table(request, catalog, model, instance, region)
    disk, workload, prediction = table.good_enough()
    points = table.by_batch(disk)
    disk = catalog.disks_of(instance.cloud).with_burst(instance, disk)
    resources = resources_of(catalog, instance, disk, request.max_gpus)
    first = first_epoch_of(request, model, workload, resources)
    price = offer.price if offer else None
    warned = price_warnings(price, disk, today) if today else []
    warned += [*burst_warnings(disk, prediction), *idle_gpus(instance, workload, prediction)]
    return InstancePrediction(
        instance=instance,
        disk=replace(disk, price=aged(disk.price, today)) if today and disk.price else disk,
        workload=workload,
        prediction=prediction,
        price=aged(price, today) if today and price else price,
        notes=notes,
        by_batch=points,
        good_batch_size=smallest_good_batch(points),
        run=run_of(request, prediction, first),
        first_epoch=first,
        assumptions=assumptions(request, Assumed(workload, prediction, instance, first, disk), ranked=False),
        warnings=tuple(warned),
        region=offer.region if offer else None,
    )


def _notes(
    request: NetworkQuestion, catalog: Catalog, instance: InstanceType, offer: Offer | None
) -> tuple[Message, ...]:
    """What the user must mind; `UsageError` where the type cannot run the request at all."""
    computes, accelerated = request.task is not Task.PREPROCESSING, is_accelerated(instance)
    if computes and not accelerated and not cpu_rates_are_known(request):
        fp32 = request.precision in (None, Precision.FP32)
        layout = request.memory_format or MemoryFormat.CONTIGUOUS
        setting = f"{request.stack}, {layout}" if fp32 else request.precision
        instead = "eager, contiguous PyTorch" if fp32 else "--precision fp32"
        raise UsageError(
            "no rate of {setting} on a CPU was measured",
            setting=setting,
            hint=Message(
                "ask for {name} with {instead}, or for an instance with a GPU",
                name=instance.name,
                instead=instead,
            ),
            field="precision" if not fp32 else "stack",
            code=CANNOT_RUN,
        )
    closed = offer.closed if offer else catalog.closed(instance, request.market)
    needs_gpu = computes and accelerated
    verdict = check(instance, catalog.gpu_of(instance), needs_gpu=needs_gpu, closed=closed)
    if not isinstance(verdict, Rejection):
        return verdict.notes
    if verdict.reason != "not_offered":
        raise UsageError(
            "{name} cannot run this: {why}",
            name=instance.name,
            why=verdict.detail,
            field="instance",
            code=CANNOT_RUN,
        )
    return (verdict.detail,)


class _Table:
    """Every disk that is worth a look with every batch size that fits: the one that was asked for,
    and those that users choose. All of it is predicted in one call of the model."""

    def __init__(
        self,
        request: NetworkQuestion,
        catalog: Catalog,
        model: PerformanceModel,
        instance: InstanceType,
        region: str | None,
    ) -> None:
        self._request = request
        self._model = model
        gpu = catalog.gpu_of(instance)
        workloads = workloads_on(request, model, [gpu])[gpu.name if gpu else ""]
        self._asked = _fitting(model, workloads, gpu)
        if not self._asked:
            raise UsageError(
                "{name} cannot run this: it needs {needed:mib} of GPU memory",
                name=instance.name,
                needed=model.gpu_memory_mib(workloads[0]),
                field="instance",
                code=CANNOT_RUN,
                hint=Message(
                    "ask for a smaller {batch}, or an instance whose GPU has more memory",
                    batch=FieldName("batch_size"),
                ),
            )
        self._disks = disks_for(request, catalog, instance, region)
        if not self._disks:
            raise UsageError(
                "no disk of known rate and price holds {dataset} on {name}",
                dataset=request.dataset.name,
                name=instance.name,
                field="instance",
                hint=Message(
                    "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
                ),
            )
        usual = batches_of(replace(request, batch_size=None), workloads[0]) if request.batch_size else ()
        others = [workload for workload in usual if workload not in self._asked]
        shown = [*self._asked, *_fitting(model, others, gpu)]
        self._workloads = sorted(shown, key=lambda workload: workload.batch_size)
        self._resources = resources_of(catalog, instance, self._disks[0], request.max_gpus)
        pairs = [(workload, self._resources) for workload in self._workloads]
        self._rows = model.prepare(pairs, confidence=request.confidence)
        self._by_disk = self._predicted([disk.rate for disk in self._disks])

    def good_enough(self) -> tuple[Disk, Workload, Prediction]:
        """The cheapest disk with which a lower bound is within 5 % of the best one, at the smallest
        batch within 5 % of the best on that disk: the batch with which `recommend` shows it."""
        wanted = set(self._asked)
        options = [
            (disk, workload, prediction)
            for disk, predictions in zip(self._disks, self._by_disk, strict=True)
            for workload, prediction in zip(self._workloads, predictions, strict=True)
            if workload in wanted
        ]
        enough = GOOD_ENOUGH * max(prediction.lower for *_, prediction in options)
        disk = next(option[0] for option in options if option[2].lower >= enough)
        on_it = [option for option in options if option[0] is disk]
        enough = GOOD_ENOUGH * max(prediction.lower for *_, prediction in on_it)
        return next(option for option in on_it if option[2].lower >= enough)

    def by_batch(self, disk: Disk) -> tuple[BatchPoint, ...]:
        """Every batch size, with one of the disks."""
        predictions = self._by_disk[self._disks.index(disk)]
        pairs = [(workload, self._resources) for workload in self._workloads]
        latencies = batch_latencies(pairs, self._model, self._request.confidence)
        return tuple(
            BatchPoint(batch_size=workload.batch_size, prediction=prediction, latency=latency)
            for workload, prediction, latency in zip(self._workloads, predictions, latencies, strict=True)
        )

    def _predicted(self, disks: Sequence[DiskRate]) -> list[list[Prediction]]:
        """By disk, every batch size."""
        size = len(self._workloads)
        predictions = self._rows.with_disks(
            list(range(size)) * len(disks), [disk for disk in disks for _ in range(size)]
        )
        return [predictions[start : start + size] for start in range(0, len(predictions), size)]


def _fitting(model: PerformanceModel, workloads: Sequence[Workload], gpu: Gpu | None) -> list[Workload]:
    """Those that fit the GPU; a larger batch takes no less."""
    if gpu is None or not workloads or workloads[0].task is Task.PREPROCESSING:
        return list(workloads)
    if model.gpu_memory_mib(workloads[-1]) <= gpu.memory_mib:
        return list(workloads)
    return [workload for workload in workloads if model.gpu_memory_mib(workload) <= gpu.memory_mib]


def _offer(request: NetworkQuestion, catalog: Catalog, instance: InstanceType) -> Offer | None:
    """The instance in the region that is asked for, or in its cheapest; None without a price."""
    query = OfferQuery(
        cloud=instance.cloud,
        region=request.region if instance.cloud == request.cloud else None,
        market=request.market,
        instances=(instance.name,),
    )
    offers, _ = catalog.cheapest(query, 1)
    return offers[0] if offers else None


def first_epoch_of(
    request: NetworkQuestion, model: PerformanceModel, workload: Workload, has: Resources
) -> Span | None:
    """Hours of the first epoch (of as much of it as is run), which reads all of its data from the
    disk; None where nothing trains."""
    if request.task is not Task.TRAINING:
        return None
    cold = model.predict([(workload, has)], confidence=request.confidence, cache=CacheState.COLD)
    return _hours(request.first_samples, cold[0])


def run_of(request: NetworkQuestion, prediction: Prediction, first: Span | None) -> RunTime | None:
    """The run's time on one instance, with the hours of its first epoch; None where no run was
    asked for."""
    samples = request.run_samples
    if samples is None:
        return None
    start = request.start_hours
    start_span = Span(lower=start, median=start, upper=start)
    if first is None:
        return RunTime(samples=samples, hours=start_span + _hours(samples, prediction))
    later = samples - min(samples, request.dataset.samples)
    hours = start_span + first
    return RunTime(
        samples=samples, hours=hours + _hours(later, prediction) if later else hours, first_epoch=first
    )


def _hours(samples: float, prediction: Prediction) -> Span:
    rates = prediction.upper, prediction.median, prediction.lower
    lower, median, upper = (samples / rate / 3600 if rate > 0 else math.inf for rate in rates)
    return Span(lower=lower, median=median, upper=upper)


def smallest_good_batch(points: Sequence[BatchPoint]) -> int:
    """The smallest batch within 5 % of the best lower bound; throughput is saturated beyond."""
    enough = GOOD_ENOUGH * max(point.prediction.lower for point in points)
    return min(point.batch_size for point in points if point.prediction.lower >= enough)
