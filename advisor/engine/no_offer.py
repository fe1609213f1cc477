"""The answer where no spec meets the question: the nearest spec, and the relaxations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from advisor.domain import Candidate, Recommendation, Relaxation
from advisor.domain.decision import Judged
from advisor.engine.limits import count_that_would_do, missed_limits
from advisor.engine.rejected import stage_name
from advisor.engine.task import C, R
from advisor.messages import Message
from advisor.naming import counted_reasons, spec_name
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion
from advisor.units import ceil_significant, floor_rate

# The line that ends a command has room for so many ways out.
_MOST_WAYS = 5
_OR, _WITH = Message("{first} or {rest}"), Message("{first} with {rest}")
_REASONS = Message("--explain-rejected says why")


def no_offer(answer: Recommendation) -> Message:
    """One line for exit code 3, about a network."""
    request, nearest, is_relaxed = answer.request, answer.nearest, bool(answer.relaxations)
    if nearest is None:
        return unmet(answer, _described, hint=_hint(answer))
    ways = [] if is_relaxed else _of_nearest(request, nearest)
    named = any(each.option == "--max-count" for way in answer.relaxations for each in way.changes)
    count = None if named or _missed(request, nearest) else count_that_would_do(request, nearest)
    if count is not None:
        ways.append(Message("--max-count to {count}", count=count))
    if answer.beyond_price is not None and not is_relaxed:
        spec = answer.beyond_price.spec
        usd = math.ceil(1000 * spec.total_usd_per_hour) / 1000
        ways.append(Message("--max-price to {usd:g} ({name})", usd=usd, name=spec_name(spec, request)))
    return unmet(answer, _described, further=ways)


def unmet(
    answer: Judged[R, C],
    described: Callable[[R, C], Message],
    *,
    hint: Message = _REASONS,
    further: Sequence[Message] = (),
) -> Message:
    """One line for exit code 3: what comes nearest, `described`, and what to relax, first what makes
    something answer, then what is known `further`. `hint` helps where nothing even runs."""
    where = _where_of(answer.request)
    ways = [*map(_relaxed, answer.relaxations[:_MOST_WAYS]), *further]
    relaxed = Message("relax {ways}", ways=_chained(ways, _OR)) if ways else None
    if answer.nearest is None:
        return Message("{none}; {hint}", none=_none_of(answer, where), hint=relaxed or hint)
    nearest = described(answer.request, answer.nearest)
    if not ways:
        return Message("no offer of {where} meets this: nearest is {nearest}", where=where, nearest=nearest)
    return Message(
        "no offer of {where} meets this: nearest is {nearest}; relax {ways}",
        where=where,
        nearest=nearest,
        ways=_chained(ways, _OR),
    )


def _where_of(request: SpecQuestion) -> Message:
    """The place and the market that were asked for."""
    return Message(
        "{cloud} {region} ({market})",
        cloud="any cloud" if request.cloud == "any" else request.cloud,
        region=request.region or Message("in all regions"),
        market=request.market or Message("any market"),
    )


def _none_of(answer: Judged[Any, Any], where: Message) -> Message:
    """Where nothing even runs, why."""
    reasons = answer.rejected_by_reason
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
    """What to do where no way out is known."""
    request = answer.request
    if "no_disk" in answer.rejected_by_reason and not (request.disk or request.disk_types):
        return Message(
            "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
        )
    if request.cloud == "any":
        return _REASONS
    return Message("--explain-rejected says why; --cloud any looks elsewhere")


def _relaxed(relaxation: Relaxation) -> Message:
    """'--max-price to 1.014', or several of them 'with' each other."""
    parts = [
        Message("{option} to {after}", option=change.option, after=change.after)
        if change.after
        else Message("no {option}", option=change.option)
        for change in relaxation.changes
    ]
    return _chained(parts, _WITH)


def _of_nearest(request: NetworkQuestion, nearest: Candidate) -> list[Message]:
    """What to relax so that `nearest` answers: everything that it misses, together."""
    limit = request.max_usd_per_hour
    if limit is not None and nearest.spec.total_usd_per_hour > limit:
        return []
    rates = nearest.prediction
    rate = rates.lower if request.is_sure else rates.median
    slow = request.target_throughput is not None and rate < request.target_throughput
    slower = Message("--target-throughput to {rate:g} or less", rate=floor_rate(rate))
    missed = _missed(request, nearest)
    if missed:
        return [_chained([*missed, slower] if slow else missed, _WITH)]
    if not slow:
        return []
    reachable = request.is_sure and rates.upper >= (request.target_throughput or 0)
    return [slower, Message("--confidence")] if reachable else [slower]


# What a missed limit would have to be, by its field, with the name of its value.
_OR_MORE = {
    "max_latency_ms": ("ms", Message("--max-latency-ms to {ms:g} or more")),
    "max_first_epoch_hours": ("hours", Message("--max-first-epoch-hours to {hours:g} or more")),
    "max_hours": ("hours", Message("--max-hours to {hours:g} or more")),
    "max_run_usd": ("usd", Message("--max-cost to {usd:g} or more")),
}


def _missed(request: NetworkQuestion, nearest: Candidate) -> list[Message]:
    """The limits that it misses beside its rate and its price."""
    needed = missed_limits(request, nearest)
    missed: list[Message] = []
    for field, (name, message) in _OR_MORE.items():
        if field in needed:
            least: dict[str, Any] = {name: ceil_significant(needed[field])}
            missed.append(Message(message.text, **least))
    return missed


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
    """Messages joined by a word, from the last one on."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = Message(joint.text, first=part, rest=joined)
    return joined
