"""What is told where nothing answers: what comes nearest, and what to relax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from advisor.domain import Candidate, Recommendation, Relaxation
from advisor.domain.decision import Judged
from advisor.engine.limits import count_that_would_do, least_first_rate_of
from advisor.engine.shortfalls import stage_name
from advisor.engine.task import A, C, R
from advisor.messages import Message
from advisor.naming import spec_name
from advisor.questions.network import NetworkQuestion as Request
from advisor.questions.spec import SpecQuestion as SpecRequest
from advisor.rejections import counted_reasons
from advisor.units import ceil_ms, ceil_significant, floor_rate

# The line that ends a command has room for so many ways out.
MOST_WAYS = 5


def no_offer(answer: Recommendation) -> Message:
    """One line for exit code 3."""
    request, nearest = answer.request, answer.nearest
    enough = ways_out(answer.relaxations)
    where = where_of(request)
    if nearest is None:
        return Message("{none}; {hint}", none=none_of(answer, where), hint=_hint(answer, enough))
    ways = enough or _of_nearest(request, nearest)
    named = any(each.option == "--max-count" for way in answer.relaxations for each in way.changes)
    missed = _missed(request, nearest)
    count = None if missed or named else count_that_would_do(request, nearest)
    if count is not None:
        ways.append(Message("--max-count to {count}", count=count))
    if answer.beyond_price is not None and not enough:
        spec = answer.beyond_price.spec
        ways.append(
            Message(
                "--max-price to {usd:g} ({name})",
                usd=math.ceil(1000 * spec.total_usd_per_hour) / 1000,
                name=spec_name(spec, request),
            )
        )
    return _unmet(where, _described(nearest, request), ways)


def where_of(request: SpecRequest) -> Message:
    """The place and the market that were asked for."""
    return Message(
        "{cloud} {region} ({market})",
        cloud="any cloud" if request.cloud == "any" else request.cloud,
        region=request.region or Message("in all regions"),
        market=request.market or Message("any market"),
    )


def none_of(answer: Judged[Any, Any], where: Message) -> Message:
    """Where nothing even runs, why."""
    reasons = answer.rejected_by_reason
    if not reasons:
        return Message("no type of {where} is like what is asked for", where=where)
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


def ways_out(relaxations: Sequence[Relaxation]) -> list[Message]:
    """The first of what would make something answer, as its options are typed."""
    return [_relaxed(relaxation) for relaxation in relaxations[:MOST_WAYS]]


def _hint(answer: Recommendation, enough: Sequence[Message]) -> Message:
    """What to do where nothing even runs."""
    request = answer.request
    if enough:
        return Message("relax {ways}", ways=any_of(enough))
    if "no_disk" in answer.rejected_by_reason and not (request.disk or request.disk_types):
        return Message(
            "`advisor catalog import` takes local disks of your own, and prices of a cloud's disks"
        )
    if request.cloud == "any":
        return Message("--explain-rejected says why")
    return Message("--explain-rejected says why; --cloud any looks elsewhere")


def _relaxed(relaxation: Relaxation) -> Message:
    """'--max-price to 1.014', or several of them 'with' each other."""
    return _with(
        [
            Message("{option} to {after}", option=change.option, after=change.after)
            if change.after
            else Message("no {option}", option=change.option)
            for change in relaxation.changes
        ]
    )


def _of_nearest(request: Request, nearest: Candidate) -> list[Message]:
    """What to relax so that `nearest` answers: everything that it misses, together."""
    limit = request.max_usd_per_hour
    if limit is not None and nearest.spec.total_usd_per_hour > limit:
        return []
    lower, upper = nearest.prediction.lower, nearest.prediction.upper
    slow = request.target_throughput is not None and lower < request.target_throughput
    slower = Message("--target-throughput to {rate:g} or less", rate=floor_rate(lower))
    missed = _missed(request, nearest)
    if missed:
        return [_with([*missed, slower] if slow else missed)]
    if not slow:
        return []
    reachable = upper >= (request.target_throughput or 0)
    return [slower, Message("--confidence")] if reachable else [slower]


def _missed(request: Request, nearest: Candidate) -> list[Message]:
    """The limits that it misses beside its rate and its price."""
    latency, run, usd = nearest.latency, nearest.run, nearest.usd_per_run
    first, found = nearest.first_epoch, []
    if request.max_latency_ms is not None and latency is not None:
        ms = ceil_ms(latency.p99_seconds)
        if 1000 * latency.p99_seconds > request.max_latency_ms:
            found.append(Message("--max-latency-ms to {ms:g} or more", ms=ms))
    rate = least_first_rate_of(request, nearest)
    if rate is not None and first is not None:
        samples = min(request.run_samples or request.dataset.samples, request.dataset.samples)
        if first.upper * 3600 * rate > samples * (1 + 1e-9):
            hours = ceil_significant(first.upper)
            found.append(Message("--max-first-epoch-hours to {hours:g} or more", hours=hours))
    if run and request.max_hours is not None and run.hours.upper > request.max_hours:
        hours = ceil_significant(run.hours.upper)
        found.append(Message("--max-hours to {hours:g} or more", hours=hours))
    if usd and request.max_run_usd is not None and usd.upper > request.max_run_usd:
        found.append(Message("--max-cost to {usd:g} or more", usd=ceil_significant(usd.upper)))
    return found


def _described(candidate: Candidate, request: Request) -> Message:
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


def _with(parts: Sequence[Message]) -> Message:
    return _chained(parts, Message("{first} with {rest}"))


def any_of(parts: Sequence[Message]) -> Message:
    """Messages joined by 'or'."""
    return _chained(parts, Message("{first} or {rest}"))


def _chained(parts: Sequence[Message], joint: Message) -> Message:
    """Messages joined by a word, from the last one on."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = Message(joint.text, first=part, rest=joined)
    return joined


def unmet(answer: A, described: Callable[[R, C], Message]) -> Message:
    """The line for an answer about a language model without a spec; `described` tells of the
    nearest one."""
    where, ways, nearest = where_of(answer.request), ways_out(answer.relaxations), answer.nearest
    if nearest is None:
        hint = Message("relax {ways}", ways=any_of(ways)) if ways else Message("--explain-rejected says why")
        return Message("{none}; {hint}", none=none_of(answer, where), hint=hint)
    return _unmet(where, described(answer.request, nearest), ways)


def _unmet(where: Message, nearest: Message, ways: Sequence[Message]) -> Message:
    if not ways:
        return Message("no offer of {where} meets this: nearest is {nearest}", where=where, nearest=nearest)
    return Message(
        "no offer of {where} meets this: nearest is {nearest}; relax {ways}",
        where=where,
        nearest=nearest,
        ways=any_of(ways),
    )
