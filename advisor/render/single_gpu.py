"""The prediction for one GPU by itself, as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from advisor.domain import OnGpu, Request
from advisor.domain.request_document import request_document
from advisor.render.document import Sources, prediction_document, rate_unit
from advisor.render.other_settings import gpu_setting_lines, other_setting_documents
from advisor.render.risk import risk_text
from advisor.render.text import PROVENANCE, WIDTH, interval_text, wrapped
from advisor.units import format_mib

SCHEMA = "advisor.gpu-prediction/1"


def gpu_prediction_document(
    request: Request, one: OnGpu, sources: Sources, assumptions: Sequence[str]
) -> dict[str, Any]:
    """JSON-ready values; `predicted` is null where no batch surely fits."""
    predicted: dict[str, Any] = {"batch_size": None, "predicted": None, "extrapolation": []}
    if one.workload is not None and one.prediction is not None:
        document = prediction_document(one.workload, one.prediction)
        predicted = {name: document[name] for name in predicted}
    return {
        "schema": SCHEMA,
        "request": request_document(request),
        "performance_model": sources.performance_model(),
        "catalog": {"as_of": sources.catalog_as_of, "sources": list(sources.catalog_sources)},
        "gpu": {
            "name": one.gpu.name,
            "memory_mib": one.gpu.memory_mib,
            "sources": one.gpu.sources,
        },
        "fits": one.workload is not None,
        **predicted,
        "other_settings": other_setting_documents(one.other_settings),
        "assumptions": list(assumptions),
    }


def gpu_prediction_text(
    request: Request, one: OnGpu, sources: Sources, assumptions: Sequence[str]
) -> str:
    """A few lines for a terminal."""
    title = f"{one.gpu.name}, {format_mib(one.gpu.memory_mib)}   samples on the device"
    asked = f"{request.network} {request.task}"
    if one.workload is None or one.prediction is None:
        return "\n".join([title, f"  for         {asked}, {request.precision}",
                          "  throughput  -: no batch surely fits its memory"])  # fmt: skip
    found = one.prediction
    standing = (
        f"{PROVENANCE[str(found.provenance)]}, {risk_text(found)}; model {sources.model_id[:8]}."
    )
    lines = [
        *textwrap.wrap(standing, WIDTH),
        "",
        title,
        f"  for         {asked}, batch {one.workload.batch_size}, {request.precision}",
        f"  throughput  {interval_text(found, rate_unit(one.workload.dataset))}",
        *gpu_setting_lines(one.other_settings),
        *(f"  note        {text}" for text in found.extrapolation),
        "",
        *wrapped("Assumed", assumptions, len(assumptions)),
        "A GPU alone: what an instance with it really reaches, `--instance` tells.",
    ]
    return "\n".join(lines)
