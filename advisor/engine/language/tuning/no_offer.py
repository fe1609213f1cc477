"""What is told where nothing tunes as it is asked."""

from __future__ import annotations

from advisor.domain.tuning import FineTuningCandidate, FineTuningRecommendation, FineTuningRequest
from advisor.engine.no_offer import unmet
from advisor.messages import Message
from advisor.naming import spec_name
from advisor.units import floor_rate


def no_tuning_offer(answer: FineTuningRecommendation) -> Message:
    """One line for exit code 3."""
    return unmet(answer, _described(answer.nearest, answer.request) if answer.nearest else None)


def _described(candidate: FineTuningCandidate, request: FineTuningRequest) -> Message:
    return Message(
        "{name} with {lower:,g} tokens/s or more (median {median:rate}), done in up to "
        "{hours:hours}, at {usd:usd}/h",
        name=spec_name(candidate.spec, request),
        lower=floor_rate(candidate.tokens_per_second.lower),
        median=candidate.tokens_per_second.median,
        hours=candidate.hours.upper,
        usd=candidate.spec.total_usd_per_hour,
    )
