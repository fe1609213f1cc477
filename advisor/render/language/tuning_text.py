"""The answer about fine-tuning a language model -> one screen of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import isfinite

from advisor.domain.generation import Link
from advisor.domain.tuning import (
    FineTuningCandidate,
    FineTuningRecommendation,
    FineTuningRequest,
    TuningMemoryUse,
    TuningPrediction,
)
from advisor.naming import place_name
from advisor.render.blocks import RISKS
from advisor.render.document import Sources
from advisor.render.language.lists import SHOWN_ALTERNATIVES, place_column, rejection_lines, relaxation_lines
from advisor.render.language.phrases import gib_text, gpus_text, rate_text, risk_level
from advisor.render.language.text import machine_text
from advisor.render.price_calls import price_lines, resting_lines
from advisor.render.text import (
    WIDTH,
    alternatives_title,
    fitting_table,
    folded,
    lower_name,
    lower_text,
    price_text,
    run_costs_text,
    spec_lines,
    upper_name,
    wrapped,
)
from advisor.units import format_count, format_hours, format_target, format_usd


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
        lines = [*resting_lines(answer), *tuning_lines(chosen, answer.request, sources), *price_lines(answer)]
    lines += relaxation_lines(answer)
    shown = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    lines += _alternatives(answer.ranked[: 1 + shown], answer)
    lines += rejection_lines(answer, everyone=all_rejected)
    lines += wrapped("Assumed", answer.assumptions, 3) + wrapped("Warning", answer.warnings, 3)
    return "\n".join(lines)


def tuning_text(prediction: TuningPrediction, request: FineTuningRequest, sources: Sources) -> str:
    """What one instance does, for a terminal."""
    lines = tuning_lines(prediction.candidate, request, sources)
    lines += wrapped("Assumed", prediction.assumptions, 3)
    return "\n".join(lines + wrapped("Warning", prediction.warnings, 3))


def tuning_lines(candidate: FineTuningCandidate, request: FineTuningRequest, sources: Sources) -> list[str]:
    """What the rates stand on, the spec, and what it does."""
    spec, confidence = candidate.spec, request.confidence
    rate = candidate.tokens_per_second
    level = risk_level(candidate)
    basis = (
        f"Modelled, not measured; {RISKS[level]} risk ({level} of 4); "
        f"{price_text(spec.offer.market, spec.offer.price)}; predictor {sources.model_id[:8]}."
    )
    return [
        *textwrap.wrap(basis, WIDTH),
        "",
        *spec_lines(spec, f"{place_name(spec.offer, request)}, {spec.offer.market}"),
        *folded("for", [_asked_text(request, candidate)]),
        f"  has         {machine_text(spec.offer.instance)}",
        *folded("runs", [_run_text(candidate)]),
        f"  throughput  {rate_text(rate, 'tokens/s', confidence)}",
        *folded("GPU memory", [_memory_text(candidate.memory)]),
        *folded("run", [_hours_text(candidate, confidence)]),
    ]


def _asked_text(request: FineTuningRequest, candidate: FineTuningCandidate) -> str:
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


def _run_text(candidate: FineTuningCandidate) -> str:
    gpus = f"{candidate.gpus_used} GPU{'' if candidate.gpus_used == 1 else 's'}"
    shared = ", the model sharded" if candidate.sharded else ", each with the whole model"
    shared = "" if candidate.link is Link.NONE else f"{shared}, over {candidate.link}"
    kept = "recomputed (checkpointing)" if candidate.checkpointing else "kept"
    plural = "" if candidate.micro_batch == 1 else "s"
    return f"{gpus}{shared}, {candidate.micro_batch} sequence{plural} a GPU at once, activations {kept}"


def _memory_text(memory: TuningMemoryUse) -> str:
    parts = {
        "weights": memory.weights_gib,
        "gradients": memory.gradients_gib,
        "optimizer": memory.optimizer_gib,
        "activations": memory.activations_gib,
        "overhead": memory.overhead_gib,
        "free": memory.free_gib,
    }
    return "each: " + ", ".join(f"{gib_text(gib)} GiB {name}" for name, gib in parts.items())


def _hours_text(candidate: FineTuningCandidate, confidence: float) -> str:
    upper = upper_name(confidence)
    hours, usd = candidate.hours, candidate.usd_per_run
    most_hours = format_hours(hours.upper, up=True) if isfinite(hours.upper) else "unknown"
    costs = run_costs_text(usd, candidate.spec.prices, confidence)
    return f"median {format_hours(hours.median)}, {upper} {most_hours}; costs {costs}"


def _alternatives(ranked: Sequence[FineTuningCandidate], answer: FineTuningRecommendation) -> list[str]:
    """All but the first, which stands above."""
    shown = ranked[1:]
    if not shown:
        return []
    title = alternatives_title(len(shown), len(answer.ranked), answer.request.max_results)
    columns = {
        title: [f"  {one.spec.name}" for one in shown],
        "gpu": [gpus_text(one.spec.offer.instance) for one in shown],
        "per hour": [format_usd(one.spec.total_usd_per_hour) for one in shown],
        f"{lower_name(answer.request.confidence)} tokens/s": [
            lower_text(one.tokens_per_second.lower) for one in shown
        ],
        "takes": [format_hours(one.hours.median) for one in shown],
        "costs": [format_usd(one.usd_per_run.median) for one in shown],
        **place_column(ranked, answer.request, answer.today),
    }
    return ["", *fitting_table(columns, (title, "gpu", "region"), ("gpu",))]
