"""Writes what one instance or one GPU achieves for a network, as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import InstancePrediction, OnGpu
from advisor.messages import Message
from advisor.naming import asked_of
from advisor.questions.network import NetworkQuestion
from advisor.questions.reading import question_document
from advisor.render.document import Sources
from advisor.render.records import (
    batch_point_block,
    disk_block,
    first_epoch_block,
    gpu_prediction_block,
    instance_block,
    notes_text,
    other_setting_blocks,
    prediction_block,
    price_block,
    risk,
    run_block,
)

SCHEMA = "advisor.prediction/1"
GPU_SCHEMA = "advisor.gpu-prediction/1"


def prediction_document(
    request: NetworkQuestion,
    answer: InstancePrediction,
    sources: Sources,
    explanation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return values that are JSON-ready except for messages; `price` is null if unknown."""
    price = answer.price and {
        **price_block(answer.price),
        "disk_usd_per_hour": answer.disk.known_usd_per_hour,
        "total_usd_per_hour": answer.total_usd_per_hour,
    }
    return {
        "schema": SCHEMA,
        "asked": asked_of(request),
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **instance_block(answer.instance),
        "disk": disk_block(answer.disk),
        "region": answer.region,
        "price": price,
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


def gpu_prediction_document(
    request: NetworkQuestion, answer: OnGpu, sources: Sources, assumptions: Sequence[Message | str]
) -> dict[str, Any]:
    """Return a GPU's prediction, with samples on the device already; `predicted` is null if no batch fits."""
    return {
        "schema": GPU_SCHEMA,
        "asked": asked_of(request),
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        "gpu": {"name": answer.gpu.name, "memory_mib": answer.gpu.memory_mib, "sources": answer.gpu.sources},
        "fits": answer.workload is not None,
        **gpu_prediction_block(answer.workload, answer.prediction),
        "risk": risk(answer.prediction) if answer.prediction else None,
        "other_settings": other_setting_blocks(answer.other_settings),
        "assumptions": list(assumptions),
    }
