"""A comparison of instances or of GPUs, as text, JSON and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import (
    InstancePrediction,
    OnGpu,
    Prediction,
    Request,
    geometric_mean,
    relative,
)
from advisor.domain.request_document import request_document
from advisor.render.document import (
    Sources,
    disk_document,
    instance_document,
    prediction_document,
    price_document,
)
from advisor.render.text import SHORT_PROVENANCE, disk_text, table
from advisor.units import floor_rate, format_rate, format_usd

SCHEMA = "advisor.comparison/1"
COLUMNS = (
    "network",
    "instance_type",
    "gpu",
    "batch_size",
    "throughput_lower",
    "throughput_median",
    "throughput_upper",
    "relative",
    "total_usd_per_hour",
    "usd_per_million_samples",
    "bottleneck",
    "provenance",
)


def comparison_document(
    requests: Sequence[Request], baseline: str, rows: Sequence[Mapping[str, Any]], sources: Sources
) -> dict[str, Any]:
    """The versioned JSON answer; `relative` is the likely rate over the baseline's."""
    return {
        "schema": SCHEMA,
        "requests": [request_document(one) for one in requests],
        "performance_model": sources.performance_model(),
        "catalog": {"as_of": sources.catalog_as_of, "sources": list(sources.catalog_sources)},
        "baseline": baseline,
        "rows": list(rows),
    }


def instance_rows(
    answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> list[dict[str, Any]]:
    """One record an instance, JSON-ready; prices are null where none is known."""
    return [_instance_row(one, baseline) for one in answers]


def gpu_rows(cells: Sequence[OnGpu], baseline: OnGpu) -> list[dict[str, Any]]:
    """One record a GPU of one network; rates are null where no batch surely fits."""
    return [_gpu_row(one, baseline) for one in cells]


def instances_text(
    request: Request, answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> str:
    """A table of one network, instances in the order asked."""
    title = f"{request.network} {request.task}, {request.precision}; {baseline.instance.name} is 1"
    header = ["instance", "gpu", "disk", "batch", "surely/s", "likely/s", "times", "per hour"]
    cells = [_instance_cells(one, baseline) for one in answers]
    lines = table([*header, "per 1M", "bound by"], cells, right=range(3, 9))
    return "\n".join([title, "", *lines])


def gpus_text(by_network: Sequence[tuple[Request, Sequence[OnGpu], OnGpu]], baseline: str) -> str:
    """GPUs down, networks across: times the baseline's likely rate."""
    first = by_network[0][0]
    title = f"{first.task}, {first.precision}, samples on the device; {baseline} is 1"
    names = [request.network for request, _, _ in by_network]
    header = ["gpu", *names, *(["mean"] if len(names) > 1 else []), "rates"]
    columns = [list(cells) for _, cells, _ in by_network]
    bases = [base for _, _, base in by_network]
    rows = [_matrix_row(list(row), bases) for row in zip(*columns, strict=True)]
    lines = table(header, rows, right=range(1, len(header) - 1))
    return "\n".join([title, "", *lines, "", *_REMARKS])


_REMARKS = (
    "-: no batch surely fits its memory. mean: geometric, where every network fits.",
    "A GPU alone: what its instance really reaches, `advisor recommend` and `predict` tell.",
)


def flat_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One record without nesting: `COLUMNS`."""
    predicted = row["predicted"] or {}
    bounds = predicted.get("throughput") or {}
    rates = {f"throughput_{name}": bounds.get(name) for name in ("lower", "median", "upper")}
    gpu = row["gpu"]
    return {
        **{name: row.get(name) for name in COLUMNS},
        **rates,
        "gpu": gpu["name"] if gpu else None,
        "provenance": predicted.get("provenance"),
    }


def _instance_row(one: InstancePrediction, baseline: InstancePrediction) -> dict[str, Any]:
    total = _total(one)
    return {
        "network": one.workload.network,
        **instance_document(one.instance),
        "disk": disk_document(one.disk),
        "price": price_document(one.price) if one.price else None,
        "total_usd_per_hour": total,
        "usd_per_million_samples": _per_million(total, one.prediction),
        **prediction_document(one.workload, one.prediction),
        "relative": relative(one.prediction, baseline.prediction),
    }


def _gpu_row(one: OnGpu, baseline: OnGpu) -> dict[str, Any]:
    predicted: dict[str, Any] = {"batch_size": None, "predicted": None, "extrapolation": []}
    if one.workload is not None and one.prediction is not None:
        document = prediction_document(one.workload, one.prediction)
        predicted = {name: document[name] for name in predicted}
    return {
        "network": one.network,
        "gpu": {"name": one.gpu.name, "memory_mib": one.gpu.memory_mib},
        "fits": one.workload is not None,
        **predicted,
        "relative": relative(one.prediction, baseline.prediction),
    }


def _instance_cells(one: InstancePrediction, baseline: InstancePrediction) -> list[str]:
    total = _total(one)
    per_million = _per_million(total, one.prediction)
    return [
        one.instance.name,
        one.instance.gpu_name or "-",
        disk_text(one.disk),
        str(one.workload.batch_size),
        f"{floor_rate(one.prediction.lower):,g}",
        format_rate(one.prediction.median),
        _times(relative(one.prediction, baseline.prediction)),
        format_usd(total) if total else "-",
        format_usd(per_million) if per_million else "-",
        str(one.prediction.bottleneck),
    ]


def _matrix_row(row: Sequence[OnGpu], bases: Sequence[OnGpu]) -> list[str]:
    ratios = [
        relative(one.prediction, base.prediction) for one, base in zip(row, bases, strict=True)
    ]
    mean = [_times(geometric_mean(ratios))] if len(row) > 1 else []
    origins = {str(one.prediction.provenance) for one in row if one.prediction}
    worst = [SHORT_PROVENANCE[name] for name in SHORT_PROVENANCE if name in origins]
    return [row[0].gpu.name, *map(_times, ratios), *mean, ", ".join(worst) or "-"]


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _total(one: InstancePrediction) -> float | None:
    return one.price.usd_per_hour + one.disk.usd_per_hour if one.price else None


def _per_million(total: float | None, prediction: Prediction) -> float | None:
    """Instance and disk, at the likely rate."""
    return total / (prediction.median * 3600) * 1e6 if total else None
