"""The message where nothing meets a request about serving."""

from __future__ import annotations

from advisor.domain.language import GenerationCandidate, GenerationRecommendation
from advisor.engine.no_offer import any_of, none_of, ways_out, where_of
from advisor.messages import Message
from advisor.units import ceil_ms, floor_rate


def no_serving_offer(answer: GenerationRecommendation) -> Message:
    """One line for exit code 3."""
    where, ways = where_of(answer.request), ways_out(answer.relaxations)
    if answer.nearest is None:
        return Message(
            "{none}; {hint}",
            none=none_of(answer, where),
            hint=Message("relax {ways}", ways=any_of(ways))
            if ways
            else Message("--explain-rejected says why"),
        )
    described = _described(answer.nearest)
    if not ways:
        return Message(
            "no offer of {where} meets this: nearest is {nearest}", where=where, nearest=described
        )
    return Message(
        "no offer of {where} meets this: nearest is {nearest}; relax {ways}",
        where=where, nearest=described, ways=any_of(ways),
    )  # fmt: skip


def _described(candidate: GenerationCandidate) -> Message:
    spec, rates = candidate.spec, candidate.rates
    return Message(
        "{name} with {lower:,g} output tokens/s or more (median {median:rate}), up to {ttft:,g} ms "
        "to the first token and {tpot:,g} ms for each further one, at {usd:usd}/h",
        name=spec.name, lower=floor_rate(rates.output_tokens_per_second.lower),
        median=rates.output_tokens_per_second.median, ttft=ceil_ms(rates.ttft_seconds.upper),
        tpot=ceil_ms(rates.tpot_seconds.upper), usd=spec.total_usd_per_hour,
    )  # fmt: skip
