"""The JSON document of a recommendation about a language model.

It has the keys of every `advisor.recommendation/1`. A spec of generation has an object `serving`,
one of fine-tuning an object `tuning`; the document itself has `serving` with what is true of the
whole answer. Times are seconds, rates are of all instances together, numbers are not rounded.
"""

from __future__ import annotations

from typing import Any

from advisor.domain import Relaxation, Span
from advisor.domain.language import (
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    GpuMemoryUse,
    ServingPlacement,
    ServingRates,
    ServingStep,
)
from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation
from advisor.domain.words import Provenance
from advisor.questions.documents import question_document
from advisor.render.borderline import borderline_block
from advisor.render.document import SCHEMA, Sources, relax_stopped
from advisor.render.phrases import risk_level, trial_command
from advisor.render.price_doubt import price_doubt_block
from advisor.render.records import (
    NEAREST_REJECTED,
    bounds,
    by_price,
    change_block,
    finite_bounds,
    notes_text,
    rejected_block,
    spec_block,
)

OUTPUT_UNIT, TUNING_UNIT = "output tokens/s", "tokens/s"
# What the two latencies are the means of; users and tools mean different things by TPOT.
_BOUNDS_MEANING = "; the bounds are those of this mean, no percentiles of requests"
TTFT_MEANING = "seconds from a request's arrival to its first output token, in the mean" + _BOUNDS_MEANING
TPOT_MEANING = "seconds for each output token after the first one, in the mean of a request" + _BOUNDS_MEANING


def generation_document(
    answer: GenerationRecommendation, sources: Sources, *, every_rejected: bool = False
) -> dict[str, Any]:
    """The whole answer about serving; see `render.document.plain` for what JSON can hold."""
    confidence = answer.request.confidence
    specs = [generation_block(one, confidence, sources) for one in answer.ranked]
    nearest = answer.nearest
    return {
        **_shared(answer, sources, specs, every_rejected),
        "request": question_document(answer.request),
        "nearest": generation_block(nearest, confidence, sources) if nearest else None,
        "close_calls": [
            borderline_block(call, answer.request.horizon_hours, trial_command(call.candidate))
            for call in answer.close_calls
        ],
        "relax": [_relaxation(one, "output_tokens_per_second") for one in answer.relaxations],
        "serving": {
            "ttft": TTFT_MEANING,
            "tpot": TPOT_MEANING,
            "front": [front_block(point) for point in answer.front],
            "steps": [step_block(step) for step in answer.steps],
        },
    }


def finetuning_document(
    answer: FineTuningRecommendation, sources: Sources, *, every_rejected: bool = False
) -> dict[str, Any]:
    """The whole answer about fine-tuning."""
    confidence = answer.request.confidence
    specs = [finetuning_block(one, confidence) for one in answer.ranked]
    nearest = answer.nearest
    return {
        **_shared(answer, sources, specs, every_rejected),
        "request": question_document(answer.request),
        "nearest": finetuning_block(nearest, confidence) if nearest else None,
        "relax": [_relaxation(one, "tokens_per_second") for one in answer.relaxations],
    }


def _shared(
    answer: GenerationRecommendation | FineTuningRecommendation,
    sources: Sources,
    specs: list[dict[str, Any]],
    every_rejected: bool,
) -> dict[str, Any]:
    """What every recommendation has."""
    most = None if every_rejected else NEAREST_REJECTED
    return {
        "schema": SCHEMA,
        "as_of": answer.today.isoformat(),
        "request": None,
        "performance_model": sources.performance_model(),
        "catalog": {
            **sources.catalog(),
            "offers_considered": answer.offers_considered,
            "offers_rejected": len(answer.rejected),
            "rejected_by_reason": answer.rejected_by_reason,
        },
        "recommendation": specs[0] if specs else None,
        "nearest": None,
        "alternatives": specs[1:],
        "rejected": [rejected_block(one) for one in answer.nearest_rejected(most)],
        "rejected_counts": answer.rejected_by_reason,
        "close_calls": [],
        "price_call": price_doubt_block(answer),
        "live": None,
        "relax": [],
        "relax_stopped": relax_stopped(answer.warnings),
        "pareto": [],
        "other_settings": [],
        "assumptions": list(answer.assumptions),
        "warnings": list(answer.warnings),
        "explanation": None,
    }


def generation_block(candidate: GenerationCandidate, confidence: float, sources: Sources) -> dict[str, Any]:
    """A spec that serves, with what is predicted of it."""
    spec, rates = candidate.spec, candidate.rates
    output = rates.output_tokens_per_second
    return {
        **spec_block(spec),
        "predicted": _predicted(
            output,
            spec.count,
            OUTPUT_UNIT,
            confidence,
            candidate.placement.gpus_used,
            Provenance.ANCHORED if sources.anchors else Provenance.MODELLED,
        ),
        "bottleneck": str(candidate.binds),
        "risk": risk_level(candidate),
        "extrapolation": list(candidate.extrapolation),
        "cost": {
            "usd_per_million_output_tokens": finite_bounds(candidate.usd_per_million_output_tokens),
            "usd_per_million_input_tokens": finite_bounds(candidate.usd_per_million_input_tokens),
            "usd_per_million_tokens": finite_bounds(candidate.usd_per_million_tokens),
            "by_price": by_price(spec, candidate.usd_per_million_output_tokens.median),
        },
        "serving": _serving_block(candidate),
        "note": notes_text(candidate.notes),
    }


def _serving_block(candidate: GenerationCandidate) -> dict[str, Any]:
    ready = candidate.ready
    return {
        "model": candidate.model,
        "engine": str(candidate.engine),
        "engine_version": candidate.engine_version,
        "precision": str(candidate.precision),
        "kv_precision": str(candidate.kv_precision),
        "placement": placement_block(candidate.placement),
        "input_tokens": candidate.input_tokens,
        "output_tokens": candidate.output_tokens,
        "offered_requests_per_second": candidate.offered_requests_per_second,
        "rates": rates_block(candidate.rates),
        "most": rates_block(candidate.most),
        "memory_per_gpu": memory_block(candidate.memory),
        "ready_seconds": {
            "total": ready.seconds,
            "load_weights": ready.load_seconds,
            "start_engine": ready.start_seconds,
            "upper": ready.upper_seconds,
        },
    }


def placement_block(placement: ServingPlacement) -> dict[str, Any]:
    """How the model lies on one instance."""
    return {
        "tensor_parallel": placement.tensor_parallel,
        "replicas": placement.replicas,
        "link": str(placement.link),
    }


def memory_block(memory: GpuMemoryUse) -> dict[str, Any]:
    """The memory of each GPU in GiB, and what it leaves room for."""
    return {name: getattr(memory, name) for name in type(memory).__struct_fields__}


def rates_block(rates: ServingRates) -> dict[str, Any]:
    """Rates of all instances, and times of one request, at a number of requests in flight."""
    return {
        "concurrency": rates.concurrency,
        "output_tokens_per_second": finite_bounds(rates.output_tokens_per_second),
        "requests_per_second": finite_bounds(rates.requests_per_second),
        "output_tokens_per_second_per_user": finite_bounds(rates.output_tokens_per_second_per_user),
        "ttft_seconds": finite_bounds(rates.ttft_seconds),
        "tpot_seconds": finite_bounds(rates.tpot_seconds),
        "e2e_seconds": finite_bounds(rates.e2e_seconds),
    }


def front_block(point: FrontPoint) -> dict[str, Any]:
    """One way to run the instances."""
    return {
        **placement_block(point.placement),
        **rates_block(point.rates),
        "usd_per_million_output_tokens": finite_bounds(point.usd_per_million_output_tokens),
        "answers": not point.misses,
        "misses": point.misses or None,
    }


def step_block(step: ServingStep) -> dict[str, Any]:
    """What one thing more would bring; `gives` is null where it does not run."""
    gives = step.gives
    return {
        "kind": str(step.kind),
        "option": step.option,
        "why_not": step.why_not or None,
        "gives": gives
        and {
            "output_tokens_per_second": finite_bounds(gives.rates.output_tokens_per_second),
            "ttft_seconds": finite_bounds(gives.rates.ttft_seconds),
            "tpot_seconds": finite_bounds(gives.rates.tpot_seconds),
            "ready_seconds": gives.ready.seconds,
            "total_usd_per_hour": gives.spec.total_usd_per_hour,
            "usd_per_million_output_tokens": finite_bounds(gives.usd_per_million_output_tokens),
            "bottleneck": str(gives.binds),
        },
    }


def finetuning_block(candidate: FineTuningCandidate, confidence: float) -> dict[str, Any]:
    """A spec that tunes, with what is predicted of it."""
    spec, rate = candidate.spec, candidate.tokens_per_second
    return {
        **spec_block(spec),
        "predicted": _predicted(rate, spec.count, TUNING_UNIT, confidence, candidate.gpus_used),
        "risk": risk_level(candidate),
        "extrapolation": list(candidate.extrapolation),
        "run": {
            "hours": finite_bounds(candidate.hours),
            "usd": finite_bounds(candidate.usd_per_run),
            "usd_by_price": by_price(spec, candidate.usd_per_run.median),
        },
        "tuning": {
            "model": candidate.model,
            "method": str(candidate.method),
            "link": str(candidate.link),
            "micro_batch": candidate.micro_batch,
            "checkpointing": candidate.checkpointing,
            "memory_per_gpu": {
                name: getattr(candidate.memory, name) for name in type(candidate.memory).__struct_fields__
            },
        },
        "note": notes_text(candidate.notes),
    }


def _predicted(
    rate: Span,
    count: int,
    unit: str,
    confidence: float,
    gpus_used: int,
    provenance: Provenance = Provenance.MODELLED,
) -> dict[str, Any]:
    return {
        "throughput": bounds(rate),
        "throughput_each": bounds(rate.times(1 / count)),
        "unit": unit,
        "confidence": confidence,
        "provenance": str(provenance),
        "gpus_used": gpus_used,
    }


def _relaxation(relaxation: Relaxation, rate: str) -> dict[str, Any]:
    gives = relaxation.gives
    span: Span = getattr(gives.rates if rate.startswith("output") else gives, rate)
    return {
        "changes": [change_block(change) for change in relaxation.changes],
        "gives": {
            "cloud": gives.spec.offer.instance.cloud,
            "instance_type": gives.spec.offer.instance.name,
            "region": gives.spec.offer.region,
            "total_usd_per_hour": gives.spec.total_usd_per_hour,
            "lower": span.lower,
        },
    }
