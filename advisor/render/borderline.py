"""Writes how sure an answer is, which spec is safe, and which trial settles it, as JSON and sentences."""

from __future__ import annotations

import shlex
from enum import StrEnum
from math import floor, inf, isfinite
from typing import Any

from advisor.catalog.support import quota_text, vcpus_of_quota
from advisor.domain import (
    HOURS_PER_MONTH,
    IMAGENET,
    Candidate,
    CloseCall,
    CloseCallKind,
    DataKind,
    Market,
    Task,
)
from advisor.domain.decision import MISS_COST, Judged, expected_cost, price_chance
from advisor.domain.results import is_measured
from advisor.domain.words import PERCENTILES, REQUEST_TIMES
from advisor.messages import FieldName, Message, ceil_significant, floor_rate, format_usd, short_usd
from advisor.naming import spec_name
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import start_hours
from advisor.questions.values import FORMATS
from advisor.render.facts import TARGETS
from advisor.render.price_doubt import PER, ranked_cost
from advisor.render.records import brief_block, hedge_message, spec_fields

_NEVER, _ALWAYS = 0.01, 0.99
# What arithmetic may lose of a chance in percent.
_LAST_BITS = 1e-9
# Codes of the sentences about the safe spec, the trial, and what a quota or a count of instances leaves out.
SAFE, TRIAL, QUOTA, BEYOND_COUNT = "safe", "trial", "quota", "beyond_count"
# A safe spec beyond this many times the price is named as out of reason.
_REASON = 3.0
# A price that keeps its limit with at least this chance is not reported as a doubt.
SURE_PRICE = 0.985
# A cost below `_LESS` times another is reported as lower; below `_APART` times, it is beyond the error.
_LESS, _APART = 0.97, 1 / 1.1


def modest(chance: float) -> float:
    """Return a chance in whole percent, from 1 to 99 % because a model is never certain. It is rounded down,
    so that no chance below a limit reads as the limit."""
    return min(_ALWAYS, max(_NEVER, floor(100 * chance + _LAST_BITS) / 100))


def decision_block(answer: Judged[Any, Any]) -> dict[str, Any] | None:
    """Return the document's `decision`, or None if no spec meets the question."""
    chosen = answer.chosen
    if chosen is None:
        return None
    safe = chosen if answer.is_safe else answer.safe
    kept = sure_message(answer), _trial_message(answer), _safe_message(answer), level_message(answer)
    return {
        "rule": "bound" if answer.request.is_sure else "expected-cost",
        "miss_costs": None if answer.request.is_sure else MISS_COST,
        "probability": chosen.probability,
        "level": answer.level,
        "safe": brief_block(safe) if safe else None,
        "beyond_count": brief_block(answer.beyond_count) if answer.beyond_count else None,
        "sentences": list(
            filter(None, (*kept, _beyond_count_message(answer), _quota_message(answer, chosen)))
        ),
    }


class Behind(StrEnum):
    """The reason why a spec that also meets the question is not the chosen one."""

    COST = "cost"
    PRICE = "price"
    CHANCE = "chance"
    UNMEASURED = "unmeasured"
    TIME = "time"
    HOURLY = "hourly"


# Why a spec that costs less is not the chosen one, if their costs are equal within the error.
LEVEL = (Behind.TIME, Behind.HOURLY, Behind.UNMEASURED)


def behind(answer: Judged[Any, Any], other: Any) -> Behind:
    """Return why a spec ranks behind the chosen one. Either it costs more; or it costs less at the median,
    but its price may be higher, a miss is likelier, its GPU was not measured, its run takes longer or, at
    equal cost within the error, its hourly price is higher."""
    chosen: Any = answer.chosen
    usd, least = ranked_cost(other, answer)[0], ranked_cost(chosen, answer)[0]
    ranks = [
        cost if answer.request.is_sure or spec.probability is None else expected_cost(cost, spec.probability)
        for cost, spec in ((usd, other), (least, chosen))
    ]
    most = [
        cost * spec.spec.high_usd_per_hour / spec.spec.total_usd_per_hour if cost else 0.0
        for cost, spec in ((usd, other), (least, chosen))
    ]
    if usd >= least:
        return Behind.COST
    if answer.price_call and most[0] > most[1]:
        return Behind.PRICE
    # If only the cost of a miss makes two specs equal, the chance decides.
    less_sure = (other.probability or 1.0) < (chosen.probability or 1.0)
    if ranks[0] > ranks[1] or (less_sure and (answer.request.is_sure or usd < _APART * least)):
        return Behind.CHANCE
    if answer.request.owes_term:
        return Behind.COST  # its run takes so long that it counts several machines
    if is_measured(chosen) and not is_measured(other):
        return Behind.UNMEASURED
    return Behind.TIME if answer.request.ends else Behind.HOURLY


# Sentences about the spec that costs least at the median but is not chosen.
_BEHIND = {
    Behind.CHANCE: Message(
        "{name} would cost {usd}{per} but is only {percent:.0f} % sure: once a miss counts it saves "
        "little or nothing"
    ),
    Behind.UNMEASURED: Message(
        "{name} would cost {usd}{per}, the same within the error, but its GPU was not measured"
    ),
    Behind.TIME: Message("{name} would cost {usd}{per}, the same within the error, and takes longer"),
    Behind.HOURLY: Message(
        "{name} would cost {usd}{per}, the same within the error; the lower price per hour decides"
    ),
}


def level_message(answer: Judged[Any, Any]) -> Message | None:
    """Return why the spec cheapest at the median is not chosen, else how many tie on cost, else None."""
    if answer.chosen is None:
        return None
    # An uncertain price has a sentence elsewhere, and a cheaper spec's trial already states its chance.
    others = (spec for spec in answer.ranked if behind(answer, spec) is not Behind.PRICE)
    cheapest = min(others, key=lambda spec: ranked_cost(spec, answer)[0])
    usd, why = ranked_cost(cheapest, answer)[0], behind(answer, cheapest)
    tried = any(call.kind is CloseCallKind.CHEAPER_MAY_REACH for call in answer.close_calls)
    is_less = usd < _LESS * ranked_cost(answer.chosen, answer)[0]
    chance = 100 * modest(cheapest.probability or 1.0)
    seen = round(chance) < round(100 * modest(answer.chosen.probability or 1.0))
    if is_less and why in _BEHIND and (why is not Behind.CHANCE or (seen and not tried)):
        name = spec_name(cheapest.spec, answer.request)
        return Message(_BEHIND[why].text, name=name, percent=chance, **_cost(cheapest, answer))
    if answer.level < 2:
        return None
    if answer.level == 2:
        return Message("1 other cannot be told apart from it on cost")
    return Message("{count} others cannot be told apart from it on cost", count=answer.level - 1)


def _cost(candidate: Any, answer: Judged[Any, Any]) -> dict[str, Any]:
    """Return the cost that a candidate is ranked by, as the parameters `usd` and `per` of a sentence."""
    usd, per = ranked_cost(candidate, answer)
    return {"usd": (short_usd if per == "run" else format_usd)(usd), "per": PER[per]}


def _quota_message(answer: Judged[Any, Any], chosen: Any) -> Message | None:
    """Return the cheaper spec that the quota leaves out, and that the chosen type's quota is taken as
    unlimited if the question does not limit it, or that a P type needs one. None if nothing holds."""
    request, cheaper, left_out, unlimited = answer.request, answer.beyond_quota, None, None
    if cheaper:
        facts = [Message("{usd}{per}", **_cost(cheaper, answer))]
        if cheaper.probability is not None:
            facts.append(Message("{percent:.0f} % sure", percent=100 * modest(cheaper.probability)))
        left_out = Message(
            "{quota} leaves out {name} ({facts}), which needs {needed}",
            code=QUOTA,
            quota=quota_text(request.vcpu_quota, request.market),
            name=spec_name(cheaper.spec, request),
            facts=facts,
            needed=quota_text([vcpus_of_quota(cheaper.spec)], request.market),
        )
    code, vcpus = vcpus_of_quota(chosen.spec)
    if code and chosen.spec.offer.instance.name.startswith("p") and not request.vcpu_quota:
        unlimited = Message(
            "{quota} vCPUs: new AWS accounts have few; ask for more, or a capacity block ({option})",
            code=QUOTA,
            quota=quota_text([(code, vcpus)], request.market),
            option=FieldName("quota"),
        )
    if request.vcpu_quota and code and code not in dict(request.vcpu_quota):
        family = quota_text([(code, 0)], request.market).partition("=")[0]
        unlimited = Message(
            "{family} is taken as unlimited ({option})", code=QUOTA, family=family, option=FieldName("quota")
        )
    if not (left_out and unlimited):
        return left_out or unlimited
    return Message("{left_out}; {unlimited}", code=QUOTA, left_out=left_out, unlimited=unlimited)


# A chance in words; each number is the least chance that the words apply to.
_WORDS = (
    (0.9, Message("very likely: {percent:.0f} % sure {aim}")),
    (0.75, Message("likely: {percent:.0f} % sure {aim}")),
    (0.4, Message("a gamble: only {percent:.0f} % sure {aim}")),
    (0.0, Message("unlikely: only {percent:.0f} % sure {aim}")),
)
# Fields of a question that set a target rate, and fields that set limits.
_AIMS = (*TARGETS, "target_requests_per_second", "users")
_LIMITS = (
    *("max_latency_ms", "max_ttft_ms", "max_tpot_ms", "max_e2e_seconds", "max_ready_seconds"),
    *("max_hours", "max_run_usd", "max_first_epoch_hours"),
)
_TO = {
    (True, False): Message("to reach the target"),
    (False, True): Message("to keep the limits"),
    (True, True): Message("to reach the target and keep the limits"),
    (False, False): Message("that the price stays within {limit:usd}/h"),
}
_TO_SERVE = Message("to serve {users:,} users"), Message("to serve {users:,} users within the limits")


def sure_message(answer: Judged[Any, Any]) -> Message | None:
    """'likely: 76 % sure to serve 40 users within the limits', and what else must hold; None if no target or
    limit is set."""
    chosen, request = answer.chosen, answer.request
    if chosen is None or chosen.probability is None:
        return None
    doubt, by = price_chance(chosen, request), hedge_message(getattr(chosen, "prediction", chosen))
    is_spot, is_doubtful = request.ends and chosen.spec.offer.market is Market.SPOT, doubt < SURE_PRICE
    aims, limits = (any(getattr(request, name, None) for name in names) for names in (_AIMS, _LIMITS))
    words = next(words for least, words in _WORDS if modest(chosen.probability) >= least)
    aims = aims or not (limits or request.max_usd_per_hour)  # a new task's target has a name of its own
    if not (aims or limits):  # only the hourly price has a limit, whatever the rate
        aim = Message(_TO[False, False].text, limit=request.max_usd_per_hour)
        return Message(words.text, percent=100 * modest(chosen.probability), aim=aim)
    aim = _TO[aims, limits or is_doubtful]
    if users := getattr(request, "users", None):
        aim = Message(_TO_SERVE[limits or is_doubtful].text, users=users)
    if is_spot:
        aim = Message("{aim} if never interrupted", aim=aim)
    if is_doubtful:
        aim = Message(
            "{aim} ({speed:.0f} % on speed, {price:.0f} % on the price)",
            aim=aim,
            speed=100 * modest(chosen.probability / doubt),
            price=100 * modest(doubt),
        )
    if by:
        aim = Message("{aim}, {by}", aim=aim, by=by)
    return Message(words.text, percent=100 * modest(chosen.probability), aim=aim)


def _trial_message(answer: Judged[Any, Any]) -> Message | None:
    """Return what a trial settles, or why there is none; None if the chosen spec is safe."""
    if answer.chosen is None or answer.chosen.probability is None or answer.is_safe:
        return None
    trial = next((call for call in answer.close_calls if call.kind is CloseCallKind.CHOSEN_MAY_MISS), None)
    if trial is None:
        return answer.no_trial and Message("{why}", code=TRIAL, why=answer.no_trial)
    text = Message("a test of {minutes:g} min ({usd}) decides")
    if price_chance(answer.chosen, answer.request) < SURE_PRICE:
        text = Message("a test of {minutes:g} min ({usd}) decides on the speed")
    return Message(text.text, code=TRIAL, minutes=trial.trial_minutes, usd=short_usd(trial.trial_usd))


def _beyond_count_message(answer: Judged[Any, Any]) -> Message | None:
    """Return the cheaper safe spec on more instances than `--max-count`; None if there is none."""
    beyond = answer.beyond_count
    if beyond is None or _times_as_dear(beyond, answer) > _REASON:
        return None
    return Message(
        "{option} {count}: {name}, {usd:usd}/h, {chance:.0f} % sure",
        code=BEYOND_COUNT if answer.is_safe or answer.safe else SAFE,
        option=FieldName("max_count"),
        count=beyond.spec.count,
        name=spec_name(beyond.spec, answer.request),
        usd=beyond.spec.total_usd_per_hour,
        chance=100 * modest(beyond.probability),
    )


def _safe_message(answer: Judged[Any, Any]) -> Message | None:
    """Return the safe spec with its chance and what it costs more, or that there is none within reason and
    which limit the chosen one surely keeps. None if the chosen one is safe or no chance is known."""
    chosen, request, safe = answer.chosen, answer.request, answer.safe
    if chosen is None or chosen.probability is None or answer.is_safe:
        return None
    if safe is None or _times_as_dear(safe, answer) > _REASON or _takes_a_month_more(safe, answer):
        return _none_is_safe(answer)
    more = (safe.spec.total_usd_per_hour - chosen.spec.total_usd_per_hour) * HOURS_PER_MONTH
    dearer = Message("{more} more a month", more=f"${max(0.0, more):,.0f}")
    if ranked_cost(safe, answer)[1] == "run":
        more = safe.usd_per_run.median - chosen.usd_per_run.median
        dearer = Message("{more} more for the run", more=short_usd(max(0.0, more)))
    text = Message("{safe} {usd:usd}/h, {dearer}: {chance:.0f} % sure ({way})")
    if not is_measured(safe):
        text = Message("{safe} {usd:usd}/h, {dearer}: {chance:.0f} % sure, its GPU never measured ({way})")
    way = Message("{option} {level:g}", option=FieldName("confidence"), level=request.confidence)
    if answer.price_call and answer.price_call.cheaper:  # the option alone gives one of a vaguer price
        way = Message("of as firm a price")
    return Message(
        text.text,
        code=SAFE,
        chance=100 * modest(safe.probability),
        way=way,
        safe=spec_name(safe.spec, request),
        usd=safe.spec.total_usd_per_hour,
        dearer=dearer,
    )


def _times_as_dear(safe: Any, answer: Judged[Any, Any]) -> float:
    """Return the cost of the safe spec over that of the chosen one, per run if there is one."""
    chosen: Any = answer.chosen
    if ranked_cost(safe, answer)[1] == "run":
        return float(safe.usd_per_run.median / chosen.usd_per_run.median)
    return float(safe.spec.total_usd_per_hour / chosen.spec.total_usd_per_hour)


def _takes_a_month_more(safe: Any, answer: Judged[Any, Any]) -> bool:
    runs: list[Any] = [getattr(each, "run", None) for each in (safe, answer.chosen)]
    return None not in runs and bool(runs[0].hours.median > runs[1].hours.median + HOURS_PER_MONTH)


def _none_is_safe(answer: Judged[Any, Any]) -> Message:
    """Return why no spec is safe, and the limits that the chosen one surely keeps, if it misses no other."""
    request, safe = answer.request, answer.safe
    figures: dict[str, Any] = {"least": 100 * request.confidence}
    if safe is None:
        none = Message("nothing on offer is {least:g} % sure")
        if answer.price_call and answer.price_call.cheaper:
            none = Message("nothing of as firm a price is {least:g} % sure")
    elif _takes_a_month_more(safe, answer):
        none = Message("none within reason: {safe} would take {hours:hours}")
        figures = {"hours": safe.run.hours.median}
    else:
        none = Message("none within reason: {safe} would cost {usd:usd}/h, {times:.2g} times as much")
        if any((each.probability or 0.0) >= request.confidence for each in answer.ranked if each != safe):
            none = Message(
                "none of a firm price within reason: {safe} would cost {usd:usd}/h, {times:.2g} times as much"
            )
        figures = {"usd": safe.spec.total_usd_per_hour, "times": _times_as_dear(safe, answer)}
    none = Message(none.text, code=SAFE, safe=safe and spec_name(safe.spec, request), **figures)
    kept = _kept_run(answer.chosen, request) if request.ends else _kept_time(answer.chosen, request)
    limits = [Message("{option} {kept}", option=FieldName(name), kept=most) for name, most in kept]
    if not limits:
        return none
    return Message(
        "{none}; with {limits} this one is {percent:g} % sure",
        code=SAFE,
        none=none,
        percent=100 * request.confidence,
        limits=Message("{first} {second}", first=limits[0], second=limits[1]) if limits[1:] else limits[0],
    )


def _kept_run(chosen: Any, request: Any) -> list[tuple[str, str]]:
    """Return the limits of a run that are in force and may be missed, by field, as the chosen spec keeps them
    at the confidence; nothing if a target or the price is in doubt too."""
    uppers = {
        "max_hours": (request.max_hours, getattr(chosen, "run", chosen).hours.upper),
        "max_cost": (request.max_run_usd, chosen.usd_per_run.upper),
    }
    missed = {name: upper for name, (most, upper) in uppers.items() if most and most < upper < inf}
    others = any(getattr(request, name, None) for name in ("target_throughput", "max_first_epoch_hours"))
    is_all = price_chance(chosen, request) >= SURE_PRICE and not others
    return [(name, f"{ceil_significant(upper):g}") for name, upper in missed.items() if is_all]


def _kept_time(chosen: Any, request: Any) -> list[tuple[str, str]]:
    """Return the field of the limit on a time, and its value that a served model keeps at the confidence;
    nothing if the limit in force is kept, or there are several."""
    limits: Any = getattr(request, "time_limits", ())
    if len(limits) != 1:
        return []
    limit = limits[0]
    span = getattr(chosen.rates, f"{limit.reason}_seconds")
    if limit.percentile is not None:
        span = chosen.rates.tails[REQUEST_TIMES.index(limit.reason)][PERCENTILES.index(limit.percentile)]
    upper = limit.unit * span.upper
    is_kept = not isfinite(upper) or upper <= limit.most
    return [] if is_kept else [(limit.field, limit.text(ceil_significant(upper)))]


# Defaults of `advisor verify`, by option.
_USUAL = {
    "--stack": "eager",
    "--tf32": "convolutions",
    "--protocol": "script",
    "--dataset": IMAGENET.name,
    "--confidence": "0.9",
    "--cloud": "aws",
}


def borderline_block(call: CloseCall, horizon_hours: float, command: str, **runs: Any) -> dict[str, Any]:
    """Return a borderline candidate, what it `runs`, and the `command` of the trial that settles it."""
    spec, instead = call.candidate.spec, call.instead
    per_hour = call.saves_usd_per_hour
    return {
        "kind": str(call.kind),
        **spec_fields(spec, "cloud region market instance_type count disk"),
        **runs,
        "usd_per_hour": spec.total_usd_per_hour,
        "probability": call.probability,
        "instead_of": instead.spec.offer.instance.name if instead else None,
        "saves_usd_per_hour": per_hour,
        "saves_usd_per_run": call.saves_usd_per_run,
        "saves_usd_per_month": None if per_hour is None else per_hour * HOURS_PER_MONTH,
        "trial": {
            "instance_type": spec.offer.instance.name,
            "command": command,
            "minutes": call.trial_minutes,
            "usd": call.trial_usd,
        },
        "horizon_hours": horizon_hours,
        "expected_usd": call.worth_usd,
    }


def _rate_to_hold(request: NetworkQuestion, candidate: Candidate) -> float:
    """Return the target rate, else the rate that the run's limits require, else the predicted lower bound."""
    if request.target_throughput is not None:
        return request.target_throughput
    cost, most = request.max_run_usd, request.max_hours or inf
    hours = min(most, cost / candidate.spec.total_usd_per_hour if cost else inf) - start_hours(request)
    if request.run_samples is not None and 0 < hours < inf:
        return float(f"{request.run_samples / hours / 3600:.4g}")
    return floor_rate(candidate.prediction.lower)


def verify_command(request: NetworkQuestion, candidate: Candidate) -> str:
    """Return the command to type on an instance of the candidate's type. It states every open choice of the
    question. For several GPUs or instances, its target is the share of one, which a trial measures."""
    spec, dataset = candidate.spec, request.dataset.name
    instance, computes = spec.offer.instance, request.task is not Task.PREPROCESSING
    images, stored = request.dataset.kind is DataKind.IMAGE, request.dataset.storage_format
    predicted, of_gpu = candidate.prediction, instance.gpu_count > 1 and computes
    target = _rate_to_hold(request, candidate) / (spec.count * predicted.node_efficiency)
    if of_gpu:  # several share the work, and each is slower than alone
        target /= predicted.gpus_used * predicted.gpu_efficiency
    options = {
        "--task": request.task,
        "--model": request.network,
        "--target-throughput": f"{target:.4g}",
        "--max-latency-ms": request.max_latency_ms and f"{request.max_latency_ms:g}",
        "--max-price": request.max_usd_per_hour and f"{request.max_usd_per_hour / spec.count:g}",
        "--instance": instance.name,
        "--disk": spec.disk.choice,
        "--batch-size": candidate.workload.batch_size,
        "--precision": candidate.workload.precision if computes else None,
        "--input": request.input,
        "--stack": request.stack,
        "--memory-format": candidate.workload.memory_format if computes and images else None,
        "--tf32": request.tf32,
        "--protocol": request.protocol,
        # A path names the user's own images; a plain name is a known data set.
        "--data" if "/" in dataset else "--dataset": dataset if request.dataset.is_read else None,
        "--data-format": stored if stored in FORMATS and "/" not in dataset else None,
        "--dataset-samples": request.dataset_samples,
        "--confidence": f"{request.confidence:g}",
        "--cloud": instance.cloud,
        "--region": None if spec.offer.region == "us-east-1" else spec.offer.region,
    }
    if of_gpu:
        options["--max-gpus"] = 1
    given = {
        name: str(value)
        for name, value in options.items()
        if value is not None and str(value) != _USUAL.get(name)
    }
    return " ".join(["advisor verify", *(f"{name} {shlex.quote(text)}" for name, text in given.items())])
