"""The line that an answer without a spec ends with: the nearest spec, and what to relax."""

from __future__ import annotations

import shlex
from typing import Any

from advisor.domain import Relaxation
from advisor.domain.decision import Judged
from advisor.engine.candidates import DISKS_OF_YOUR_OWN
from advisor.engine.task import C, R
from advisor.messages import Message
from advisor.naming import counted_reasons, spec_name
from advisor.questions.spec import SpecQuestion

# Relaxations that the line has room for.
_MOST_WAYS = 5
_REASONS = Message("--explain-rejected says why")


def no_offer(answer: Judged[R, C]) -> Message:
    """The line for exit code 3: the nearest spec with what it misses, and what to relax; what else to look at
    where nothing even runs."""
    where, nearest = _place_text(answer.request), answer.nearest
    ways = [*map(_relaxation_text, answer.relaxations[:_MOST_WAYS])]
    relaxed = (
        Message("relax {ways}" if len(ways) == 1 else "relax one of {ways}", ways=ways) if ways else None
    )
    if nearest is None:
        none, hint = _nothing_runs_text(answer, where), relaxed or _hint(answer)
        return Message("{none}; {hint}", none=none, hint=hint)
    spec = Message(
        "{name} at {usd:usd}/h",
        name=spec_name(nearest.spec, answer.request),
        usd=nearest.spec.total_usd_per_hour,
    )
    if answer.nearest_misses:
        spec = Message("{spec} ({misses})", spec=spec, misses=list(answer.nearest_misses))
    none = Message("no offer of {where} meets this: nearest is {nearest}", where=where, nearest=spec)
    return Message("{none}; {hint}", none=none, hint=relaxed) if relaxed else none


def _place_text(request: SpecQuestion) -> Message:
    """The place and market of the request as text."""
    return Message(
        "{cloud} {region} ({market})",
        cloud="any cloud" if request.cloud == "any" else request.cloud,
        region=request.region or Message("in all regions"),
        market=request.market or Message("any market"),
    )


def _nothing_runs_text(answer: Judged[Any, Any], where: Message) -> Message:
    """The reason why no type runs the work at all."""
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


def _hint(answer: Judged[Any, Any]) -> Message:
    """What a user can do where no relaxation is known."""
    request = answer.request
    if "no_disk" in answer.rejected_by_reason and not (request.disk or request.disk_types):
        return DISKS_OF_YOUR_OWN
    if request.cloud == "any":
        return _REASONS
    return Message("--explain-rejected says why; --cloud any looks elsewhere")


def _relaxation_text(relaxation: Relaxation) -> Message:
    """A relaxation as text: '--max-price to 1.014', with a second change joined by 'with'."""
    first, *others = [
        Message("{option} to {after}", option=change.option, after=shlex.quote(change.after))
        if change.after
        else Message("no {option}", option=change.option)
        for change in relaxation.changes
    ]
    return Message("{first} with {rest}", first=first, rest=others) if others else first
