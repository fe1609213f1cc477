"""Answers about fine-tuning a language model: a recommendation and what one instance does, as one
screen of plain text, and as documents."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation, TuningPrediction
from advisor.questions.documents import question_document
from advisor.questions.language import TuningQuestion
from advisor.render.document import Sources
from advisor.render.language_document import finetuning_block
from advisor.render.phrases import gpus_text
from advisor.render.price_doubt import price_lines, resting_lines
from advisor.render.sentences import risk_text
from advisor.render.text import (
    SHOWN_ALTERNATIVES,
    WIDTH,
    alternative_lines,
    decision_lines,
    fact_lines,
    folded,
    lower_name,
    lower_text,
    notes_of,
    price_text,
    rejection_lines,
    relaxation_lines,
    spec_lines,
)
from advisor.render.views.specs import tuning_facts
from advisor.units import format_count, format_hours, format_target, format_usd

SCHEMA = "advisor.tuning-prediction/1"
SHOWN_REJECTED = 2


def finetuning_text(
    answer: FineTuningRecommendation,
    sources: Sources,
    *,
    all_rejected: bool = False,
    specs: int | None = None,
) -> str:
    """The answer for a terminal; `all_rejected` lists every rejected type, `specs` so many
    specs."""
    chosen = answer.chosen
    lines = ["No offer meets this."]
    if chosen is not None:
        lines = [
            *resting_lines(answer),
            *_chosen_lines(chosen, answer.request, sources),
            *decision_lines(answer),
            *price_lines(answer),
        ]
    lines += relaxation_lines(answer)
    lower = f"{lower_name(answer.request.confidence)} tokens/s"

    def columns(shown: Sequence[FineTuningCandidate], places: list[str]) -> dict[str, list[str]]:
        return {
            "gpu": [gpus_text(spec.spec.offer.instance) for spec in shown],
            "per hour": [format_usd(spec.spec.total_usd_per_hour) for spec in shown],
            lower: [lower_text(spec.tokens_per_second.lower) for spec in shown],
            "takes": [format_hours(spec.hours.median) for spec in shown],
            "costs": [format_usd(spec.usd_per_run.median) for spec in shown],
            "region": places,
        }

    most = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    lines += alternative_lines(answer, most, columns, ("gpu",), ("gpu",))
    lines += rejection_lines(answer, SHOWN_REJECTED, everyone=all_rejected)
    return "\n".join(lines + notes_of(answer.assumptions, answer.warnings))


def tuning_text(prediction: TuningPrediction, request: TuningQuestion, sources: Sources) -> str:
    """The prediction of one instance, for a terminal."""
    lines = _chosen_lines(prediction.candidate, request, sources)
    return "\n".join(lines + notes_of(prediction.assumptions, prediction.warnings))


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


def _chosen_lines(candidate: FineTuningCandidate, request: TuningQuestion, sources: Sources) -> list[str]:
    spec = candidate.spec
    basis = (
        f"Modelled, not measured; {risk_text(candidate)}; "
        f"{price_text(spec.offer.market, spec.offer.price)}; predictor {sources.model_id[:8]}."
    )
    facts = tuning_facts(finetuning_block(candidate, request.confidence), sharded=candidate.sharded)
    return [
        *textwrap.wrap(basis, WIDTH),
        *spec_lines(spec, request),
        *folded("for", [asked_text(request, candidate)]),
        *fact_lines(facts),
    ]


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
