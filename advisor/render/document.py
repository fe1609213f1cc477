"""The versioned JSON document of a recommendation; every other format derives from it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from advisor.domain import (
    Burst,
    Candidate,
    DatasetProfile,
    Disk,
    InstanceType,
    Latency,
    Prediction,
    Price,
    Recommendation,
    Workload,
)
from advisor.domain.request_document import request_document
from advisor.records import dataclass
from advisor.render.close_calls import close_call_documents
from advisor.render.other_settings import other_setting_documents
from advisor.render.pareto import pareto_documents
from advisor.render.relaxing import relax_documents
from advisor.render.risk import risk
from advisor.render.runs import run_document

SCHEMA = "advisor.recommendation/1"
PREDICTION_SCHEMA = "advisor.prediction/1"


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
            {"instance_type": name, "reason": reason, "detail": detail, "usd_per_hour": usd}
            for name, reason, detail, usd in answer.rejected
        ],
        "close_calls": close_call_documents(answer),
        "live": _live_document(answer),
        "relax": relax_documents(answer),
        "pareto": pareto_documents(answer),
        "other_settings": other_setting_documents(answer.other_settings),
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": explanation,
    }


def document_yaml(document: Mapping[str, Any]) -> str:
    """The same document as YAML, keys in the same order."""
    import yaml  # nobody else waits for it

    return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))


def rate_unit(dataset: DatasetProfile) -> str:
    """'images/s', 'sequences/s': what a throughput counts."""
    return f"{dataset.sample}s/s"


def candidate_document(one: Candidate) -> dict[str, Any]:
    """A spec with its price, prediction and cost."""
    offer = one.spec.offer
    return {
        "cloud": offer.instance.cloud,
        "region": offer.region,
        "market": str(offer.market),
        "count": one.spec.count,
        **instance_document(offer.instance),
        "disk": disk_document(one.spec.disk),
        "price": {
            **price_document(offer.price),
            "disk_usd_per_hour": one.spec.disk.usd_per_hour,
            "usd_per_hour_each": one.spec.usd_per_hour_each,
            "total_usd_per_hour": one.spec.total_usd_per_hour,
        },
        **_with_each(prediction_document(one.workload, one.prediction), one),
        "latency": latency_document(one.latency),
        "cost": {"usd_per_million_samples": one.usd_per_million_samples},
        "run": run_document(one.run, one.usd_per_run),
        "note": one.note,
    }


def _with_each(document: dict[str, Any], one: Candidate) -> dict[str, Any]:
    """A prediction's document with what one instance reaches, beside all of them."""
    each = one.prediction.times(1 / one.spec.count)
    document["predicted"]["throughput_each"] = _bounds(each)
    return document


def _bounds(prediction: Prediction) -> dict[str, float]:
    return {
        "lower": prediction.lower,
        "median": prediction.median,
        "upper": prediction.upper,
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
        "burst": _burst_document(disk.burst),
    }


def _burst_document(burst: Burst | None) -> dict[str, Any] | None:
    """What the disk reads at first, and for how long; None where it never reads faster."""
    if burst is None:
        return None
    return {
        "read_mib_per_second": burst.read_mib_per_second,
        "read_iops": burst.read_iops,
        "seconds": burst.seconds if isfinite(burst.seconds) else None,
        "lent_by": list(burst.causes),
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
            "throughput": _bounds(prediction),
            "unit": rate_unit(workload.dataset),
            "confidence": prediction.confidence,
            "provenance": str(prediction.provenance),
            "gpus_used": prediction.gpus_used,
            "gpu_efficiency": prediction.gpu_efficiency,
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


def _live_document(answer: Recommendation) -> dict[str, Any] | None:
    """What AWS was asked for; None where nothing was to be asked."""
    if answer.live is None:
        return None
    from advisor.render.live import live_document  # few ask for it

    return live_document(answer.live)


def _by_stage(values: Mapping[Any, float]) -> dict[str, float]:
    return {str(stage): value for stage, value in values.items()}
