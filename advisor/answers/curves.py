"""Curves of the rate over vCPUs, RAM, disk and batch size around a prediction, in one call of the model."""

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
from advisor.questions.fields import MOST_POINTS, Curve, error_in
from advisor.questions.network import NetworkQuestion
from advisor.questions.settled import disk_data_of, disk_fields
from advisor.render.records import bounds, fields


class Point(NamedTuple):
    """One point of a curve: an instance with its disk, and the prediction for it."""

    instance: InstanceType
    disk: Disk
    prediction: Prediction


def curves_document(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, curve: Curve
) -> dict[str, Any]:
    """JSON-ready points around a prediction by varied resource, in the order of `curve`; batch size, GPUs and
    confidence stay those of the prediction. Raises `UsageError` for a disk that the instance cannot have, and
    for more than `MOST_POINTS`."""
    if len(curve) > MOST_POINTS:
        raise error_in(
            "curve", "{field} takes up to {most} points, not {count}", most=MOST_POINTS, count=len(curve)
        )
    own, disk = prediction.instance, prediction.disk
    places = [(with_host(own, vcpus=vcpus), disk) for vcpus in curve.vcpus]
    places += [(with_host(own, memory_mib=mib), disk) for mib in curve.memory_mib]
    places += _disk_places(context, request, prediction, curve.disks)
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


def _disk_places(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, texts: Sequence[str]
) -> Iterator[tuple[InstanceType, Disk]]:
    catalog, instance = context.catalog, prediction.instance
    for text in texts:
        ordered = disk_fields(catalog, instance.cloud, text, disk_data_of(request.dataset))
        if "disk" not in ordered:
            raise error_in("curve", "{field} takes one disk a point, as gp3:500GiB, not '{disk}'", disk=text)
        changed = replace(request, disk_types=(), **ordered)
        yield instance, disks_for(changed, catalog, instance, prediction.region)[0]


def _prediction_facts(prediction: Prediction) -> dict[str, Any]:
    return {
        "throughput": bounds(prediction),
        "bottleneck": str(prediction.bottleneck),
        "utilization": {str(stage): share for stage, share in prediction.utilization.items()},
        "extrapolation": list(prediction.extrapolation),
    }


# Sizes that are sold, and every count up to 16: "flat after 6" needs a point at 6.
_VCPUS = (*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192)
_GIB = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_FURTHER, _LEAST_VCPUS = 4, 16
_MIB_A_GIB = 1024.0


class Subject(NamedTuple):
    """A question in its context, and the spec to draw curves for: the chosen one, else the nearest."""

    context: Context
    request: NetworkQuestion
    candidate: Candidate

    @property
    def instance(self) -> InstanceType:
        """The instance type of the spec."""
        return self.candidate.spec.offer.instance

    @property
    def machines(self) -> int:
        """The number of instances that share the work."""
        return self.candidate.spec.count


class Curves(NamedTuple):
    """Points by varied resource, rising; all else is as in the spec. Rates are of all its instances."""

    vcpus: list[Point]
    memory: list[Point]
    disk: list[Point]
    batches: list[tuple[Workload, float, Prediction | None]]


def curves(subject: Subject) -> Curves:
    """The rates with up to four times the spec's vCPUs, with RAM from the least that the workload needs to
    four times the spec's, with each disk that the catalogue proposes for the type, and with other batches."""
    vcpus, memory, disks = _vcpus(subject), _memory(subject), _disks(subject)
    places = [*vcpus, *memory, *disks]
    reached = points_at(subject.context, subject.request, subject.candidate.workload, places)
    points = [point._replace(prediction=point.prediction.times(subject.machines)) for point in reached]
    first, second = len(vcpus), len(vcpus) + len(memory)
    by_rate = sorted(
        points[second:],
        key=lambda point: (
            *(point.disk.rate.read_mib_per_second or 0.0, point.disk.rate.read_iops or 0.0),
            str(point.disk.choice),
        ),
    )
    return Curves(points[:first], points[first:second], by_rate, _batches(subject))


def _vcpus(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    """Instances with whole cores, as they are sold: with half a core the curve would climb in steps."""
    amounts, cores = subject.instance.vcpus, subject.instance.physical_cores
    most, threads = max(_FURTHER * amounts, _LEAST_VCPUS), max(1, round(amounts / cores))
    whole = (count for count in _VCPUS if count <= most and count % threads == 0)
    numbers = sorted({amounts, *whole})
    return [(with_host(subject.instance, vcpus=count), subject.candidate.spec.disk) for count in numbers]


def _memory(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    amounts, model = subject.instance.memory_mib, subject.context.model
    resources = candidate_resources(subject.context.catalog, subject.candidate)
    least = model.host_memory_mib(subject.candidate.workload, resources)
    steps = (size * _MIB_A_GIB for size in _GIB)
    sizes = sorted({float(amounts), *(size for size in steps if least <= size <= _FURTHER * amounts)})
    return [(with_host(subject.instance, memory_mib=size), subject.candidate.spec.disk) for size in sizes]


def _disks(subject: Subject) -> list[tuple[InstanceType, Disk]]:
    """The spec's disk, and the others that can be ordered for its type and region."""
    own, offer = subject.candidate.spec.disk, subject.candidate.spec.offer
    dataset_gib = subject.request.dataset.total_mib / 1024
    try:
        disks = subject.context.catalog.disks_of(subject.instance.cloud)
        others = disks.candidate_disks(subject.instance, dataset_gib, offer.region)
    except AdvisorError:
        others = []
    disks_by_order = {str(disk.choice): disk for disk in (own, *others)}
    return [(subject.instance, disk) for disk in disks_by_order.values()]


def _batches(subject: Subject) -> list[tuple[Workload, float, Prediction | None]]:
    """Each batch with its GPU memory in MiB, and its rate where it fits; empty where no GPU computes."""
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
    """The least amount beyond which more adds under 1 % to the median rate; None if the curve still rises."""
    if len(points) < 2:
        return None
    best = max(point.prediction.median for point in points)
    enough = next(index for index, point in enumerate(points) if point.prediction.median >= 0.99 * best)
    return amounts[enough] if enough < len(points) - 1 else None


def curves_block(curves: Curves) -> dict[str, Any]:
    """The block `curves` of the document, without the measured points."""
    return {
        "vcpus": {
            "flat_after": flat_after(curves.vcpus, [point.instance.vcpus for point in curves.vcpus]),
            "points": [
                fields(point.instance, "vcpus physical_cores") | _rates(point.prediction)
                for point in curves.vcpus
            ],
        },
        "memory": {
            "flat_after": flat_after(curves.memory, [point.instance.memory_mib for point in curves.memory]),
            "points": [
                fields(point.instance, "memory_mib") | _rates(point.prediction) for point in curves.memory
            ],
        },
        "disk": {
            "points": [
                {
                    "order": str(point.disk.choice),
                    **fields(point.disk.rate, "type read_mib_per_second read_iops"),
                    "usd_per_hour_each": point.disk.usd_per_hour,
                    **_rates(point.prediction),
                }
                for point in curves.disk
            ]
        },
    }


def _rates(prediction: Prediction) -> dict[str, Any]:
    return bounds(prediction) | {"bottleneck": str(prediction.bottleneck)}


def gpu_memory_block(subject: Subject, curves: Curves) -> dict[str, Any] | None:
    """The block `gpu_memory` of the document: for each batch its memory, whether it fits, and its rate."""
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
                "reached": None if rate is None else _rates(rate),
            }
            for workload, mib, rate in curves.batches
        ],
    }


def sensitivity(
    subject: Subject, explanation: Mapping[str, Any] | None, curves: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The explanation's gains for all instances together, each with the amount that the spec has and the
    amount after which the curve is flat (null: it still rises at the last point, or there is no curve)."""
    amounts = _resource_amounts(subject)
    return [
        {
            "resource": gain["resource"],
            "step": gain["step"],
            "has": amounts[gain["resource"]][0],
            "unit": amounts[gain["resource"]][1],
            "samples_per_second": subject.machines * gain["samples_per_second"],
            "percent": gain["percent"],
            "bottleneck": gain["bottleneck"],
            "flat_after": curves.get(gain["resource"], {}).get("flat_after"),
        }
        for gain in (explanation["gains"] if explanation else ())
    ]


def _resource_amounts(subject: Subject) -> dict[str, tuple[float | None, str]]:
    """One instance's amount of each varied resource, and its unit; None where nothing limits it."""
    instance, rate = subject.instance, subject.candidate.spec.disk.rate
    return {
        "vcpus": (instance.vcpus, "vcpus"),
        "memory": (instance.memory_mib, "mib"),
        "disk_throughput": (rate.read_mib_per_second, "mib_per_second"),
        "disk_iops": (rate.read_iops, "iops"),
        "batch_size": (subject.candidate.workload.batch_size, "samples"),
    }
