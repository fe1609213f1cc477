"""The prediction for one instance, or for one GPU by itself: as JSON and as a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import BatchPoint, InstancePrediction, OnGpu, Request, computes_on_cpu
from advisor.messages import Message
from advisor.naming import asked_of, covers_clouds
from advisor.render.blocks import (
    batch_point_block,
    disk_block,
    first_epoch_block,
    gpu_prediction_block,
    instance_block,
    notes_text,
    other_setting_blocks,
    prediction_block,
    price_block,
    rate_unit,
    run_block,
)
from advisor.render.document import Sources, request_document
from advisor.render.text import (
    asked_lines,
    basis_lines,
    bottleneck_text,
    cost_line,
    first_epoch_lines,
    gpu_setting_lines,
    gpus_lines,
    hourly_lines,
    interval_text,
    other_setting_lines,
    price_text,
    range_text,
    rate_cells,
    rate_columns,
    run_lines,
    table,
    terms_lines,
    wrapped,
)
from advisor.units import ceil_ms, format_mib, format_usd

SCHEMA = "advisor.prediction/1"
GPU_SCHEMA = "advisor.gpu-prediction/1"


def prediction_document(
    request: Request,
    answer: InstancePrediction,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """JSON-ready values but for messages; `price` is null where none is known."""
    return {
        "schema": SCHEMA,
        "asked": asked_of(request),
        "request": request_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **instance_block(answer.instance),
        "disk": disk_block(answer.disk),
        "region": answer.region,
        "price": _total_price_block(answer),
        **prediction_block(answer.workload, answer.prediction),
        "cost": {"usd_per_million_samples": answer.usd_per_million_samples},
        "run": run_block(answer.run, answer.usd_per_run),
        "first_epoch_hours": first_epoch_block(answer.first_epoch),
        "good_batch_size": answer.good_batch_size,
        "by_batch": [batch_point_block(point) for point in answer.by_batch],
        "other_settings": other_setting_blocks(answer.other_settings),
        "note": notes_text(answer.notes),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


def _total_price_block(answer: InstancePrediction) -> dict[str, Any] | None:
    if answer.price is None:
        return None
    return {
        **price_block(answer.price),
        "disk_usd_per_hour": answer.disk.usd_per_hour,
        "total_usd_per_hour": answer.total_usd_per_hour,
    }


def prediction_text(request: Request, answer: InstancePrediction, sources: Sources) -> str:
    """A few lines for a terminal."""
    prediction, price, usd = answer.prediction, answer.price, answer.total_usd_per_hour
    prices = tuple(one for one in (price, answer.disk.price) if one) if price else ()
    total = "no price" if usd is None else f"{format_usd(usd)}/h"
    priced = price_text(request.market, price) if price else ""
    cloud = f"{answer.instance.cloud} " if covers_clouds(request) else ""
    where = f"{cloud}{answer.region}, {request.market}" if answer.region else ""
    on_cpu = computes_on_cpu(answer.instance, answer.workload)
    lines = [
        *basis_lines(prediction, priced, sources.model_id),
        "",
        *hourly_lines(answer.instance.name, answer.disk, total, range_text(prices), where),
        *asked_lines(request, answer.workload),
        f"  throughput  {interval_text(prediction, rate_unit(answer.workload.dataset))}",
        *gpus_lines(prediction),
    ]
    if price and answer.usd_per_million_samples is not None:
        lines.append(cost_line(answer.usd_per_million_samples, price, answer.disk))
    lines += [
        *terms_lines(price),
        *first_epoch_lines(answer.first_epoch, answer.run, prediction.confidence),
        *run_lines(request, answer.run, answer.usd_per_run, prediction.confidence, prices),
        f"  bound by    {bottleneck_text(prediction, on_cpu=on_cpu)}",
        *other_setting_lines(answer.other_settings, prediction),
    ]
    lines += [f"  note        {text}" for text in (*answer.notes, *prediction.extrapolation)]
    foot = [*wrapped("Assumed", answer.assumptions, 2), *wrapped("Warning", answer.warnings, 3)]
    return "\n".join([*lines, *_batch_lines(answer), "", *foot])


def _batch_lines(answer: InstancePrediction) -> list[str]:
    """A table over batch sizes; none where there is but one."""
    if len(answer.by_batch) < 2:
        return []
    timed = any(point.latency for point in answer.by_batch)
    header = ["  batch", *rate_columns(answer.prediction.confidence)]
    header += ["p50 ms", "p99 ms"] if timed else []
    rows = [[str(point.batch_size), *_point_cells(point)] for point in answer.by_batch]
    enough = f"  batch {answer.good_batch_size} is the smallest within 5 % of the best lower bound"
    return ["", *table([*header, "bound by"], rows, right=range(len(header))), enough]


def _point_cells(point: BatchPoint) -> list[str]:
    latency = point.latency
    times = [latency.p50_seconds, latency.p99_seconds] if latency else []
    milliseconds = [f"{ceil_ms(seconds):,g}" for seconds in times]
    return [*rate_cells(point.prediction), *milliseconds, str(point.prediction.bottleneck)]


def gpu_prediction_document(
    request: Request, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> dict[str, Any]:
    """Of a GPU with the samples on the device; `predicted` is null where no batch fits."""
    return {
        "schema": GPU_SCHEMA,
        "asked": asked_of(request),
        "request": request_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "gpu": {"name": answer.gpu.name, "memory_mib": answer.gpu.memory_mib, "sources": answer.gpu.sources},
        "fits": answer.workload is not None,
        **gpu_prediction_block(answer.workload, answer.prediction),
        "other_settings": other_setting_blocks(answer.other_settings),
        "assumptions": list(assumptions),
    }


def gpu_prediction_text(
    request: Request, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> str:
    """A few lines for a terminal."""
    title = f"{answer.gpu.name}, {format_mib(answer.gpu.memory_mib)}   samples on the device"
    workload, prediction = answer.workload, answer.prediction
    if workload is None or prediction is None:
        none = "  throughput  -: no batch fits its memory"
        return "\n".join([title, *asked_lines(request, None), none])
    lines = [
        *basis_lines(prediction, "", sources.model_id),
        "",
        title,
        *asked_lines(request, workload),
        f"  throughput  {interval_text(prediction, rate_unit(workload.dataset))}",
        *gpu_setting_lines(answer.other_settings),
        *(f"  note        {text}" for text in prediction.extrapolation),
        "",
        *wrapped("Assumed", assumptions, len(assumptions)),
        "This is the GPU alone. `--instance` predicts an instance that has it.",
    ]
    return "\n".join(lines)
