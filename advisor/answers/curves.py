"""Curves of a prediction over vCPUs, RAM or the disk: many points in one call of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog import resources_of
from advisor.catalog.load import with_host
from advisor.domain import Disk, InstancePrediction, InstanceType, Prediction, Workload
from advisor.engine.candidates import disks_for
from advisor.questions.fields import wrong
from advisor.questions.network import NetworkQuestion
from advisor.questions.numbers import MOST_POINTS
from advisor.questions.settled import disk_fields, held_of
from advisor.questions.values import Curve
from advisor.render.records import bounds


class Point(NamedTuple):
    """One place of a curve, and what is reached there."""

    instance: InstanceType
    disk: Disk
    prediction: Prediction


def curves_document(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, curve: Curve
) -> dict[str, Any]:
    """The points around a prediction, with its batch, GPUs and confidence, by what is varied and in the
    order asked; JSON-ready.

    Raises `UsageError` for a disk that cannot be had there, and for more than `MOST_POINTS`.
    """
    if len(curve) > MOST_POINTS:
        raise wrong(
            "curve", "{field} takes up to {most} points, not {count}", most=MOST_POINTS, count=len(curve)
        )
    places = [*_hosts(prediction, curve), *_disks(context, request, prediction, curve.disks)]
    points = points_at(context, request, prediction.workload, places)
    first, second = len(curve.vcpus), len(curve.vcpus) + len(curve.memory_mib)
    return {
        "vcpus": [
            {
                "vcpus": point.instance.vcpus,
                "physical_cores": point.instance.physical_cores,
                **_reached(point.prediction),
            }
            for point in points[:first]
        ],
        "memory": [
            {"memory_mib": point.instance.memory_mib, **_reached(point.prediction)}
            for point in points[first:second]
        ],
        "disk": [
            {
                "order": str(point.disk.choice),
                "usd_per_hour": point.disk.usd_per_hour,
                **_reached(point.prediction),
            }
            for point in points[second:]
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


def _disks(
    context: Context, request: NetworkQuestion, prediction: InstancePrediction, texts: Sequence[str]
) -> Iterator[tuple[InstanceType, Disk]]:
    catalog, instance = context.catalog, prediction.instance
    for text in texts:
        fields = disk_fields(catalog, instance.cloud, text, held_of(request.dataset))
        if "disk" not in fields:
            raise wrong("curve", "{field} takes one disk a point, as gp3:500GiB, not '{disk}'", disk=text)
        changed = replace(request, disk_types=(), **fields)
        yield instance, disks_for(changed, catalog, instance, prediction.region)[0]


def _reached(prediction: Prediction) -> dict[str, Any]:
    return {
        "throughput": bounds(prediction),
        "bottleneck": str(prediction.bottleneck),
        "utilization": {str(stage): share for stage, share in prediction.utilization.items()},
        "extrapolation": list(prediction.extrapolation),
    }
