"""What one instance does that tunes a language model, as a document, and the question in words."""

from __future__ import annotations

from typing import Any

from advisor.domain.language import FineTuningCandidate, TuningPrediction
from advisor.questions.documents import question_document
from advisor.questions.language import TuningQuestion
from advisor.render.document import Sources
from advisor.render.language_document import finetuning_block
from advisor.units import format_count, format_target, format_usd

SCHEMA = "advisor.tuning-prediction/1"


def tuning_document(
    prediction: TuningPrediction, request: TuningQuestion, sources: Sources
) -> dict[str, Any]:
    """The prediction of one instance; price and cost are null where no price is known."""
    block = finetuning_block(prediction.candidate, request.confidence)
    if prediction.price is None:
        block |= {"price": None, "run": block["run"] | {"usd": None}}
    return {
        "schema": SCHEMA,
        "request": question_document(request),
        "performance_model": sources.performance_model(),
        "catalog": sources.catalog(),
        **block,
        "assumptions": list(prediction.assumptions),
        "warnings": list(prediction.warnings),
    }


def asked_text(request: TuningQuestion, candidate: FineTuningCandidate) -> str:
    """'Qwen/Qwen3-8B finetuning (qlora), 50 million tokens in sequences of 2,048'."""
    parts = [
        f"{candidate.model} finetuning ({candidate.method}), {format_count(request.tokens)} tokens "
        f"in sequences of {request.sequence:,}"
    ]
    if request.target_tokens_per_second is not None:
        parts.append(f"at least {format_target(request.target_tokens_per_second)} tokens/s")
    if request.max_hours is not None:
        parts.append(f"<= {request.max_hours:g} h")
    if request.max_run_usd is not None:
        parts.append(f"<= {format_usd(request.max_run_usd)}")
    return ", ".join(parts)
