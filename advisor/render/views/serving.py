"""Answers about serving a language model: a recommendation and what one instance does, as one screen
of plain text of at most 100 columns, and as documents."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from advisor.domain import CloseCallKind
from advisor.domain.language import (
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    ServingPrediction,
    ServingStep,
)
from advisor.naming import spec_name
from advisor.questions.documents import question_document
from advisor.questions.language import ServingQuestion
from advisor.render.borderline import other_calls, trial_of
from advisor.render.document import Sources
from advisor.render.language_document import front_block, generation_block, step_block
from advisor.render.phrases import (
    BINDS,
    count_text,
    engine_text,
    gpus_text,
    seconds_text,
    short_placement_text,
    trial_command,
)
from advisor.render.price_doubt import price_lines, resting_lines
from advisor.render.sentences import risk_text
from advisor.render.text import (
    SHOWN_ALTERNATIVES,
    WIDTH,
    alternative_lines,
    borderline_lines,
    counted,
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
    table,
)
from advisor.render.views.specs import serving_facts
from advisor.units import format_target, format_usd

SCHEMA = "advisor.serving-prediction/1"
SHOWN_REJECTED = 2
SHOWN_STEPS = 2
NOTHING_PERCENT = 0.5
_MISSES = {"": "", "limit": ", over a limit", "target": ", below the target"}


_THEN = ", then ask again with --anchor"


def generation_text(
    answer: GenerationRecommendation,
    sources: Sources,
    *,
    all_rejected: bool = False,
    specs: int | None = None,
) -> str:
    """The answer for a terminal; `all_rejected` lists every rejected type, `specs` so many
    specs."""
    chosen, request = answer.chosen, answer.request
    lines = ["No offer meets this."]
    if chosen is not None:
        lines = [
            *resting_lines(answer),
            *_chosen_lines(chosen, request, sources),
            *_decision_lines(answer),
            *price_lines(answer),
            *_step_lines(answer.steps, chosen),
        ]
    lines += _borderline_lines(answer)
    lines += relaxation_lines(answer)
    lines += _front_lines(answer.front, chosen, request.confidence)
    lower = f"{lower_name(request.confidence)} tokens/s"

    def columns(shown: Sequence[GenerationCandidate], places: list[str]) -> dict[str, list[str]]:
        return {
            "gpu": [gpus_text(spec.spec.offer.instance) for spec in shown],
            "runs as": [short_placement_text(spec.placement) for spec in shown],
            "per hour": [format_usd(spec.spec.total_usd_per_hour) for spec in shown],
            lower: [lower_text(spec.rates.output_tokens_per_second.lower) for spec in shown],
            "TPOT": [seconds_text(spec.rates.tpot_seconds.median) for spec in shown],
            "per 1M out": [format_usd(spec.usd_per_million_output_tokens.median) for spec in shown],
            "region": places,
        }

    most = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    lines += alternative_lines(answer, most, columns, ("runs as", "gpu"), ("gpu", "runs as"))
    lines += rejection_lines(answer, SHOWN_REJECTED, everyone=all_rejected)
    return "\n".join(lines + notes_of(answer.assumptions, answer.warnings))


def serving_prediction_text(prediction: ServingPrediction, request: ServingQuestion, sources: Sources) -> str:
    """The prediction of one instance, for a terminal."""
    candidate = prediction.candidate
    lines = [
        *_chosen_lines(candidate, request, sources),
        *_step_lines(prediction.steps, candidate),
        *_front_lines(prediction.front, candidate, request.confidence),
        *notes_of(prediction.assumptions, prediction.warnings),
    ]
    return "\n".join(lines)


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


def _chosen_lines(candidate: GenerationCandidate, request: ServingQuestion, sources: Sources) -> list[str]:
    spec = candidate.spec
    known = "Modelled, not measured"
    if sources.anchors:
        known = f"Modelled, corrected by {counted(sources.anchors, 'measurement')} of your own"
    basis = (
        f"{known}; {risk_text(candidate)}; rates of {engine_text(candidate)} with CUDA graphs; "
        f"{price_text(spec.offer.market, spec.offer.price)}; predictor {sources.model_id[:8]}."
    )
    return [
        *textwrap.wrap(basis, WIDTH),
        *spec_lines(spec, request),
        *folded("for", [asked_text(request, candidate, longest=True)]),
        *fact_lines(serving_facts(generation_block(candidate, request.confidence, sources))),
        *folded("bound by", [BINDS[candidate.binds]]),
    ]


def asked_text(request: ServingQuestion, candidate: GenerationCandidate, *, longest: bool = False) -> str:
    """'Qwen/Qwen3-8B generation, 1,155 tokens in, 211 out, 40 users'."""
    lengths = f"{request.input_tokens:,.0f} tokens in, {request.output_tokens:,.0f} out"
    most = f" (up to {request.longest_tokens:,} together)" if longest else ""
    parts = [f"{candidate.model} generation, {lengths}{most}"]
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


def _step_lines(steps: Sequence[ServingStep], before: GenerationCandidate) -> list[str]:
    given = [(step.option, step.gives) for step in steps if step.gives and step.option]
    given.sort(key=lambda step: step[1].usd_per_million_output_tokens.median)
    return folded("could try", [_step_text(option, gives, before) for option, gives in given[:SHOWN_STEPS]])


def _step_text(option: str, gives: GenerationCandidate, before: GenerationCandidate) -> str:
    then, now = (spec.most.output_tokens_per_second.median / spec.spec.count for spec in (gives, before))
    percent = 100 * (then / now - 1)
    most = f"{percent:+.0f} %" if abs(percent) >= NOTHING_PERCENT else "as before"
    count = ""
    if gives.spec.count != before.spec.count:
        count = f"{gives.spec.name} at {format_usd(gives.spec.total_usd_per_hour)}/h, each with a "
    return (
        f"{option}: {count}highest rate {most}, TPOT {seconds_text(gives.rates.tpot_seconds.median)}, "
        f"{format_usd(gives.usd_per_million_output_tokens.median)} per million, ready in "
        f"{seconds_text(gives.ready.seconds)}"
    )


def _front_lines(
    front: Sequence[FrontPoint], chosen: GenerationCandidate | None, confidence: float
) -> list[str]:
    """Latency against throughput: the fastest answers, what is recommended, the highest rate."""
    if len(front) < 2 or chosen is None:
        return []
    mine = {number for number, point in enumerate(front) if point.rates is chosen.rates}
    shown = [front[number] for number in sorted({0, *mine, len(front) - 1})]
    title = f"Latency against throughput ({len(shown)} of {len(front)})"
    header = [title, "in flight", "TTFT", "TPOT", f"{lower_name(confidence)} tokens/s", "per 1M out"]
    rows = [
        [
            f"  {short_placement_text(point.placement)}"
            + (", this answer" if point.rates is chosen.rates else _MISSES[point.misses]),
            count_text(point.rates.concurrency),
            seconds_text(point.rates.ttft_seconds.median),
            seconds_text(point.rates.tpot_seconds.median),
            lower_text(point.rates.output_tokens_per_second.lower),
            format_usd(point.usd_per_million_output_tokens.median),
        ]
        for point in shown
    ]
    return ["", *table(header, rows, right=(1, 2, 3, 4, 5))]


def _borderline_lines(answer: GenerationRecommendation) -> list[str]:
    """The borderline candidate that matters most, and the command of its trial."""
    calls = other_calls(answer)
    if not calls:
        return []
    call = calls[0]
    spec, chance = call.candidate.spec, 100 * call.probability
    name = f"{spec_name(spec, answer.request)} at {format_usd(spec.total_usd_per_hour)}/h"
    text = f"{name} may keep this too ({chance:.0f} %)"
    if call.kind is CloseCallKind.CHOSEN_MAY_MISS:
        text = f"it may miss this ({100 - chance:.0f} %)"
    return borderline_lines(text, call, _THEN, trial_command(call.candidate))


def _decision_lines(answer: GenerationRecommendation) -> list[str]:
    call = trial_of(answer)
    return decision_lines(answer, _THEN, trial_command(call.candidate) if call else "")
