"""The line that an answer without a spec ends with: the nearest spec, and what to relax."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from advisor.domain import Candidate, Recommendation, Relaxation
from advisor.domain.decision import Judged
from advisor.engine.rejected import stage_name
from advisor.engine.task import C, R
from advisor.messages import Message, floor_rate
from advisor.naming import counted_reasons, spec_name
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion

# Relaxations that the line has room for.
_MOST_WAYS = 5
_OR, _WITH = Message("{first} or {rest}"), Message("{first} with {rest}")
_REASONS = Message("--explain-rejected says why")


def no_offer(answer: Recommendation) -> Message:
    """The line for exit code 3, where no spec answers about a network."""
    return unmet(answer, _described, hint=_hint(answer))


def unmet(answer: Judged[R, C], described: Callable[[R, C], Message], *, hint: Message = _REASONS) -> Message:
    """The line for exit code 3: the nearest spec, as `described` puts it, and what to relax; `hint` is for
    answers where nothing even runs."""
    where = _place_text(answer.request)
    ways = [*map(_relaxation_text, answer.relaxations[:_MOST_WAYS])]
    relaxed = Message("relax {ways}", ways=_chained(ways, _OR)) if ways else None
    if answer.nearest is None:
        return Message("{none}; {hint}", none=_nothing_runs_text(answer, where), hint=relaxed or hint)
    nearest = described(answer.request, answer.nearest)
    if not ways:
        return Message("no offer of {where} meets this: nearest is {nearest}", where=where, nearest=nearest)
    return Message(
        "no offer of {where} meets this: nearest is {nearest}; relax {ways}",
        where=where,
        nearest=nearest,
        ways=_chained(ways, _OR),
    )


def _place_text(request: SpecQuestion) -> Message:
    """The place and market of the request as text."""
    return Message(
        "{cloud} {region} ({market})",
        cloud="any cloud" if request.cloud == "any" else request.cloud,
        region=request.region or Message("in all regions"),
        market=request.market or Message("any market"),
    )


def _nothing_runs_text(answer: Judged[Any, Any], where: Message) -> Message:
    """Why no type runs the work at all."""
    reasons = answer.rejected_by_reason
    if not reasons and answer.request.gpus:
        return Message("no type of {where} has {gpus}", where=where, gpus=" or ".join(answer.request.gpus))
    if not reasons:
        return Message("no type of {where} matches the question", where=where)
    if len(answer.rejected) == 1:
        return Message(
            "the only type of {where} does not do this: {reasons}",
            where=where,
            reasons=counted_reasons(reasons),
        )
    return Message(
        "none of the {count} types of {where} does this: {reasons}",
        count=len(answer.rejected),
        where=where,
        reasons=counted_reasons(reasons),
    )


def _hint(answer: Recommendation) -> Message:
    """What a user can do where no relaxation is known."""
    request = answer.request
    if "no_disk" in answer.rejected_by_reason and not (request.disk or request.disk_types):
        return Message(
            "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
        )
    if request.cloud == "any":
        return _REASONS
    return Message("--explain-rejected says why; --cloud any looks elsewhere")


def _relaxation_text(relaxation: Relaxation) -> Message:
    """A relaxation as text: '--max-price to 1.014', with several changes joined by 'with'."""
    parts = [
        Message("{option} to {after}", option=change.option, after=shlex.quote(change.after))
        if change.after
        else Message("no {option}", option=change.option)
        for change in relaxation.changes
    ]
    return _chained(parts, _WITH)


def _described(request: NetworkQuestion, candidate: Candidate) -> Message:
    prediction, spec = candidate.prediction, candidate.spec
    return Message(
        "{name} with p{p:.3g} {lower:,g}/s (median {median:rate}) at {usd:usd}/h, bound by {stage}",
        name=spec_name(spec, request),
        p=100 * (1 - prediction.confidence),
        lower=floor_rate(prediction.lower),
        median=prediction.median,
        usd=spec.total_usd_per_hour,
        stage=stage_name(prediction.bottleneck, spec.offer.instance, candidate.workload),
    )


def _chained(parts: Sequence[Message], joint: Message) -> Message:
    """The messages in one, joined in pairs by `joint`."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = Message(joint.text, first=part, rest=joined)
    return joined
