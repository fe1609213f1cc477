"""Predicts named instances and GPUs, which need no price and are not ranked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
from msgspec.structs import replace

from advisor.catalog import Catalog, is_accelerated
from advisor.domain import (
    BatchPoint,
    Gpu,
    InstancePrediction,
    MemoryFormat,
    OnGpu,
    Precision,
    Price,
    Rejected,
    Task,
    Workload,
)
from advisor.domain.money import aged
from advisor.engine.assumptions import assumptions, burst_warnings, idle_gpus, price_warnings
from advisor.engine.candidates import (
    DISKS_OF_YOUR_OWN,
    Runnable,
    batches_of,
    cpu_rates_are_known,
    disks_for,
    offer_named,
    workloads_on,
)
from advisor.engine.columns import Floats, Integers
from advisor.engine.limits import (
    GOOD_ENOUGH,
    aims,
    answering,
    at_good_batch,
    best_rows,
    chances_of,
    closest,
    good_share,
    limits,
    with_runs,
)
from advisor.engine.rejected import misses, shortfall
from advisor.engine.table import Candidates, Predictions, Table
from advisor.errors import CANNOT_RUN, UsageError
from advisor.messages import Message
from advisor.models.performance.memory.peak import usable_mib
from advisor.models.performance.model import PerformanceModel
from advisor.questions.fields import error_in
from advisor.questions.network import NetworkQuestion


def on_gpu(request: NetworkQuestion, model: PerformanceModel, gpu: Gpu) -> OnGpu:
    """The prediction for one GPU with any host, at the smallest good batch."""
    workloads = workloads_on(request, model, [gpu])[gpu.name]
    fitting = _fitting(model, workloads, gpu)
    if not fitting:
        largest = model.largest_batch(workloads[0], gpu)
        return OnGpu(gpu=gpu, network=request.network, largest_batch=largest)
    predictions = model.predict_gpu(fitting, gpu, confidence=request.confidence)
    best = _first_good_row(np.array([prediction.lower for prediction in predictions]), good_share(request))
    return OnGpu(gpu=gpu, network=request.network, workload=fitting[best], prediction=predictions[best])


def predict_instance(
    request: NetworkQuestion,
    catalog: Catalog,
    model: PerformanceModel,
    name: str,
    *,
    today: date | None = None,
) -> InstancePrediction:
    """The prediction of `request` on instance type `name`; raises `UsageError` where it cannot run there.
    Without a disk in the request, it has the cheapest disk whose lower bound is within 5 % of the best, and
    on it the smallest good batch, as `recommend` shows it. Prices that are old on `today`
    get a warning."""
    option, price, requested = _option_named(request, catalog, model, name, today)
    instance = option.offer.instance
    predictions = Predictions(catalog, model, request.confidence)
    table = with_runs(request, Candidates.of(request, [option], predictions).grid)
    wanted = np.flatnonzero([workload in requested for _ in option.disks for workload in option.workloads])
    row, missed = _row_of_question(request, table, wanted, has_price=price is not None)
    on_disk = _rows_by_batch(table, row)
    by_batch = table.candidates(on_disk.tolist(), request)
    chosen = by_batch[int(np.flatnonzero(on_disk == row)[0])]
    workload, prediction = chosen.workload, chosen.prediction
    latencies = predictions.latencies(table.row[on_disk].tolist())
    good = by_batch[_first_good_row(table.lower[on_disk], good_share(request))]
    disk = catalog.disks_of(instance.cloud).with_burst(instance, chosen.spec.disk)
    warned = missed + (price_warnings(price, disk, today) if today else [])
    region = option.offer.region if price else None
    if region and disk.known_usd_per_hour is None:
        warned.append(Message("no price of {disk} in {region} is known", disk=disk.rate.type, region=region))
    return InstancePrediction(
        instance=instance,
        disk=replace(disk, price=aged(disk.price, today)) if today and disk.price else disk,
        workload=workload,
        prediction=prediction,
        price=aged(price, today) if today and price else price,
        notes=option.notes,
        by_batch=tuple(
            BatchPoint(batch_size=point.workload.batch_size, prediction=point.prediction, latency=latency)
            for point, latency in zip(by_batch, latencies, strict=True)
        ),
        good_batch_size=good.workload.batch_size,
        run=chosen.run,
        probability=_chance_of(request, table.take(np.array([row]))),
        first_epoch=chosen.first_epoch,
        assumptions=assumptions(request, chosen, ranked=False),
        warnings=(*warned, *burst_warnings(disk, prediction), *idle_gpus(instance, workload, prediction)),
        region=region,
    )


def _rows_by_batch(table: Table, row: int) -> Integers:
    """The rows of a row's disk, precision and memory format, by batch size."""
    formats = [(has.precision, has.memory_format) for has, _ in table.source.predictions.pairs]
    same = np.array([each == formats[table.row[row]] for each in formats])
    return np.flatnonzero((table.spec == table.spec[row]) & same[table.row])


def _row_of_question(
    request: NetworkQuestion, table: Table, wanted: Integers, *, has_price: bool
) -> tuple[int, list[Message]]:
    """The row that represents the instance, among the `wanted` ones, and the limits that it misses; where the
    request has a target or limit, the row that `recommend` would choose."""
    disk = table.spec[wanted[_first_good_row(table.lower[wanted], GOOD_ENOUGH)]]
    on_disk = wanted[table.spec[wanted] == disk]
    usual = int(on_disk[_first_good_row(table.lower[on_disk], good_share(request))])
    request = replace(request, max_usd_per_hour=request.max_usd_per_hour if has_price else None)
    if (request.target_throughput, request.max_latency_ms, request.max_usd_per_hour) == (None, None, None):
        return usual, []
    request = replace(request, allow_extrapolation=True)
    good = wanted[answering(request, table)[wanted]]
    if len(good):
        return int(best_rows(request, table, good)[0]), []
    judged = list(limits(request, table))
    # All batches have the same price: its limit cannot decide between them.
    good = wanted[answering(replace(request, max_usd_per_hour=None), table)[wanted]]
    if len(good):
        row = int(best_rows(request, table, good)[0])
    else:
        near, _ = closest(judged, table.usd, wanted)
        row = int(wanted[at_good_batch(request, table.take(wanted), int(np.searchsorted(wanted, near)))])
    reasons = [limit.reason for limit in judged if not limit.keeps[row]]
    return row, [misses(shortfall(request, table, row, reason)) for reason in reasons]


def _chance_of(request: NetworkQuestion, one: Table) -> float | None:
    """The chance that the only row of a table keeps target and limits; None without any."""
    if request.max_usd_per_hour is not None and one.usd[0] > request.max_usd_per_hour:
        return 0.0
    is_limited = aims(request, one) or request.max_usd_per_hour is not None
    return float(chances_of(request, one)[0]) if is_limited else None


def _option_named(
    request: NetworkQuestion, catalog: Catalog, model: PerformanceModel, name: str, today: date | None
) -> tuple[Runnable, Price | None, Sequence[Workload]]:
    """A named type with its disks and fitting batches, its price if known, and the requested workloads."""
    instance = catalog.instance(name, catalog.cloud_of(name, request.cloud))
    computes, accelerated = request.task is not Task.PREPROCESSING, is_accelerated(instance)
    if computes and not accelerated and not cpu_rates_are_known(request):
        raise _unmeasured_on_cpu(request, name)
    offer, price, notes = offer_named(request, catalog, name, today, needs_gpu=computes and accelerated)
    if isinstance(notes, Rejected):
        raise UsageError(
            "{name} cannot run this: {why}", name=name, why=notes.detail, field="instance", code=CANNOT_RUN
        )
    requested, shown = _workloads(request, model, name, catalog.gpu_of(instance))
    disks = disks_for(request, catalog, instance, offer.region if price else request.region)
    if not disks:
        raise UsageError(
            "no disk of known rate and price holds {dataset} on {name}",
            dataset=request.dataset.name,
            name=name,
            field="instance",
            hint=DISKS_OF_YOUR_OWN,
        )
    return Runnable(offer, disks, shown, notes, max_gpus=request.max_gpus), price, requested


def _unmeasured_on_cpu(request: NetworkQuestion, name: str) -> UsageError:
    fp32 = request.precision in (None, Precision.FP32)
    layout = request.memory_format or MemoryFormat.CONTIGUOUS
    return UsageError(
        "no rate of {setting} on a CPU was measured",
        setting=f"{request.stack}, {layout}" if fp32 else request.precision,
        hint=Message(
            "ask for {name} with {instead}, or for an instance with a GPU",
            name=name,
            instead="eager, contiguous PyTorch" if fp32 else "--precision fp32",
        ),
        field="precision" if not fp32 else "stack",
        code=CANNOT_RUN,
    )


def _workloads(
    request: NetworkQuestion, model: PerformanceModel, name: str, gpu: Gpu | None
) -> tuple[Sequence[Workload], tuple[Workload, ...]]:
    """The requested workloads that fit the GPU, and these with the usual batch sizes, smallest first. Raises
    `UsageError` where no requested one fits."""
    workloads = workloads_on(request, model, [gpu])[gpu.name if gpu else ""]
    requested = _fitting(model, workloads, gpu)
    if gpu is not None and not requested:
        raise _too_large(model, workloads[0], name, gpu)
    usual = batches_of(replace(request, batch_size=None), workloads[0])
    shown = dict.fromkeys([*requested, *_fitting(model, usual, gpu)])
    return requested, tuple(sorted(shown, key=lambda workload: workload.batch_size))


def _too_large(model: PerformanceModel, smallest: Workload, name: str, gpu: Gpu) -> UsageError:
    """The error for a batch that does not surely fit the GPU of a type."""
    largest = model.largest_batch(smallest, gpu)
    return error_in(
        "instance",
        "{name} cannot surely run batches of {size}: they take up to {needed:mib} of GPU memory, and "
        "{usable:mib} of its {gpu} are usable; {largest}",
        name=name,
        size=smallest.batch_size,
        needed=usable_mib(model.gpu_memory_mib(smallest)),
        usable=usable_mib(gpu.memory_mib),
        gpu=gpu.name,
        largest=Message("the largest that surely fit are of {size:,}", size=largest)
        if largest
        else Message("not even one sample surely fits"),
        hint="ask for a smaller {batch_size}, or an instance whose GPU has more memory",
        code=CANNOT_RUN,
    )


def _fitting(model: PerformanceModel, workloads: Sequence[Workload], gpu: Gpu | None) -> list[Workload]:
    """The workloads (smallest batch first) that fit the GPU; a larger batch never takes less memory."""
    if gpu is None or not workloads or workloads[0].task is Task.PREPROCESSING:
        return list(workloads)
    if model.gpu_memory_mib(workloads[-1]) <= gpu.memory_mib:
        return list(workloads)
    return [workload for workload in workloads if model.gpu_memory_mib(workload) <= gpu.memory_mib]


def _first_good_row(lower: Floats, share: float) -> int:
    """The index of the first lower bound (n,) of this share of the best; the cheapest come first."""
    return int((lower >= share * lower.max()).argmax())
