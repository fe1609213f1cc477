"""The constraints that a request sets, as knobs, with the options that set them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from advisor.catalog.matching import ECC_SHARE
from advisor.catalog.quotas import CLOUD, quota_code
from advisor.domain import Candidate, InstanceType, Market, Range, Request
from advisor.engine.counting import at_count, most_count
from advisor.engine.knobs import (
    Ask,
    Knob,
    Limit,
    cheapest,
    choice_knob,
    limit_knob,
    rounded_down,
    rounded_up,
)
from advisor.engine.typed import disk_text, gpu_text, quota_text, ram_text, vcpus_text
from advisor.records import replace

# Lets every price, latency and time pass, and still is one: without any, other work is done.
_ENDLESS = 1e15
_GIB = 1024
_LEAST_PERCENT = 50

CapabilityOf = Callable[[str | None], float | None]


def knobs_of(request: Request, capability_of: CapabilityOf) -> list[Knob]:
    """Every constraint that is set, and the place, market and confidence, which always are."""
    return [
        *_limits(request),
        *_hardware(request, capability_of),
        *_choices(request),
        *_quotas(request),
        *_settings(request),
    ]


class _Number(NamedTuple):
    """A number that a spec has to keep; `exact` as in `Limit`."""

    field: str
    option: str
    needs: Callable[[Candidate], float]
    most: bool = True
    exact: bool = False


def _limits(request: Request) -> Iterator[Knob]:
    """What is measured in samples, dollars and time."""
    costs = request.max_usd_per_hour is not None or request.max_run_usd is not None

    def reached(one: Candidate) -> float:
        # Where nothing is to be reached one instance answers, and as many as may be had reach more.
        return (one if costs else at_count(one, most_count(request, one))).prediction.lower

    numbers = (
        _Number("target_throughput", "--target-throughput", reached, most=False, exact=not costs),
        _Number("max_usd_per_hour", "--max-price", lambda one: one.spec.total_usd_per_hour),
        _Number("max_latency_ms", "--max-latency-ms",
                lambda one: 1000 * one.latency.p99_seconds if one.latency else math.inf,
                exact=True),
        _Number("max_hours", "--max-hours",
                lambda one: one.run.hours.upper if one.run else math.inf),
        _Number("max_run_usd", "--max-cost",
                lambda one: one.usd_per_run.upper if one.usd_per_run else math.inf),
    )  # fmt: skip
    for number in numbers:
        if getattr(request, number.field) is not None:
            yield _number_knob(number)


def _number_knob(number: _Number) -> Knob:
    def text(request: Request) -> str:
        return f"{getattr(request, number.field):.10g}"

    limit = Limit(
        get=lambda request: float(getattr(request, number.field)),
        put=lambda request, value: _with(request, number.field, value),
        needs=number.needs,
        loose=_ENDLESS if number.most else 1 / _ENDLESS,
        most=number.most,
        exact=number.exact,
        rounded=rounded_up if number.most else rounded_down,
    )
    return limit_knob(number.field, number.option, limit, text)


def _with(request: Request, field: str, value: Any) -> Request:
    return replace(request, **{field: value})


def _hardware(request: Request, capability_of: CapabilityOf) -> Iterator[Knob]:
    """What the machine has; each end of a range is a constraint of its own."""

    def capability(instance: InstanceType) -> float:
        return capability_of(instance.gpu_name) or 0.0

    yield from _ends(request, "vcpus", "--vcpus", lambda one: float(one.vcpus), vcpus_text)
    yield from _ends(request, "memory_mib", "--memory", lambda one: float(one.memory_mib), ram_text)
    yield from _ends(request, "compute_capability", "--gpu", capability, gpu_text)
    for most in (False, True):
        field = f"{'max' if most else 'min'}_gpu_memory_mib"
        if getattr(request, field) is not None:
            yield limit_knob(field, "--gpu", _gpu_memory(field, most), gpu_text)


def _ends(
    request: Request,
    field: str,
    option: str,
    fact: Callable[[InstanceType], float],
    text: Callable[[Request], str | None],
) -> Iterator[Knob]:
    for side in ("least", "most"):
        if getattr(getattr(request, field), side) is not None:
            name = f"{'max' if side == 'most' else 'min'}_{field}"
            yield limit_knob(name, option, _end(field, side, fact), text)


def _end(field: str, side: str, fact: Callable[[InstanceType], float]) -> Limit:
    def put(request: Request, value: float | None) -> Request:
        limits: Range = getattr(request, field)
        return _with(request, field, replace(limits, **{side: value}))

    return Limit(
        get=lambda request: float(getattr(getattr(request, field), side)),
        put=put,
        needs=lambda one: fact(one.spec.offer.instance),
        loose=None,
        most=side == "most",
        exact=True,
        rounded=lambda value: value,
    )


def _gpu_memory(field: str, most: bool) -> Limit:
    """In whole GiB, as cards are sold."""

    def sold(mib: float) -> float:
        gib = math.ceil(mib / _GIB) if most else math.floor(mib / ECC_SHARE / _GIB)
        return float(gib * _GIB or mib)

    return Limit(
        get=lambda request: float(getattr(request, field)),
        put=lambda request, value: _with(request, field, value),
        needs=lambda one: float(one.spec.offer.instance.gpu_memory_mib or 0),
        loose=None,
        most=most,
        exact=True,
        rounded=sold,
    )


def _choices(request: Request) -> Iterator[Knob]:
    """GPUs by name, the disk, the batch size: what the cheapest without them has instead."""
    if request.gpus:
        yield choice_knob(
            "gpus", "--gpu", "gpus", (), _one_gpu_more, gpu_text,
            has=lambda one: one.spec.offer.instance.gpu_name is not None,
        )  # fmt: skip
    if request.disk is not None:
        yield choice_knob(
            "disk", "--disk", "disk", None, lambda _, one: one.spec.disk.choice, disk_text
        )
    if request.disk_types:
        yield choice_knob("disk_types", "--disk", "disk_types", (), _one_disk_more, disk_text)
    if request.batch_size is not None:
        yield choice_knob(
            "batch_size", "--batch-size", "batch_size", None,
            lambda _, one: one.workload.batch_size, lambda one: str(one.batch_size),
        )  # fmt: skip


def _one_gpu_more(request: Request, one: Candidate) -> tuple[str, ...]:
    return (*request.gpus, str(one.spec.offer.instance.gpu_name))


def _one_disk_more(request: Request, one: Candidate) -> tuple[str, ...]:
    return (*request.disk_types, one.spec.disk.rate.type)


def _quotas(request: Request) -> Iterator[Knob]:
    """Each quota by itself: the fewest vCPUs that an answer takes of it."""
    for code, _ in request.vcpu_quota:
        yield limit_knob("vcpu_quota", "--quota", _quota(code), quota_text)


def _quota(code: str) -> Limit:
    def put(request: Request, value: float | None) -> Request:
        left = {**dict(request.vcpu_quota), code: value}
        return replace(request, vcpu_quota=tuple((k, v) for k, v in left.items() if v is not None))

    def needs(one: Candidate) -> float:
        offer = one.spec.offer
        counted = offer.instance.cloud == CLOUD and quota_code(offer.instance.name, offer.market)
        return float(one.spec.count * offer.instance.vcpus) if counted == code else math.inf

    return Limit(
        get=lambda request: dict(request.vcpu_quota)[code],
        put=put,
        needs=needs,
        loose=None,
        most=True,
        exact=True,
        rounded=lambda value: value,
    )


def _settings(request: Request) -> Iterator[Knob]:
    """Where, how it is paid, and how sure it is to be."""
    if request.region is not None:
        yield choice_knob(
            "region", "--region", "region", None, lambda _, one: one.spec.offer.region,
            lambda one: one.region, asked=False,
        )  # fmt: skip
    yield Knob(
        constraint="market",
        option="--market",
        get=lambda one: one.market,
        put=lambda one, value: replace(one, market=value),
        free=None,
        least=_other_market,
        typed=lambda one: str(one.market),
        asked=False,
    )
    yield Knob(
        constraint="confidence",
        option="--confidence",
        get=lambda one: one.confidence,
        put=lambda one, value: replace(one, confidence=value),
        free=_LEAST_PERCENT / 100,
        least=_less_sure,
        typed=lambda one: f"{one.confidence:g}",
        asked=False,
    )


def _other_market(request: Request, ask: Ask) -> Market | None:
    """The market where the cheapest is cheaper than on the others."""
    found = {
        market: cheapest(answering).spec.total_usd_per_hour
        for market in Market
        if market is not request.market and (answering := ask(replace(request, market=market)))
    }
    return min(found, key=lambda market: found[market], default=None)


def _less_sure(request: Request, ask: Ask) -> float | None:
    """In whole percent, halving the way down to the least that may be asked."""
    good, bad = _LEAST_PERCENT, math.ceil(100 * request.confidence)
    if good >= bad or not ask(replace(request, confidence=good / 100)):
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        if ask(replace(request, confidence=middle / 100)):
            good = middle
        else:
            bad = middle
    return good / 100
