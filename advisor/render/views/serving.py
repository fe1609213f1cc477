"""What one instance does that serves a language model, as a document, and the question in words."""

from __future__ import annotations

from typing import Any

from advisor.domain.language import GenerationCandidate, ServingPrediction
from advisor.questions.documents import question_document
from advisor.questions.language import ServingQuestion
from advisor.render.document import Sources
from advisor.render.language_document import front_block, generation_block, step_block
from advisor.units import format_target

SCHEMA = "advisor.serving-prediction/1"


def serving_prediction_document(
    prediction: ServingPrediction, request: ServingQuestion, sources: Sources
) -> dict[str, Any]:
    """The prediction of one instance; price and cost are null where no price is known."""
    return {
        "schema": SCHEMA,
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **serving_block(prediction, request.confidence, sources),
        "front": [front_block(point) for point in prediction.front],
        "steps": [step_block(step) for step in prediction.steps],
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def serving_block(prediction: ServingPrediction, confidence: float, sources: Sources) -> dict[str, Any]:
    """One instance as documents tell it."""
    block = generation_block(prediction.candidate, confidence, sources)
    return block if prediction.price else block | {"price": None, "cost": None}


def asked_text(request: ServingQuestion, candidate: GenerationCandidate) -> str:
    """'Qwen/Qwen3-8B generation, 1,155 tokens in, 211 out, 40 users'."""
    lengths = f"{request.input_tokens:,.0f} tokens in, {request.output_tokens:,.0f} out"
    parts = [f"{candidate.model} generation, {lengths}"]
    if request.target_output_tokens_per_second is not None:
        target = format_target(request.target_output_tokens_per_second)
        parts.append(f"at least {target} output tokens/s")
    if request.target_requests_per_second is not None:
        parts.append(f"{format_target(request.target_requests_per_second)} requests/s (Poisson)")
    if request.users is not None:
        parts.append(f"{request.users:,} users")
    for limit in request.time_limits:
        of = "" if limit.percentile is None else f"p{limit.percentile} of "
        parts.append(f"{of}{_TIMES[limit.reason]} <= {limit.most:g} {'ms' if limit.unit > 1 else 's'}")
    if request.max_ready_seconds is not None:
        parts.append(f"ready <= {request.max_ready_seconds:g} s")
    return ", ".join(parts)


_TIMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "a whole request"}
