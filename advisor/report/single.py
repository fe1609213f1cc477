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
from advisor.report.text import PROVENANCE, bottleneck_text, interval_text
from advisor.units import format_mib, format_usd


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
    prediction, disk = one.prediction, one.disk
    price = f"{format_usd(one.price.usd_per_hour)}/h" if one.price else "price unknown"
    lines = [
        f"{PROVENANCE[str(prediction.provenance)]}, {risk(prediction)} risk; "
        f"model {sources.model_id[:8]}.",
        f"{one.instance.name} ({price}) + {disk.rate.type} {format_mib(disk.size_gib * 1024)} "
        f"({format_usd(disk.usd_per_hour)}/h)",
        f"  for         {request.network} {request.task}, batch {one.workload.batch_size}, "
        f"{request.precision}",
        f"  throughput  {interval_text(prediction)}",
        f"  bound by    {bottleneck_text(prediction)}",
    ]
    lines += [f"  note        {text}" for text in (one.note, *prediction.extrapolation) if text]
    return "\n".join(lines)
