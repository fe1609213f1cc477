"""What is told where nothing tunes as it is asked."""

from __future__ import annotations

from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation
from advisor.engine.no_offer import any_of, none_of, ways_out, where_of
from advisor.messages import Message
from advisor.units import floor_rate


def no_tuning_offer(answer: FineTuningRecommendation) -> Message:
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


def _described(candidate: FineTuningCandidate) -> Message:
    return Message(
        "{name} with {lower:,g} tokens/s or more (median {median:rate}), done in up to "
        "{hours:hours}, at {usd:usd}/h",
        name=candidate.spec.name, lower=floor_rate(candidate.tokens_per_second.lower),
        median=candidate.tokens_per_second.median, hours=candidate.hours.upper,
        usd=candidate.spec.total_usd_per_hour,
    )  # fmt: skip
