"""Curves over vCPUs, RAM, disk and batch size around a prediction, in one call of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog import resources_of
from advisor.catalog.load import with_host
from advisor.domain import Candidate, Disk, InstancePrediction, InstanceType, Prediction, Task, Workload
from advisor.engine import BATCH_SIZES
from advisor.engine.candidates import candidate_resources, disks_for
from advisor.errors import AdvisorError
from advisor.questions.fields import MOST_POINTS, Curve, wrong
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import disk_data_of, disk_fields
from advisor.render.records import bounds, fields


class Point(NamedTuple):
    """One place of a curve, and what is reached there."""

    instance: InstanceType
    disk: Disk
    prediction: Prediction


def curves_document(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, curve: Curve
) -> dict[str, Any]:
    """The points around a prediction, with its batch, GPUs and confidence, by what is varied and in the order
    asked; JSON-ready.

    Raises `UsageError` for a disk that cannot be had there, and for more than `MOST_POINTS`."""
    if len(curve) > MOST_POINTS:
        raise wrong(
            "curve", "{field} takes up to {most} points, not {count}", most=MOST_POINTS, count=len(curve)
        )
    places = [*_hosts(prediction, curve), *_orders(context, request, prediction, curve.disks)]
    points = iter(points_at(context, request, prediction.workload, places))
    return {
        "vcpus": [
            fields(point.instance, "vcpus physical_cores") | _prediction_facts(point.prediction)
            for point in islice(points, len(curve.vcpus))
        ],
        "memory": [
            fields(point.instance, "memory_mib") | _prediction_facts(point.prediction)
            for point in islice(points, len(curve.memory_mib))
        ],
        "disk": [
            {"order": str(point.disk.choice), "usd_per_hour": point.disk.known_usd_per_hour}
            | _prediction_facts(point.prediction)
            for point in points
        ],
    }


def points_at(
    context: Context,
    request: NetworkQuestion,
    workload: Workload,
    places: Sequence[tuple[InstanceType, Disk]],
) -> list[Point]:
    """Predictions of the workload on each instance with its disk, in one call of the model."""
    resources = [
        (workload, resources_of(context.catalog, instance, disk, request.max_gpus))
        for instance, disk in places
    ]
    predictions = context.model.predict(resources, confidence=request.confidence)
    return [Point(*machine, prediction) for machine, prediction in zip(places, predictions, strict=True)]


def _hosts(prediction: InstancePrediction, curve: Curve) -> Iterator[tuple[InstanceType, Disk]]:
    for vcpus in curve.vcpus:
        yield with_host(prediction.instance, vcpus=vcpus), prediction.disk
    for mib in curve.memory_mib:
        yield with_host(prediction.instance, memory_mib=mib), prediction.disk


def _orders(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, texts: Sequence[str]
) -> Iterator[tuple[InstanceType, Disk]]:
    catalog, instance = context.catalog, prediction.instance
    for text in texts:
        ordered = disk_fields(catalog, instance.cloud, text, disk_data_of(request.dataset))
        if "disk" not in ordered:
            raise wrong("curve", "{field} takes one disk a point, as gp3:500GiB, not '{disk}'", disk=text)
        changed = replace(request, disk_types=(), **ordered)
        yield instance, disks_for(changed, catalog, instance, prediction.region)[0]


def _prediction_facts(prediction: Prediction) -> dict[str, Any]:
    return {
        "throughput": bounds(prediction),
        "bottleneck": str(prediction.bottleneck),
        "utilization": {str(stage): share for stage, share in prediction.utilization.items()},
        "extrapolation": list(prediction.extrapolation),
    }


# Where machines are sold, and every vCPU of the small ones: "flat after 6" needs a 6.
_VCPUS = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192)
_GIB = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_FURTHER, _LEAST_VCPUS = 4, 16
_MIB_A_GIB = 1024.0


class Subject(NamedTuple):
    """A question, the spec that is told of (the chosen one, else the nearest), and its context."""

    context: Context
    request: NetworkQuestion
    candidate: Candidate

    @property
    def instance(self) -> InstanceType:
        """The type of the spec."""
        return self.candidate.spec.offer.instance

    @property
    def machines(self) -> int:
        """The number of them that work side by side."""
        return self.candidate.spec.count


class Curves(NamedTuple):
    """Points by what is varied, rising; all else is the spec's. Rates are of all its instances."""

    vcpus: list[Point]
    memory: list[Point]
    disk: list[Point]
    batches: list[tuple[Workload, float, Prediction | None]]


def curves(subject: Subject) -> Curves:
    """The rates with up to four times the vCPUs, with RAM from what is needed to four times that, with each
    disk order worth a look on this type, and with other batch sizes."""
    vcpus, memory, disks = _vcpus(subject), _memory(subject), _disks(subject)
    places = [*vcpus, *memory, *disks]
    reached = points_at(subject.context, subject.request, subject.candidate.workload, places)
    points = [point._replace(prediction=point.prediction.times(subject.machines)) for point in reached]
    first, second = len(vcpus), len(vcpus) + len(memory)
    by_rate = sorted(points[second:], key=_by_rate)
    return Curves(points[:first], points[first:second], by_rate, _batches(subject))


def _vcpus(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    """Whole cores, as machines are sold: with half of one a curve would climb in stairs."""
    has, cores = subject.instance.vcpus, subject.instance.physical_cores
    most, threads = max(_FURTHER * has, _LEAST_VCPUS), max(1, round(has / cores))
    whole = (count for count in _VCPUS if count <= most and count % threads == 0)
    numbers = sorted({has, *whole})
    return [(with_host(subject.instance, vcpus=count), subject.candidate.spec.disk) for count in numbers]


def _memory(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    has, model = subject.instance.memory_mib, subject.context.model
    resources = candidate_resources(subject.context.catalog, subject.candidate)
    least = model.host_memory_mib(subject.candidate.workload, resources)
    steps = (size * _MIB_A_GIB for size in _GIB)
    sizes = sorted({float(has), *(size for size in steps if least <= size <= _FURTHER * has)})
    return [(with_host(subject.instance, memory_mib=size), subject.candidate.spec.disk) for size in sizes]


def _disks(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    """The spec's own disk, and what else can be ordered there."""
    own, offer = subject.candidate.spec.disk, subject.candidate.spec.offer
    dataset_gib = subject.request.dataset.total_mib / 1024
    try:
        disks = subject.context.catalog.disks_of(subject.instance.cloud)
        others = disks.candidate_disks(subject.instance, dataset_gib, offer.region)
    except AdvisorError:
        others = []
    disks_by_order = {str(disk.choice): disk for disk in (own, *others)}
    return [(subject.instance, disk) for disk in disks_by_order.values()]


def _by_rate(point: Point) -> tuple[float, float, str]:
    rate = point.disk.rate
    return rate.read_mib_per_second or 0.0, rate.read_iops or 0.0, str(point.disk.choice)


def _batches(subject: Subject) -> list[tuple[Workload, float, Prediction | None]]:
    """Each batch with its GPU memory, and its rate where it fits; none where no GPU computes."""
    candidate, model = subject.candidate, subject.context.model
    card = subject.context.catalog.gpu_of(subject.instance)
    if card is None or candidate.workload.task is Task.PREPROCESSING:
        return []
    resources = candidate_resources(subject.context.catalog, candidate)
    sizes = sorted({*BATCH_SIZES, candidate.workload.batch_size})
    workloads = [replace(candidate.workload, batch_size=size) for size in sizes]
    needed = [model.gpu_memory_mib(workload) for workload in workloads]
    runs = [
        workload
        for workload, mib in zip(workloads, needed, strict=True)
        if mib <= card.memory_mib and model.host_memory_mib(workload, resources) <= resources.memory_mib
    ]
    predictions = model.predict(
        [(workload, resources) for workload in runs], confidence=candidate.prediction.confidence
    )
    rates = {w.batch_size: p.times(subject.machines) for w, p in zip(runs, predictions, strict=True)}
    return [
        (workload, mib, rates.get(workload.batch_size))
        for workload, mib in zip(workloads, needed, strict=True)
    ]


def flat_after(points: Sequence[Point], amounts: Sequence[float]) -> float | None:
    """The least amount beyond which more adds under 1 % of the median rate; None if none does."""
    if len(points) < 2:
        return None
    best = max(point.prediction.median for point in points)
    enough = next(index for index, point in enumerate(points) if point.prediction.median >= 0.99 * best)
    return amounts[enough] if enough < len(points) - 1 else None


def curves_block(curves: Curves) -> dict[str, Any]:
    """The document's `curves`, without the measured points."""
    return {
        "vcpus": {
            "flat_after": flat_after(curves.vcpus, [point.instance.vcpus for point in curves.vcpus]),
            "points": [
                fields(point.instance, "vcpus physical_cores") | _reached(point.prediction)
                for point in curves.vcpus
            ],
        },
        "memory": {
            "flat_after": flat_after(curves.memory, [point.instance.memory_mib for point in curves.memory]),
            "points": [
                fields(point.instance, "memory_mib") | _reached(point.prediction) for point in curves.memory
            ],
        },
        "disk": {"points": [_disk_point(point) for point in curves.disk]},
    }


def _disk_point(point: Point) -> dict[str, Any]:
    return {
        "order": str(point.disk.choice),
        "type": point.disk.rate.type,
        **fields(point.disk.rate, "read_mib_per_second read_iops"),
        "usd_per_hour_each": point.disk.usd_per_hour,
        **_reached(point.prediction),
    }


def _reached(prediction: Prediction) -> dict[str, Any]:
    return bounds(prediction) | {"bottleneck": str(prediction.bottleneck)}


def gpu_memory_block(subject: Subject, curves: Curves) -> dict[str, Any] | None:
    """The GPU memory of each batch, whether it fits, and its rate."""
    card = subject.context.catalog.gpu_of(subject.instance)
    if card is None or not curves.batches:
        return None
    return {
        "gpu": card.name,
        "has_mib": card.memory_mib,
        "batches": [
            {
                "batch_size": workload.batch_size,
                "chosen": workload.batch_size == subject.candidate.workload.batch_size,
                "needed_mib": mib,
                "fits": mib <= card.memory_mib,
                "reached": None if rate is None else _reached(rate),
            }
            for workload, mib, rate in curves.batches
        ],
    }


def sensitivity(
    subject: Subject, explanation: Mapping[str, Any] | None, curves: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The explanation's gains, of all instances together, each with what the spec has of it and
    the amount after which the curve is flat (null: it still rises at its end, or has none)."""
    has = _has(subject)
    return [
        {
            "resource": gain["resource"],
            "step": gain["step"],
            "has": has[gain["resource"]][0],
            "unit": has[gain["resource"]][1],
            "samples_per_second": subject.machines * gain["samples_per_second"],
            "percent": gain["percent"],
            "bottleneck": gain["bottleneck"],
            "flat_after": curves.get(gain["resource"], {}).get("flat_after"),
        }
        for gain in (explanation["gains"] if explanation else ())
    ]


def _has(subject: Subject) -> dict[str, tuple[float | None, str]]:
    """What one instance has of each varied resource, and its unit; None where nothing limits it."""
    instance, rate = subject.instance, subject.candidate.spec.disk.rate
    return {
        "vcpus": (instance.vcpus, "vcpus"),
        "memory": (instance.memory_mib, "mib"),
        "disk_throughput": (rate.read_mib_per_second, "mib_per_second"),
        "disk_iops": (rate.read_iops, "iops"),
        "batch_size": (subject.candidate.workload.batch_size, "samples"),
    }
