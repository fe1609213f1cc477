"""The versioned JSON document of a recommendation; every other format derives from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from advisor.domain import (
    Candidate,
    Disk,
    InstanceType,
    Latency,
    Prediction,
    Price,
    Recommendation,
    Request,
    Workload,
)
from advisor.report.close_calls import close_call_documents
from advisor.report.risk import risk
from advisor.report.runs import run_document

SCHEMA = "advisor.recommendation/1"
PREDICTION_SCHEMA = "advisor.prediction/1"
SAMPLE_UNIT = "images/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What an answer stands on: the performance model and the catalogue."""

    model_id: str
    trained_on: str
    error_percent: float
    catalog_as_of: str
    catalog_sources: tuple[str, ...]

    def performance_model(self) -> dict[str, Any]:
        """The document's `performance_model` block."""
        return {
            "id": self.model_id,
            "trained_on": self.trained_on,
            "error_percent": self.error_percent,
        }


def recommendation_document(
    answer: Recommendation, sources: Sources, explanation: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The whole answer as JSON-ready values; numbers are not rounded.

    `explanation` is of the recommended spec, or of the nearest where nothing meets the target.
    """
    candidates = [candidate_document(one) for one in answer.ranked]
    return {
        "schema": SCHEMA,
        "as_of": answer.today.isoformat(),
        "request": request_document(answer.request),
        "performance_model": sources.performance_model(),
        "catalog": {
            "as_of": sources.catalog_as_of,
            "sources": list(sources.catalog_sources),
            "offers_considered": answer.offers_considered,
            "offers_rejected": len(answer.rejected),
            "rejected_by_reason": answer.rejected_by_reason,
        },
        "recommendation": candidates[0] if candidates else None,
        "nearest": candidate_document(answer.nearest) if answer.nearest else None,
        "alternatives": candidates[1:],
        "rejected": [
            {
                "instance_type": one.instance_type,
                "reason": one.reason,
                "detail": one.detail,
                "usd_per_hour": one.usd_per_hour,
            }
            for one in answer.rejected
        ],
        "close_calls": close_call_documents(answer),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


def document_yaml(document: Mapping[str, Any]) -> str:
    """The same document as YAML, keys in the same order."""
    import yaml  # nobody else waits for it

    return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))


def request_document(request: Request) -> dict[str, Any]:
    """What was asked, with the defaults filled in."""
    return {
        "task": str(request.task),
        "model": request.network,
        "target_throughput": request.target_throughput,
        "confidence": request.confidence,
        "batch_size": request.batch_size,
        "precision": str(request.precision),
        "dataset": {
            "name": request.dataset.name,
            "samples": request.dataset.samples,
            "bytes_per_sample": request.dataset.bytes_per_sample,
            "storage_format": request.dataset.storage_format,
        },
        "cloud": request.cloud,
        "region": request.region,
        "market": str(request.market),
        "gpus": list(request.gpus),
        "min_gpu_memory_mib": request.min_gpu_memory_mib,
        "accelerated_only": request.accelerated_only,
        "max_usd_per_hour": request.max_usd_per_hour,
        "max_latency_ms": request.max_latency_ms,
        "epochs": request.epochs,
        "samples": request.samples,
        "max_hours": request.max_hours,
        "max_run_usd": request.max_run_usd,
        "disk": None if request.disk is None else str(request.disk),
    }


def candidate_document(one: Candidate) -> dict[str, Any]:
    """A spec with its price, prediction and cost."""
    offer = one.spec.offer
    return {
        "cloud": offer.instance.cloud,
        "region": offer.region,
        "market": str(offer.market),
        **instance_document(offer.instance),
        "disk": disk_document(one.spec.disk),
        "price": {
            **price_document(offer.price),
            "disk_usd_per_hour": one.spec.disk.usd_per_hour,
            "total_usd_per_hour": one.spec.total_usd_per_hour,
        },
        **prediction_document(one.workload, one.prediction),
        "latency": latency_document(one.latency),
        "cost": {"usd_per_million_samples": one.usd_per_million_samples},
        "run": run_document(one.run, one.usd_per_run),
        "note": one.note,
    }


def instance_document(instance: InstanceType) -> dict[str, Any]:
    """What an instance type has."""
    gpu = None
    if instance.gpu_name is not None:
        gpu = {
            "name": instance.gpu_name,
            "count": instance.gpu_count,
            "memory_mib": instance.gpu_memory_mib,
        }
    return {
        "instance_type": instance.name,
        "gpu": gpu,
        "vcpus": instance.vcpus,
        "physical_cores": instance.physical_cores,
        "memory_mib": instance.memory_mib,
    }


def disk_document(disk: Disk) -> dict[str, Any]:
    """A disk with what it sustains on its instance."""
    return {
        "type": disk.rate.type,
        "order": str(disk.choice),
        "size_gib": disk.size_gib,
        "read_mib_per_second": disk.rate.read_mib_per_second,
        "read_iops": disk.rate.read_iops,
        "binding_limit": disk.binding_limit,
        "price_as_of": disk.price.as_of.isoformat() if disk.price else None,
    }


def price_document(price: Price) -> dict[str, Any]:
    """An instance's price with its date and source."""
    return {
        "usd_per_hour": price.usd_per_hour,
        "kind": price.kind,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
        "terms": price.terms,
    }


def prediction_document(workload: Workload, prediction: Prediction) -> dict[str, Any]:
    """Throughput with its interval, what binds, and how far each stage is used."""
    return {
        "batch_size": workload.batch_size,
        "predicted": {
            "throughput": {
                "lower": prediction.lower,
                "median": prediction.median,
                "upper": prediction.upper,
            },
            "unit": SAMPLE_UNIT,
            "confidence": prediction.confidence,
            "provenance": str(prediction.provenance),
        },
        "bottleneck": str(prediction.bottleneck),
        "utilization": _by_stage(prediction.utilization),
        "stage_rates": _by_stage(prediction.stage_rates),
        "risk": risk(prediction),
        "extrapolation": list(prediction.extrapolation),
    }


def latency_document(latency: Latency | None) -> dict[str, Any] | None:
    """One batch's latency in milliseconds; null but for inference, p99 null where unsure."""
    if latency is None:
        return None
    sure = isfinite(latency.p99_seconds)
    return {
        "p50_ms": 1000 * latency.p50_seconds,
        "p99_ms": 1000 * latency.p99_seconds if sure else None,
    }


def _by_stage(values: Mapping[Any, float]) -> dict[str, float]:
    return {str(stage): value for stage, value in values.items()}
