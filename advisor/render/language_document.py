"""Builds the JSON documents of answers about a language model.

A recommendation has all keys of `advisor.recommendation/1`. A generation spec has an object `serving`, and a
fine-tuning spec an object `tuning`. The document's own `serving` holds what applies to the whole answer.
Times are in seconds, rates are of all instances together, and numbers are not rounded."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import asdict

from advisor.domain import Span
from advisor.domain.decision import AnyCandidate
from advisor.domain.language import (
    FineTuningCandidate,
    FineTuningRecommendation,
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    ServingPlacement,
    ServingPrediction,
    ServingRates,
    ServingStep,
    TuningPrediction,
)
from advisor.domain.words import PERCENTILES, REQUEST_TIMES, Provenance
from advisor.questions.language import ServingQuestion, TuningQuestion
from advisor.questions.reading import question_document
from advisor.render.borderline import borderline_block
from advisor.render.document import Sources, shared_document
from advisor.render.phrases import trial_command
from advisor.render.records import (
    bounds,
    brief_block,
    by_price,
    fields,
    finite_bounds,
    notes_text,
    risk,
    spec_block,
    withheld_block,
)

LanguagePrediction = ServingPrediction | TuningPrediction
OUTPUT_UNIT, TUNING_UNIT = "output tokens/s", "tokens/s"
# What both latencies are means of, since the meaning of TPOT varies between tools.
_BOUNDS_MEANING = "; the bounds are those of this mean, no percentiles of requests"
TTFT_MEANING = "seconds from a request's arrival to its first output token, in the mean" + _BOUNDS_MEANING
TPOT_MEANING = "seconds for each output token after the first one, in the mean of a request" + _BOUNDS_MEANING


def generation_document(
    answer: GenerationRecommendation, sources: Sources, *, every_rejected: bool = False
) -> dict[str, Any]:
    """Return the whole answer about serving; `render.document.plain` makes it JSON-ready."""
    request = answer.request
    block = partial(generation_block, confidence=request.confidence, sources=sources)
    return shared_document(answer, sources, block, every_rejected=every_rejected) | {
        "close_calls": [
            borderline_block(call, request.horizon_hours, trial_command(call.candidate, request))
            for call in answer.close_calls
        ],
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
    """Return the whole answer about fine-tuning."""
    block = partial(finetuning_block, confidence=answer.request.confidence)
    return shared_document(answer, sources, block, every_rejected=every_rejected)


def generation_block(candidate: GenerationCandidate, confidence: float, sources: Sources) -> dict[str, Any]:
    """Return a spec that serves, with its predictions."""
    spec, rates = candidate.spec, candidate.rates
    output, gpus_used = rates.output_tokens_per_second, candidate.placement.gpus_used
    provenance = Provenance.ANCHORED if sources.anchors else Provenance.MODELLED
    return {
        **spec_block(spec),
        "probability": candidate.probability,
        "predicted": _predicted(candidate, output, OUTPUT_UNIT, confidence, gpus_used, provenance),
        "bottleneck": str(candidate.binds),
        "risk": risk(candidate),
        "extrapolation": list(candidate.extrapolation),
        "cost": {
            **spans(
                candidate, "usd_per_million_output_tokens usd_per_million_input_tokens usd_per_million_tokens"
            ),
            "by_price": by_price(spec, candidate.usd_per_million_output_tokens.median),
            **_against_api(candidate),
        },
        "serving": _serving_block(candidate),
        "note": notes_text(candidate.notes),
    }


def _against_api(candidate: GenerationCandidate) -> dict[str, Any]:
    """Return the tokens per day from which the spec beats the named API's price, and the most it serves."""
    if candidate.api_usd_per_million_tokens is None:
        return {}
    return {
        "api": {
            "usd_per_million_tokens": candidate.api_usd_per_million_tokens,
            "cheaper_from_tokens_per_day": candidate.tokens_per_day_of_api,
            "most_tokens_per_day": candidate.most_tokens_per_day,
            "asked_tokens_per_day": candidate.asked_tokens_per_day,
        }
    }


def _serving_block(candidate: GenerationCandidate) -> dict[str, Any]:
    ready = candidate.ready
    return {
        **fields(candidate, "model engine engine_version precision kv_precision"),
        "placement": placement_block(candidate.placement),
        **fields(candidate, "input_tokens output_tokens offered_requests_per_second"),
        "rates": rates_block(candidate.rates),
        "percentiles": percentiles_block(candidate.rates),
        "most": rates_block(candidate.most),
        "memory_per_gpu": asdict(candidate.memory),
        "ready_seconds": {
            "total": ready.seconds,
            "load_weights": ready.load_seconds,
            "start_engine": ready.start_seconds,
            "upper": ready.upper_seconds,
        },
    }


def placement_block(placement: ServingPlacement) -> dict[str, Any]:
    """Return how the model is placed on one instance, or over several."""
    further = {"pipeline_parallel": placement.nodes, "data_parallel": placement.ranks}
    return {
        **fields(placement, "tensor_parallel replicas link"),
        **{name: number for name, number in further.items() if number > 1},
    }


def rates_block(rates: ServingRates) -> dict[str, Any]:
    """Return the rates of all instances and the times of one request, at a given concurrency."""
    return {"concurrency": rates.concurrency} | spans(
        rates,
        "output_tokens_per_second requests_per_second output_tokens_per_second_per_user ttft_seconds "
        "tpot_seconds e2e_seconds",
    )


def percentiles_block(rates: ServingRates) -> dict[str, Any]:
    """Return the percentiles of each time of a request, each with its bounds."""
    return {
        f"{time}_seconds": {
            f"p{part}": finite_bounds(span) for part, span in zip(PERCENTILES, parts, strict=True)
        }
        for time, parts in zip(REQUEST_TIMES, rates.tails, strict=False)
    }


def spans(record: object, names: str) -> dict[str, Any]:
    """Return intervals of a record, with null for unknown bounds."""
    return {name: finite_bounds(span) for name, span in fields(record, names).items()}


def front_block(point: FrontPoint) -> dict[str, Any]:
    """Return one way to run the instances, with its rates and what it misses."""
    return {
        **placement_block(point.placement),
        **rates_block(point.rates),
        **({"percentiles": percentiles_block(point.rates)} if point.rates.tails else {}),
        **spans(point, "usd_per_million_output_tokens"),
        "answers": not point.misses,
        "misses": ("target" if {*point.misses} == {"target"} else "limit") if point.misses else None,
        "missed": dict(point.misses),
    }


def step_block(step: ServingStep) -> dict[str, Any]:
    """Return the gain from one change; `gives` is null if the model cannot run with it."""
    gives = step.gives
    return {
        "kind": str(step.kind),
        "option": step.option,
        "why_not": step.why_not or None,
        "instead": step.instead
        and brief_block(step.instead) | spans(step.instead, "usd_per_million_output_tokens"),
        "gives": gives
        and {
            "count": gives.spec.count,
            "placement": placement_block(gives.placement),
            "probability": gives.probability,
            **spans(gives.rates, "output_tokens_per_second ttft_seconds tpot_seconds"),
            "ready_seconds": gives.ready.seconds,
            "total_usd_per_hour": gives.spec.total_usd_per_hour,
            **spans(gives, "usd_per_million_output_tokens"),
            "bottleneck": str(gives.binds),
        },
    }


def finetuning_block(candidate: FineTuningCandidate, confidence: float) -> dict[str, Any]:
    """Return a spec that fine-tunes, with its predictions."""
    spec, rate = candidate.spec, candidate.tokens_per_second
    return {
        **spec_block(spec),
        "probability": candidate.probability,
        "predicted": _predicted(
            candidate, rate, TUNING_UNIT, confidence, candidate.gpus_used, Provenance.MODELLED
        ),
        "risk": risk(candidate),
        "extrapolation": list(candidate.extrapolation),
        "run": {
            "hours": finite_bounds(candidate.hours),
            "usd": finite_bounds(candidate.usd_per_run),
            "usd_by_price": by_price(spec, candidate.usd_per_run.median),
        },
        "tuning": {
            **fields(candidate, "model method link"),
            "bound_by": "links" if candidate.link_bound else "gpus",
            **fields(candidate, "precision micro_batch checkpointing"),
            "memory_per_gpu": asdict(candidate.memory),
        },
        "note": notes_text(candidate.notes),
    }


def _predicted(
    candidate: AnyCandidate, rate: Span, unit: str, confidence: float, gpus_used: int, provenance: Provenance
) -> dict[str, Any]:
    return {
        "throughput": bounds(rate),
        "throughput_each": bounds(rate.times(1 / candidate.spec.count)),
        "unit": unit,
        "confidence": confidence,
        "provenance": str(provenance),
        "gpus_used": gpus_used,
        "withheld": withheld_block(candidate.withheld),
    }


def language_prediction_document(
    prediction: LanguagePrediction, request: ServingQuestion | TuningQuestion, sources: Sources
) -> dict[str, Any]:
    """Return what one instance serves, or how it fine-tunes; price and cost are null if no price is known."""
    schema, of_serving = "advisor.tuning-prediction/1", dict[str, Any]()
    if isinstance(prediction, ServingPrediction):
        schema = "advisor.serving-prediction/1"
        of_serving = {
            "front": [front_block(point) for point in prediction.front],
            "steps": [step_block(step) for step in prediction.steps],
        }
    return {
        "schema": schema,
        "request": question_document(request),
        **sources.blocks(),
        **prediction_block(prediction, request.confidence, sources),
        **of_serving,
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def prediction_block(prediction: LanguagePrediction, confidence: float, sources: Sources) -> dict[str, Any]:
    """Return the block of one instance that serves or fine-tunes."""
    if isinstance(prediction, ServingPrediction):
        block = generation_block(prediction.candidate, confidence, sources)
        return block if prediction.price else block | {"price": None, "cost": None}
    block = finetuning_block(prediction.candidate, confidence)
    return block if prediction.price else block | {"price": None, "run": block["run"] | {"usd": None}}
