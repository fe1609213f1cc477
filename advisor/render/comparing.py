"""A comparison of instances or of GPUs, as text, JSON and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.domain import LIST, Disk, InstancePrediction, OnGpu, Request, geometric_mean, relative
from advisor.domain.decision import Text
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
from advisor.render.text import disk_text, rate_cells, rate_columns, table, wrapped
from advisor.units import format_usd

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
    "cloud",
    "region",
    "price_kind",
    "price_as_of",
    "price_source",
    "disk_price_kind",
)


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


def gpu_rows(cells: Sequence[OnGpu], baseline: OnGpu, usd: Mapping[str, float]) -> list[dict[str, Any]]:
    """One record a GPU of one network; rates are null where no batch fits, prices of an hour (`usd`
    by GPU) where none is known."""
    return [_gpu_row(cell, baseline, usd.get(cell.gpu.name)) for cell in cells]


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
    assumed = _by_instance(answers, lambda one: one.assumptions)
    warned = _by_instance(answers, lambda one: one.warnings)
    return [
        *wrapped("Prices", list(prices), len(prices)),
        *wrapped("Assumed", assumed, 5),
        *wrapped("Warning", warned, 3),
    ]


def _by_instance(
    answers: Sequence[InstancePrediction | ServingPrediction],
    of: Callable[[InstancePrediction | ServingPrediction], Sequence[Text]],
) -> list[Text]:
    """Each remark once, behind the instances that it is of unless it is of all; those of the fewest
    come first, as what all of them share may be cut."""
    order = {text: at for one in answers for at, text in enumerate(of(one))}
    names = {text: dict.fromkeys(one.instance.name for one in answers if text in of(one)) for text in order}
    every = {one.instance.name for one in answers}
    return [
        text if every == {*names[text]} else f"{', '.join(names[text])}: {text}"
        for text in sorted(order, key=lambda text: (len(names[text]), order[text]))
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


def gpus_text(
    by_network: Sequence[tuple[Request, Sequence[OnGpu], OnGpu]], baseline: str, usd: Mapping[str, float]
) -> str:
    """A table a network: the rates of each GPU, times the baseline's median, and what an hour of it
    costs; for several networks the mean of those times."""
    lines: list[str] = []
    for request, cells, base in by_network:
        header = ["gpu", "batch", *rate_columns(request.confidence), "times", "per hour", "per 1M"]
        rows = [_gpu_cells(cell, base, usd.get(cell.gpu.name)) for cell in cells]
        lines += [str(asked_of(request)), f"samples on the device; {_base_text(base, baseline)}", ""]
        lines += [*table([*header, "rates"], rows, right=range(1, 7)), ""]
    if len(by_network) > 1:
        bases = [base for _, _, base in by_network]
        columns = zip(*(cells for _, cells, _ in by_network), strict=True)
        lines += [*table(["gpu", "mean"], [_mean_row(row, bases) for row in columns], (1,)), ""]
    return "\n".join([*lines, *_REMARKS])


def _base_text(base: OnGpu, asked: str) -> str:
    """'T4 is 1', or which one is instead where no batch fits the memory of that."""
    if base.gpu.name == asked:
        return f"{asked} is 1" if base.workload else "no batch fits any of them"
    return f"no batch fits {asked}, so {base.gpu.name} is 1"


_REMARKS = (
    "-: no batch fits its memory, or no price is known. mean: geometric, where every network fits.",
    "These are GPUs alone, at the cheapest price of an instance over its GPUs. `advisor recommend`",
    "and `advisor predict` answer for whole instances.",
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


def _gpu_row(gpu: OnGpu, baseline: OnGpu, usd: float | None) -> dict[str, Any]:
    return {
        "network": gpu.network,
        "gpu": {"name": gpu.gpu.name, "memory_mib": gpu.gpu.memory_mib},
        "fits": gpu.workload is not None,
        **gpu_prediction_block(gpu.workload, gpu.prediction),
        "relative": relative(gpu.prediction, baseline.prediction),
        "relative_to": baseline.gpu.name if baseline.workload else None,
        "usd_per_gpu_hour": usd,
        "usd_per_million_samples": _usd_per_million(gpu, usd),
    }


def _usd_per_million(gpu: OnGpu, usd: float | None) -> float | None:
    """What a million samples cost at the median rate; None without a price, or a rate."""
    return usd / (gpu.prediction.median * 3600) * 1e6 if usd and gpu.prediction else None


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


def _gpu_cells(cell: OnGpu, base: OnGpu, usd: float | None) -> list[str]:
    prediction, per_million = cell.prediction, _usd_per_million(cell, usd)
    return [
        cell.gpu.name,
        str(cell.workload.batch_size) if cell.workload else "-",
        *(rate_cells(prediction) if prediction else ("-", "-")),
        _times(relative(prediction, base.prediction)),
        format_usd(usd) if usd else "-",
        format_usd(per_million) if per_million else "-",
        str(prediction.provenance) if prediction else "-",
    ]


def _mean_row(row: Sequence[OnGpu], bases: Sequence[OnGpu]) -> list[str]:
    ratios = [relative(cell.prediction, base.prediction) for cell, base in zip(row, bases, strict=True)]
    return [row[0].gpu.name, _times(geometric_mean(ratios))]


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"
