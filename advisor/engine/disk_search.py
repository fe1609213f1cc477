"""The cheapest disk order that does not bind, between the coarse steps of the catalogue.

What answers with a coarse step is asked again with other orders: first less rate, then fewer
IOPS, or less size where size is what buys rate; where cost per sample counts, also more or less
of rate and IOPS together. More of either is never slower, so that each search can close in on
the last order that answers. An order replaces another only where it ranks before it: the answer
is never dearer than without the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from advisor.catalog import Catalog, DiskRule
from advisor.domain import Candidate, Disk, DiskChoice
from advisor.engine.disk_orders import IOPS_STEP, attached, parts_for
from advisor.records import dataclass, field, replace

# Orders between the ends that are tried at once, and how often at most. A round leaves an eighth of
# the range, or a quarter where the better order may lie on both sides of the best: 4 ** 8 steps are
# more than there are whole units, so that the last order that answers is found.
_BETWEEN = 7
_ROUNDS = 8
# Two ways to the same point of the range end this near to each other.
_SAME = 1e-9

# Smaller ones first; what they begin with says by what is ranked.
Rank = Callable[[Candidate], tuple[Any, ...]]
Predict = Callable[[Sequence[tuple[Candidate, Disk]]], list[Candidate]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What makes an order the better one.

    `predict` gives candidates with other disks. `by_sample`: cost per sample counts, so that an
    order may be too small to be worth it, and a larger one may be.
    """

    predict: Predict
    answers: Callable[[Candidate], bool]
    rank: Rank
    by_sample: bool


@dataclass(slots=True)
class _Search:
    """The best candidate so far, the range of the knob that is turned, and where the others
    left the order.

    A knob turns `base`, the order that was best before it; `at` is where the best one stands.
    """

    best: Candidate
    rule: DiskRule
    needed_gib: float
    base: DiskChoice
    low: float = 0.0
    at: float = 0.0
    high: float = 0.0
    settled: dict[_Knob, DiskChoice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Knob:
    """What of an order is turned: (lowest, present, highest) value, the order at a value, and the
    least difference that counts."""

    unit: float
    span: Callable[[_Search, bool], tuple[float, float, float] | None]
    order: Callable[[_Search, float], DiskChoice]


@dataclass(slots=True)
class _Points:
    """The values that one search tries in a round, and the candidates that came of them."""

    values: list[float]
    candidates: list[Candidate] = field(default_factory=list)


def cheaper_orders(starts: Iterable[Candidate], catalog: Catalog, aim: Aim) -> list[Candidate]:
    """The best order found from each start on, for those whose disk can be ordered otherwise."""
    searches = [found for one in starts if (found := _search(one, catalog))]
    for knob in _TURNS_BY_SAMPLE if aim.by_sample else _TURNS:
        turned = [one for one in searches if _begin(one, knob, aim.by_sample)]
        for unit in (0.0, *[knob.unit] * (_ROUNDS - 1)):
            _close_in(turned, knob, unit, catalog, aim)
        for one in turned:
            one.settled[knob] = one.best.spec.disk.choice
    return [one.best for one in searches]


def _search(start: Candidate, catalog: Catalog) -> _Search | None:
    disk = start.spec.disk
    if disk.price is None:
        return None
    disks = catalog.disks_of(start.spec.offer.instance.cloud)
    dataset_gib = start.workload.dataset.total_mib / 1024
    return _Search(
        best=start,
        rule=disks.rules[disk.choice.type],
        needed_gib=disks.fitting_size(disk.choice.type, dataset_gib),
        base=disk.choice,
    )


def _begin(one: _Search, knob: _Knob, by_sample: bool) -> bool:
    one.base = one.best.spec.disk.choice
    if one.settled.get(knob) == one.base:
        return False  # nothing has changed since it was turned
    span = knob.span(one, by_sample)
    if span is None or span[2] <= span[0]:
        return False
    one.low, one.at, one.high = span
    return True


def _close_in(
    searches: Sequence[_Search], knob: _Knob, unit: float, catalog: Catalog, aim: Aim
) -> None:
    """One round: try orders between the ends of every search, where these are further apart than
    `unit`; keep the best, and its neighbours as the new ends."""
    tried = [(one, _Points(_between(one.low, one.high, unit))) for one in searches]
    asked = [(one, points, at) for one, points in tried for at in points.values]
    orders = [
        (one.best, attached(catalog, one.best.spec.offer, knob.order(one, at)))
        for one, _, at in asked
    ]
    for (_, points, _), candidate in zip(asked, aim.predict(orders) if orders else (), strict=True):
        points.candidates.append(candidate)
    for one, points in tried:
        for at, candidate in zip(points.values, points.candidates, strict=True):
            if aim.answers(candidate) and aim.rank(candidate) < aim.rank(one.best):
                one.best, one.at = candidate, at
        ends = [at for at in (*points.values, one.high) if at < one.at * (1 - _SAME)]
        beyond = [at for at in (*points.values, one.high) if at > one.at * (1 + _SAME)]
        one.low = max(ends, default=one.low)
        one.high = min(beyond, default=one.at) if aim.by_sample else one.at


def _between(low: float, high: float, unit: float) -> list[float]:
    """The lower end and points up to the higher one, each in the same ratio to the next."""
    if high - low <= unit:
        return []
    step = (high / low) ** (1 / (_BETWEEN + 1))
    return [low * step**place for place in range(_BETWEEN + 1)]


def _rate_span(one: _Search, by_sample: bool) -> tuple[float, float, float] | None:
    rate, rule = one.base.mib_per_second, one.rule
    if rate is None:
        return None
    most = (rule.provision_mib_s_max or rate) if by_sample else rate
    return rule.provision_mib_s_min or 1.0, rate, most


def _iops_span(one: _Search, by_sample: bool) -> tuple[float, float, float] | None:
    """Down to the least that is sold; where more may be worth it and no rate has to go with it,
    up to the most."""
    iops, rate = one.base.iops, one.base.mib_per_second or 0.0
    if iops is None:
        return None
    least = rate / (one.rule.provision_mib_s_per_iops or math.inf)
    most = (one.rule.provision_iops_max or iops) if by_sample and not rate else iops
    return max(one.rule.provision_iops_min or 1, least), iops, most


def _both_span(one: _Search, _by_sample: bool) -> tuple[float, float, float] | None:
    """Shares of the present order: down to the least that is sold, up to twice as much."""
    iops, rate, rule = one.base.iops, one.base.mib_per_second, one.rule
    if iops is None or rate is None:
        return None
    least = (rule.provision_iops_min or 1.0) / iops, (rule.provision_mib_s_min or 1.0) / rate
    most = (rule.provision_iops_max or iops) / iops, (rule.provision_mib_s_max or rate) / rate
    return min(least), 1.0, min(*most, 2.0)


def _size_span(one: _Search, by_sample: bool) -> tuple[float, float, float] | None:
    size = one.base.size_gib
    if size is None or one.rule.provision_iops_max is not None:
        return None
    return one.needed_gib, size, min(2 * size, one.rule.max_gib) if by_sample else size


def _order(one: _Search, iops: float | None, rate: float | None) -> DiskChoice:
    """What is sold and gives so much."""
    size, iops, rate = parts_for(one.rule, one.needed_gib, iops, rate)
    return replace(one.base, size_gib=size, iops=iops, mib_per_second=rate)


_RATE = _Knob(1.0, _rate_span, lambda one, at: _order(one, one.base.iops, at))
_IOPS = _Knob(IOPS_STEP, _iops_span, lambda one, at: _order(one, at, one.base.mib_per_second))
_BOTH = _Knob(
    0.001,
    _both_span,
    lambda one, at: _order(one, at * (one.base.iops or 0), at * (one.base.mib_per_second or 0)),
)
_SIZE = _Knob(1.0, _size_span, lambda one, at: replace(one.base, size_gib=float(math.ceil(at))))
_TURNS = (_RATE, _IOPS, _SIZE)
# What is worth buying of both together depends on what each alone can do without, and the reverse.
_TURNS_BY_SAMPLE = (_RATE, _IOPS, _BOTH, _RATE, _IOPS, _BOTH, _RATE, _IOPS, _RATE, _SIZE)
