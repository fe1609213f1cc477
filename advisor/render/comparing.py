"""A comparison of instances or of GPUs, as text, JSON and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import (
    LIST,
    Disk,
    InstancePrediction,
    OnGpu,
    Request,
    geometric_mean,
    relative,
)
from advisor.domain.language import ServingPrediction
from advisor.naming import asked_of
from advisor.render.blocks import (
    BOUNDS,
    disk_block,
    gpu_prediction_block,
    instance_block,
    prediction_block,
    price_block,
)
from advisor.render.document import Sources, request_document
from advisor.render.text import PROVENANCE, disk_text, rate_cells, rate_columns, table, wrapped
from advisor.units import format_usd

SCHEMA = "advisor.comparison/1"
COLUMNS = (
    "network", "instance_type", "gpu", "batch_size", "throughput_lower", "throughput_median",
    "throughput_upper", "relative", "total_usd_per_hour", "usd_per_million_samples", "bottleneck",
    "provenance", "cloud", "region", "price_kind", "price_as_of", "price_source", "disk_price_kind",
)  # fmt: skip


def comparison_document(
    requests: Sequence[Request], baseline: str, rows: Sequence[Mapping[str, Any]], sources: Sources
) -> dict[str, Any]:
    """The versioned JSON answer; `relative` is the median over the baseline's."""
    return {
        "schema": SCHEMA,
        "asked": [asked_of(request) for request in requests],
        "requests": [request_document(request) for request in requests],
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "baseline": baseline,
        "rows": list(rows),
    }


def instance_rows(
    answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> list[dict[str, Any]]:
    """One record an instance, JSON-ready; prices are null where none is known."""
    return [_instance_row(answer, baseline) for answer in answers]


def gpu_rows(cells: Sequence[OnGpu], baseline: OnGpu) -> list[dict[str, Any]]:
    """One record a GPU of one network; rates are null where no batch fits."""
    return [_gpu_row(cell, baseline) for cell in cells]


def instances_text(
    request: Request, answers: Sequence[InstancePrediction], baseline: InstancePrediction
) -> str:
    """A table of one network, instances in the order asked."""
    title = f"{asked_of(request)}; {baseline.instance.name} is 1"
    header = ["instance", "gpu", "disk", "batch"]
    header += [*rate_columns(baseline.prediction.confidence), "times", "per hour"]
    cells = [_instance_cells(answer, baseline) for answer in answers]
    lines = table([*header, "per 1M", "bound by"], cells, right=range(3, 9))
    return "\n".join([title, "", *lines])


def notes_lines(answers: Sequence[InstancePrediction | ServingPrediction]) -> list[str]:
    """Where each instance stands and how its price is known, and what all of them assume and warn
    of; an instance that several networks are compared on is named once."""
    prices = dict.fromkeys(text for one in answers if (text := _price_text(one)))
    # What is assumed of one instance comes before what all of them share, which may be cut.
    place = {text: at for one in answers for at, text in enumerate(one.assumptions)}
    shared = Counter(text for one in answers for text in one.assumptions)
    assumed = sorted(shared, key=lambda text: (shared[text], place[text]))
    warned = dict.fromkeys(text for one in answers for text in one.warnings)
    return [
        *wrapped("Prices", list(prices), len(prices)),
        *wrapped("Assumed", assumed, 5),
        *wrapped("Warning", list(warned), 3),
    ]


def _price_text(answer: InstancePrediction | ServingPrediction) -> str | None:
    """'g5.xlarge of aws in us-east-1, observed of 2024-09-28 ($0.22 to $2.74/h), estimated disk';
    None without a price."""
    price = answer.price
    if price is None:
        return None
    instance, region = answer.instance, answer.region
    text = f"{instance.name} of {instance.cloud} in {region}, {price.kind} of {price.as_of}"
    if price.low < price.high:
        ends = format_usd(price.low_usd_per_hour), format_usd(price.high_usd_per_hour)
        text += f" ({ends[0]} to {ends[1]}/h)"
    disk = _disk_of(answer).price
    return f"{text}, {disk.kind} disk" if disk and disk.kind != LIST else text


def _disk_of(answer: InstancePrediction | ServingPrediction) -> Disk:
    return answer.disk if isinstance(answer, InstancePrediction) else answer.candidate.spec.disk


def gpus_text(by_network: Sequence[tuple[Request, Sequence[OnGpu], OnGpu]], baseline: str) -> str:
    """GPUs down, networks across: times the baseline's median."""
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
    "-: no batch fits its memory. mean: geometric, where every network fits.",
    "These are GPUs alone. `advisor recommend` and `advisor predict` answer for whole instances.",
)


def flat_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One record without nesting: `COLUMNS`."""
    predicted = row["predicted"] or {}
    bounds, price = predicted.get("throughput") or {}, row.get("price") or {}
    rates = {f"throughput_{name}": bounds.get(name) for name in BOUNDS}
    gpu = row["gpu"]
    return {
        **{name: row.get(name) for name in COLUMNS},
        **rates,
        "gpu": gpu["name"] if gpu else None,
        "provenance": predicted.get("provenance"),
        "price_kind": price.get("kind"),
        "price_as_of": price.get("as_of"),
        "price_source": price.get("source"),
        "disk_price_kind": (row.get("disk") or {}).get("price_kind"),
    }


def _instance_row(prediction: InstancePrediction, baseline: InstancePrediction) -> dict[str, Any]:
    return {
        "network": prediction.workload.network,
        "cloud": prediction.instance.cloud,
        "region": prediction.region,
        **instance_block(prediction.instance),
        "disk": disk_block(prediction.disk),
        "price": price_block(prediction.price) if prediction.price else None,
        "total_usd_per_hour": prediction.total_usd_per_hour,
        "usd_per_million_samples": prediction.usd_per_million_samples,
        **prediction_block(prediction.workload, prediction.prediction),
        "relative": relative(prediction.prediction, baseline.prediction),
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def _gpu_row(gpu: OnGpu, baseline: OnGpu) -> dict[str, Any]:
    return {
        "network": gpu.network,
        "gpu": {"name": gpu.gpu.name, "memory_mib": gpu.gpu.memory_mib},
        "fits": gpu.workload is not None,
        **gpu_prediction_block(gpu.workload, gpu.prediction),
        "relative": relative(gpu.prediction, baseline.prediction),
    }


def _instance_cells(prediction: InstancePrediction, baseline: InstancePrediction) -> list[str]:
    total, per_million = prediction.total_usd_per_hour, prediction.usd_per_million_samples
    return [
        prediction.instance.name,
        prediction.instance.gpu_name or "-",
        disk_text(prediction.disk),
        str(prediction.workload.batch_size),
        *rate_cells(prediction.prediction),
        _times(relative(prediction.prediction, baseline.prediction)),
        format_usd(total) if total else "-",
        format_usd(per_million) if per_million else "-",
        str(prediction.prediction.bottleneck),
    ]


def _matrix_row(row: Sequence[OnGpu], bases: Sequence[OnGpu]) -> list[str]:
    ratios = [
        relative(cell.prediction, base.prediction) for cell, base in zip(row, bases, strict=True)
    ]
    mean = [_times(geometric_mean(ratios))] if len(row) > 1 else []
    origins = {str(cell.prediction.provenance) for cell in row if cell.prediction}
    worst = [name for name in PROVENANCE if name in origins]
    return [row[0].gpu.name, *map(_times, ratios), *mean, ", ".join(worst) or "-"]


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"
