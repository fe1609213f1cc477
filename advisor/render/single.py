"""The prediction for one instance, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from advisor.domain import BatchPoint, InstancePrediction, Request, computes_on_cpu
from advisor.domain.request_document import request_document
from advisor.render.document import (
    PREDICTION_SCHEMA,
    Sources,
    disk_document,
    instance_document,
    latency_document,
    prediction_document,
    price_document,
    rate_unit,
)
from advisor.render.other_settings import other_setting_documents, other_setting_lines
from advisor.render.risk import risk_text
from advisor.render.runs import run_document, run_lines
from advisor.render.text import (
    PROVENANCE,
    WIDTH,
    bottleneck_text,
    disk_text,
    gpus_lines,
    interval_text,
    price_words,
    table,
    terms_lines,
    wrapped,
)
from advisor.units import ceil_ms, floor_rate, format_rate, format_usd


def single_document(
    request: Request,
    one: InstancePrediction,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """JSON-ready values; `price` is null where none is known."""
    return {
        "schema": PREDICTION_SCHEMA,
        "request": request_document(request),
        "performance_model": sources.performance_model(),
        "catalog": {"as_of": sources.catalog_as_of, "sources": list(sources.catalog_sources)},
        **instance_document(one.instance),
        "disk": disk_document(one.disk),
        "region": one.region,
        "price": _price_document(one),
        **prediction_document(one.workload, one.prediction),
        "cost": {"usd_per_million_samples": one.usd_per_million_samples},
        "run": run_document(one.run, one.usd_per_run),
        "good_batch_size": one.good_batch_size,
        "by_batch": [_point_document(point) for point in one.by_batch],
        "other_settings": other_setting_documents(one.other_settings),
        "note": one.note,
        "assumptions": list(one.assumptions),
        "warnings": list(one.warnings),
        "explanation": explanation,
    }


def _price_document(one: InstancePrediction) -> dict[str, Any] | None:
    if one.price is None:
        return None
    return {
        **price_document(one.price),
        "disk_usd_per_hour": one.disk.usd_per_hour,
        "total_usd_per_hour": one.total_usd_per_hour,
    }


def _cost_lines(one: InstancePrediction) -> list[str]:
    if one.price is None or one.usd_per_million_samples is None:
        return []
    disk = "local disk included"
    if one.disk.price:
        disk = f"disk {format_usd(one.disk.usd_per_hour)}/h"
    return [
        f"  cost        {format_usd(one.usd_per_million_samples)} per million samples "
        f"(instance {format_usd(one.price.usd_per_hour)}/h, {disk})"
    ]


def _point_document(point: BatchPoint) -> dict[str, Any]:
    prediction = point.prediction
    return {
        "batch_size": point.batch_size,
        "throughput": {
            "lower": prediction.lower,
            "median": prediction.median,
            "upper": prediction.upper,
        },
        "bottleneck": str(prediction.bottleneck),
        "latency": latency_document(point.latency),
    }


def _batch_lines(one: InstancePrediction) -> list[str]:
    """A table over batch sizes; none where there is but one."""
    if len(one.by_batch) < 2:
        return []
    timed = any(point.latency for point in one.by_batch)
    header = ["  batch", "surely/s", "likely/s", *(["p50 ms", "p99 ms"] if timed else [])]
    rows = [[str(point.batch_size), *_point_cells(point)] for point in one.by_batch]
    enough = f"  batch {one.good_batch_size} is the smallest within 5 % of the best lower bound"
    return ["", *table([*header, "bound by"], rows, right=range(len(header))), enough]


def _point_cells(point: BatchPoint) -> list[str]:
    prediction, latency = point.prediction, point.latency
    rates = [f"{floor_rate(prediction.lower):,g}", format_rate(prediction.median)]
    times = []
    if latency:
        times = [f"{ceil_ms(s):,g}" for s in (latency.p50_seconds, latency.p99_seconds)]
    return [*rates, *times, str(prediction.bottleneck)]


def prediction_text(request: Request, one: InstancePrediction, sources: Sources) -> str:
    """A few lines for a terminal."""
    prediction, disk, price = one.prediction, one.disk, one.price
    usd = one.total_usd_per_hour
    total = "price unknown" if usd is None else f"{format_usd(usd)}/h"
    dated = f"{price_words(request.market, price)}; " if price else ""
    where = f"   {one.region}, {request.market}" if one.region else ""
    standing = (
        f"{PROVENANCE[str(prediction.provenance)]}, {risk_text(prediction)}; {dated}"
        f"model {sources.model_id[:8]}."
    )
    lines = [
        *textwrap.wrap(standing, WIDTH),
        "",
        f"{one.instance.name} + {disk_text(disk)}   {total}{where}",
        f"  for         {request.network} {request.task}, batch {one.workload.batch_size}, "
        f"{request.precision}",
        f"  throughput  {interval_text(prediction, rate_unit(one.workload.dataset))}",
        *gpus_lines(prediction),
        *_cost_lines(one),
        *(terms_lines(price) if price else []),
        *run_lines(request, one.run, one.usd_per_run),
        "  bound by    "
        + bottleneck_text(prediction, on_cpu=computes_on_cpu(one.instance, one.workload)),
        *other_setting_lines(one.other_settings, prediction),
    ]
    lines += [f"  note        {text}" for text in (one.note, *prediction.extrapolation) if text]
    told = [*wrapped("Assumed", one.assumptions, 2), *wrapped("Warning", one.warnings, 3)]
    return "\n".join([*lines, *_batch_lines(one), "", *told])
