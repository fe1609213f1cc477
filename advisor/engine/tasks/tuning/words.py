"""Texts of answers about tuning: shortfalls, assumptions, weaknesses."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.domain.language import FineTuningCandidate
from advisor.domain.words import LlmMethod
from advisor.engine.assumed_facts import assumed_facts
from advisor.engine.assumptions import miss_assumptions
from advisor.engine.rejected import plain_shortfall, run_shortfall
from advisor.engine.tasks.tuning.table import TuningTable
from advisor.messages import Message
from advisor.models.language.finetuning.tuning import ADAPTER_RANK, STEP_SEQUENCES
from advisor.naming import spec_name
from advisor.questions.language import TuningQuestion
from advisor.units import floor_rate


def shortfall(request: TuningQuestion, table: TuningTable, row: int, reason: str) -> Message:
    """The limit that a row misses, with the number that decided."""
    if reason == "too_slow":
        lower, median, _ = table.rates[:, row].tolist()
        if not request.is_sure:
            return Message(
                "its median is {median:,g} tokens/s, below {target:target}",
                code=reason,
                median=floor_rate(median),
                target=request.target_tokens_per_second,
            )
        return Message(
            "p{p:.3g} is {lower:,g} tokens/s, below {target:target}",
            code=reason,
            p=100 * (1 - request.confidence),
            lower=floor_rate(lower),
            target=request.target_tokens_per_second,
        )
    if reason == "too_long":
        upper, median, _ = table.hours(request)[:, row].tolist()
        return run_shortfall(request, reason, request.max_hours, upper, median)
    if reason == "over_max_cost":
        upper, median, _ = table.run_usd(request)[:, row].tolist()
        return run_shortfall(request, reason, request.max_run_usd, upper, median)
    return plain_shortfall(reason, request.max_usd_per_hour, float(table.usd[row]))


def described(request: TuningQuestion, candidate: FineTuningCandidate) -> Message:
    """A candidate in a clause, as the line says it that tells that nothing answers."""
    return Message(
        "{name} with {lower:,g} tokens/s or more (median {median:rate}), done in up to "
        "{hours:hours}, at {usd:usd}/h",
        name=spec_name(candidate.spec, request),
        lower=floor_rate(candidate.tokens_per_second.lower),
        median=candidate.tokens_per_second.median,
        hours=candidate.hours.upper,
        usd=candidate.spec.total_usd_per_hour,
    )


def tuning_assumptions(request: TuningQuestion, chosen: FineTuningCandidate | None) -> Iterator[Message]:
    """Everything the answer takes for granted, one short clause each."""
    if chosen is not None:
        yield from assumed_facts(request, chosen.spec.offer.instance, chosen.spec.disk)
    yield Message("PyTorch with FSDP or data parallel, compiled, fused attention, in 16 bits")
    if request.method == LlmMethod.FULL:
        yield Message("AdamW with 32-bit weights, gradients and moments")
    else:
        yield Message("adapters of rank {rank} on every matrix, AdamW in 32 bits", rank=ADAPTER_RANK)
    yield Message(
        "sequences packed to {sequence:,} tokens, {count} or more in an optimizer step",
        sequence=request.sequence,
        count=STEP_SEQUENCES,
    )
    if request.micro_batch is None and chosen is not None:
        yield Message("micro-batch and checkpointing as fit and are fastest")
    yield Message(
        "a start of {minutes:g} min is counted, evaluation and checkpoints are not",
        minutes=60 * request.start_hours,
    )
    if request.target_tokens_per_second is None:
        yield Message("ranked by cost of the run at the median rate")
    else:
        yield from miss_assumptions(request)
