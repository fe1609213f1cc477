"""The prediction for one instance, as text and as JSON."""

from __future__ import annotations

from typing import Any

from advisor.domain import InstancePrediction, Request
from advisor.report.document import (
    PREDICTION_SCHEMA,
    Sources,
    disk_document,
    instance_document,
    prediction_document,
    price_document,
    request_document,
    risk,
)
from advisor.report.text import PROVENANCE, bottleneck_text, disk_text, interval_text
from advisor.units import format_usd


def single_document(request: Request, one: InstancePrediction, sources: Sources) -> dict[str, Any]:
    """JSON-ready values; `price` is null where none is known."""
    return {
        "schema": PREDICTION_SCHEMA,
        "request": request_document(request),
        "performance_model": sources.performance_model(),
        "catalog": {"as_of": sources.catalog_as_of, "sources": list(sources.catalog_sources)},
        **instance_document(one.instance),
        "disk": disk_document(one.disk),
        "price": price_document(one.price) if one.price else None,
        **prediction_document(one.workload, one.prediction),
        "note": one.note,
    }


def prediction_text(request: Request, one: InstancePrediction, sources: Sources) -> str:
    """A few lines for a terminal."""
    prediction, disk, price = one.prediction, one.disk, one.price
    total = f"{format_usd(price.usd_per_hour + disk.usd_per_hour)}/h" if price else "price unknown"
    dated = f"{price.kind} price of {price.as_of}; " if price else ""
    lines = [
        f"{PROVENANCE[str(prediction.provenance)]}, {risk(prediction)} risk; {dated}"
        f"model {sources.model_id[:8]}.",
        "",
        f"{one.instance.name} + {disk_text(disk)}   {total}",
        f"  for         {request.network} {request.task}, batch {one.workload.batch_size}, "
        f"{request.precision}",
        f"  throughput  {interval_text(prediction)}",
        f"  bound by    {bottleneck_text(prediction)}",
    ]
    lines += [f"  note        {text}" for text in (one.note, *prediction.extrapolation) if text]
    return "\n".join(lines)
