"""Answers about serving a language model -> one screen of plain text, at most 100 columns."""

from __future__ import annotations

import textwrap
from math import isfinite

from advisor.domain import InstanceType
from advisor.domain.language import (
    GenerationCandidate,
    GenerationRecommendation,
    GenerationRequest,
    GpuMemoryUse,
    ServingPrediction,
)
from advisor.naming import place_name
from advisor.render.blocks import RISKS
from advisor.render.document import Sources
from advisor.render.language.lists import (
    SHOWN_ALTERNATIVES,
    alternative_lines,
    borderline_lines,
    front_lines,
    rejection_lines,
    relaxation_lines,
    step_lines,
)
from advisor.render.language.phrases import (
    BINDS,
    count_text,
    engine_text,
    gib_text,
    placement_text,
    rate_text,
    risk_level,
    seconds_text,
    time_text,
    tokens_text,
)
from advisor.render.price_calls import price_lines, resting_lines
from advisor.render.text import (
    WIDTH,
    cores_text,
    counted,
    folded,
    lower_name,
    lower_text,
    price_text,
    short_disk_text,
    spec_lines,
    upper_name,
    wrapped,
)
from advisor.units import format_mib, format_rate, format_target, format_usd


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
            *basis_lines(chosen, sources),
            *head_lines(chosen, request),
            *serving_lines(chosen, request),
            *price_lines(answer),
            *step_lines(answer.steps, chosen),
        ]
    lines += borderline_lines(answer)
    lines += relaxation_lines(answer)
    lines += front_lines(answer.front, chosen, request.confidence)
    shown = SHOWN_ALTERNATIVES if specs is None else max(0, specs - 1)
    lines += alternative_lines(answer.ranked, 1 + shown, request, answer.today)
    lines += rejection_lines(answer, everyone=all_rejected)
    lines += wrapped("Assumed", answer.assumptions, 3) + wrapped("Warning", answer.warnings, 3)
    return "\n".join(lines)


def prediction_text(prediction: ServingPrediction, request: GenerationRequest, sources: Sources) -> str:
    """What one instance does, for a terminal."""
    candidate = prediction.candidate
    lines = [
        *basis_lines(candidate, sources),
        *head_lines(candidate, request),
        *serving_lines(candidate, request),
        *step_lines(prediction.steps, candidate),
        *front_lines(prediction.front, candidate, request.confidence),
        *wrapped("Assumed", prediction.assumptions, 3),
        *wrapped("Warning", prediction.warnings, 3),
    ]
    return "\n".join(lines)


def basis_lines(candidate: GenerationCandidate, sources: Sources) -> list[str]:
    """What the rates stand on: 'Modelled, not measured; medium risk (2 of 4); vLLM 0.19 ..'."""
    level, offer = risk_level(candidate), candidate.spec.offer
    parts = [
        f"{basis_text(sources)}; {RISKS[level]} risk ({level} of 4)",
        f"rates of {engine_text(candidate)} with CUDA graphs",
        price_text(offer.market, offer.price),
        f"predictor {sources.model_id[:8]}.",
    ]
    return textwrap.wrap("; ".join(parts), WIDTH)


def basis_text(sources: Sources) -> str:
    """What the rates follow from; a user's own measurements count most where they were taken."""
    if not sources.anchors:
        return "Modelled, not measured"
    return f"Modelled, corrected by {counted(sources.anchors, 'measurement')} of your own"


def head_lines(candidate: GenerationCandidate, request: GenerationRequest) -> list[str]:
    """The spec and its price."""
    spec = candidate.spec
    return ["", *spec_lines(spec, f"{place_name(spec.offer, request)}, {spec.offer.market}")]


def serving_lines(candidate: GenerationCandidate, request: GenerationRequest) -> list[str]:
    """What is asked, and what the spec does."""
    rates, confidence = candidate.rates, request.confidence
    return [
        *folded("for", [_asked_text(request, candidate)]),
        f"  has         {machine_text(candidate.spec.offer.instance)}",
        *folded("runs", [_run_text(candidate)]),
        f"  throughput  {rate_text(rates.output_tokens_per_second, 'output tokens/s', confidence)}",
        *folded("requests", [_requests_text(candidate, confidence)]),
        *folded("a user", [_user_text(candidate, confidence)]),
        *folded("latency", [_latency_text(candidate)]),
        *folded("GPU memory", [memory_text(candidate.memory)]),
        *folded("cost", [_cost_text(candidate, confidence)]),
        *folded("ready", [_ready_text(candidate)]),
        *folded("bound by", [BINDS[candidate.binds]]),
    ]


def _asked_text(request: GenerationRequest, candidate: GenerationCandidate) -> str:
    lengths = f"{tokens_text(request.input_tokens)} tokens in, {tokens_text(request.output_tokens)}"
    longest = f"up to {request.longest_tokens:,} together"
    parts = [f"{candidate.model} generation, {lengths} out ({longest})"]
    if request.target_output_tokens_per_second is not None:
        target = format_target(request.target_output_tokens_per_second)
        parts.append(f"at least {target} output tokens/s")
    if request.target_requests_per_second is not None:
        parts.append(f"{format_target(request.target_requests_per_second)} requests/s (Poisson)")
    if request.users is not None:
        parts.append(f"{request.users:,} users")
    limits = {"TTFT": request.max_ttft_ms, "TPOT": request.max_tpot_ms}
    parts += [f"{name} <= {ms:g} ms" for name, ms in limits.items() if ms is not None]
    if request.max_e2e_seconds is not None:
        parts.append(f"a whole request <= {request.max_e2e_seconds:g} s")
    if request.max_ready_seconds is not None:
        parts.append(f"ready <= {request.max_ready_seconds:g} s")
    return ", ".join(parts)


def machine_text(instance: InstanceType) -> str:
    """'1 x L40S 45 GiB, 4 vCPUs (2 cores), 32 GiB RAM'."""
    gpu = ""
    if instance.gpu_name:
        memory = format_mib(instance.gpu_memory_mib) if instance.gpu_memory_mib else "? memory"
        gpu = f"{instance.gpu_count} x {instance.gpu_name} {memory}, "
    return f"{gpu}{cores_text(instance, decodes=False)}, {format_mib(instance.memory_mib)} RAM"


def _run_text(candidate: GenerationCandidate) -> str:
    formats = f"weights {candidate.precision}, KV cache {candidate.kv_precision}"
    where = placement_text(candidate.placement)
    if candidate.spec.count > 1:
        where += " of each instance"
    return f"{engine_text(candidate)}, {formats}, {where}"


def _requests_text(candidate: GenerationCandidate, confidence: float) -> str:
    """Requests a second, how many are in flight, and the most that the limits allow."""
    rates, most = candidate.rates, candidate.most
    requests = rates.requests_per_second
    text = (
        f"{lower_name(confidence)} {lower_text(requests.lower)}, median "
        f"{format_rate(requests.median)} a second with {count_text(rates.concurrency)} in flight"
    )
    if most.concurrency > rates.concurrency:
        text += (
            f"; at most {lower_name(confidence)} {lower_text(most.requests_per_second.lower)} "
            f"with {count_text(most.concurrency)}"
        )
    return text


def _user_text(candidate: GenerationCandidate, confidence: float) -> str:
    each = candidate.rates.output_tokens_per_second_per_user
    whole = time_text(candidate.rates.e2e_seconds)
    if candidate.output_tokens <= 1:  # no second token has a time
        return f"a whole request {whole}"
    return (
        f"{lower_name(confidence)} {lower_text(each.lower)}, median {format_rate(each.median)} "
        f"tokens/s; a whole request {whole}"
    )


def _latency_text(candidate: GenerationCandidate) -> str:
    ttft = time_text(candidate.rates.ttft_seconds)
    if candidate.output_tokens <= 1:
        return f"TTFT {ttft}"
    return f"TTFT {ttft}; TPOT (after the first token) {time_text(candidate.rates.tpot_seconds)}"


def memory_text(memory: GpuMemoryUse) -> str:
    """'14.9 GiB weights + 22.1 GiB KV cache + ..; longest context ..' of each GPU."""
    return (
        f"each: {gib_text(memory.weights_gib)} GiB weights, {gib_text(memory.kv_gib)} GiB KV "
        f"cache, {gib_text(memory.overhead_gib)} GiB engine, {gib_text(memory.free_gib)} GiB free; "
        f"a replica holds {memory.largest_concurrency:,} such requests, or one of "
        f"{memory.longest_context:,} tokens"
    )


def _cost_text(candidate: GenerationCandidate, confidence: float) -> str:
    output = candidate.usd_per_million_output_tokens
    most = format_usd(output.upper) if isfinite(output.upper) else "unknown"
    into = format_usd(candidate.usd_per_million_input_tokens.median)
    both = format_usd(candidate.usd_per_million_tokens.median)
    return (
        f"{format_usd(output.median)} ({upper_name(confidence)} {most}) per million output tokens; "
        f"by input alone {into}, by both {both}"
    )


def _ready_text(candidate: GenerationCandidate) -> str:
    ready = candidate.ready
    return (
        f"{seconds_text(ready.seconds)} (up to {seconds_text(ready.upper_seconds)}) from the "
        "engine's start: "
        f"{seconds_text(ready.load_seconds)} to read the weights from "
        f"{short_disk_text(candidate.spec.disk)}, {seconds_text(ready.start_seconds)} its own"
    )
