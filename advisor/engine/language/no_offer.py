"""The message where nothing meets a request about serving."""

from __future__ import annotations

from advisor.domain.language import GenerationCandidate, GenerationRecommendation, GenerationRequest
from advisor.engine.no_offer import unmet
from advisor.messages import Message
from advisor.naming import spec_name
from advisor.units import ceil_ms, floor_rate


def no_serving_offer(answer: GenerationRecommendation) -> Message:
    """One line for exit code 3."""
    return unmet(answer, _described(answer.nearest, answer.request) if answer.nearest else None)


def _described(candidate: GenerationCandidate, request: GenerationRequest) -> Message:
    spec, rates = candidate.spec, candidate.rates
    return Message(
        "{name} with {lower:,g} output tokens/s or more (median {median:rate}), up to {ttft:,g} ms "
        "to the first token and {tpot:,g} ms for each further one, at {usd:usd}/h",
        name=spec_name(spec, request),
        lower=floor_rate(rates.output_tokens_per_second.lower),
        median=rates.output_tokens_per_second.median,
        ttft=ceil_ms(rates.ttft_seconds.upper),
        tpot=ceil_ms(rates.tpot_seconds.upper),
        usd=spec.total_usd_per_hour,
    )
