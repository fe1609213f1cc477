"""The least disk order with which a candidate still reaches a target, where its rate alone decides.

A disk counts by the scarcer of its bandwidth and its IOPS. So the least of either that is enough
is found first, in numbers and for all candidates at once; then the least order of the type that
gives both. `disk_search` finds the same by trying orders, in ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.catalog import Catalog, DiskRule
from advisor.domain import Candidate, Disk, DiskChoice
from advisor.engine.candidates import Floats
from advisor.engine.disk_orders import IOPS_STEP, Parts, attached, parts_for
from advisor.engine.rows import Rows
from models.performance.machines import DiskTable

# What needs less than the range has, which spans this factor, is served by the least order of any
# type. It is cut into so many parts first, and then narrowed to less than any unit that is sold.
_RANGE = math.log(1e4)
_PARTS = 32
_FINE = 1e-7
_MOST_ROUNDS = 30
# How far beside the likely root a round looks, as a share of what is left where that is wide.
_REACH = 0.05
_SIDES = np.array([-1.0, 0.0, 1.0])
_TINY = 1e-300


class _Start(NamedTuple):
    """A candidate with what its type of disk sells, and what its instance passes on at most."""

    candidate: Candidate
    rule: DiskRule
    needed_gib: float
    most: tuple[float, float]

    @property
    def has_more(self) -> bool:
        """Whether its type sells less than it has."""
        order, included = self.order, self.rule.included_iops(self.needed_gib) or 0.0
        return (
            (order.iops or 0.0) > max(self.rule.provision_iops_min or 0.0, included)
            or (order.mib_per_second or 0.0) > (self.rule.provision_mib_s_min or 0.0)
            or (order.size_gib or 0.0) > self.needed_gib
        )

    @property
    def order(self) -> DiskChoice:
        """What it begins with."""
        return self.candidate.spec.disk.choice


def least_orders(
    starts: Sequence[Candidate], catalog: Catalog, rows: Rows, target: float
) -> list[tuple[Candidate, Disk]]:
    """Starts that reach the target with less than they have, each with the least disk that does."""
    begun = [
        one for one in (_start(c, catalog) for c in starts if c.spec.disk.price) if one.has_more
    ]
    found = []
    for one, needs in zip(begun, _needs(begun, rows, target), strict=True):
        order = _least_order(one, needs)
        if order != one.order:
            found.append((one.candidate, attached(catalog, one.candidate.spec.offer, order)))
    return found


def _start(one: Candidate, catalog: Catalog) -> _Start:
    disk, disks = one.spec.disk, catalog.disks_of(one.spec.offer.instance.cloud)
    dataset_gib = one.workload.dataset.total_mib / 1024
    return _Start(
        candidate=one,
        rule=disks.rules[disk.choice.type],
        needed_gib=disks.fitting_size(disk.choice.type, dataset_gib),
        most=disks.passed_on(one.spec.offer.instance, disk.choice.type),
    )


def _needs(starts: Sequence[_Start], rows: Rows, target: float) -> list[tuple[float, float]]:
    """The least (MiB/s, IOPS) with which each start reaches the target; each of them alone, since
    the scarcer one decides."""
    if not starts:
        return []
    count = len(starts)
    above = _Above(starts, rows, target)
    has = np.concatenate([above.disks.mib_per_second, above.disks.iops])
    points = np.log(has)[:, None] - _RANGE * np.linspace(1.0, 0.0, _PARTS + 1)
    low, high = _least_roots(above, points, above.known(points))
    # Never more than it has, whatever rounding makes of that.
    low, high = np.exp(low), np.minimum(np.exp(high), has)
    units = np.repeat([1.0, IOPS_STEP], count)
    # A whole unit between both ends may be enough, too; one below them is not.
    whole = units * np.floor(high / units)
    between = whole >= low
    if between.any():
        whole = np.where(between, whole, high)
        high = np.where(above(np.log(whole)[:, None])[:, 0] >= 0, whole, high)
    return list(zip(high[:count].tolist(), high[count:].tolist(), strict=True))


def _least_roots(
    above: Callable[[Floats], Floats], points: Floats, values: Floats
) -> tuple[Floats, Floats]:
    """Where rising functions reach 0, each between two ends; `above` gives their values at points
    (n, k), rising in a row, of which the first ones are told.

    A round asks for the root that a straight line tells and for a point on either side of it, the
    nearer the narrower the ends are: where the function is smooth, that squares what is left.
    """
    row = np.arange(len(points))
    for _ in range(_MOST_ROUNDS):
        first = _first_enough(values)
        last = np.maximum(first - 1, 0)
        low, high = points[row, last], points[row, first]
        width = high - low
        if (width <= _FINE).all():
            break
        below, over = values[row, last], values[row, first]
        share = np.where(over > below, below / np.minimum(below - over, -_TINY), 0.5)
        near = low + width * np.where(np.isfinite(share), share, 0.5)
        reach = _REACH * width * np.minimum(1.0, width)
        between = np.clip(near[:, None] + reach[:, None] * _SIDES, low[:, None], high[:, None])
        points = np.column_stack([low, between, high])
        values = np.column_stack([below, above(between), over])
    return low, high


def _first_enough(values: Floats) -> NDArray[np.intp]:
    """The first of each row's points at which it is reached; the last one always is."""
    reached = values >= 0
    reached[:, -1] = True
    return np.asarray(reached.argmax(axis=1))


class _Above:
    """Tells for all starts how far above the target so much bandwidth, and so many IOPS, are."""

    def __init__(self, starts: Sequence[_Start], rows: Rows, target: float) -> None:
        candidates = [one.candidate for one in starts]
        self.disks = DiskTable.of([one.spec.disk.rate for one in candidates])
        self._starts = candidates
        self._asked = [(one.spec.offer, one.workload) for one in candidates] * 2
        self._rows = rows
        self._each = np.log([[target / one.spec.count] for one in candidates] * 2)

    def __call__(self, points: Floats) -> Floats:
        """Log of what is surely reached over what is asked for; `points` (2n, k) are logs of MiB/s
        in the first half and of IOPS in the second."""
        return self._reached(points) - self._each

    def known(self, points: Floats) -> Floats:
        """The same at points that are always those of a start: kept for the disks of the catalogue,
        since no target changes what is reached there."""
        kept, keys = self._rows.reached, [_key(one) for one in self._starts]
        if any(key not in kept for key in keys):
            reached = self._reached(points).reshape(2, len(keys), -1)
            kept = kept | {key: reached[:, at] for at, key in enumerate(keys)}
            steps = [key for key, one in zip(keys, self._starts, strict=True)
                     if self._rows.is_step(one.spec.disk)]  # fmt: skip
            self._rows.reached.update((key, kept[key]) for key in steps)
        return np.concatenate([[kept[key][part] for key in keys] for part in (0, 1)]) - self._each

    def _reached(self, points: Floats) -> Floats:
        count = len(points) // 2
        rate, iops = np.full_like(points, np.inf), np.full_like(points, np.inf)
        rate[:count], iops[count:] = np.exp(points[:count]), np.exp(points[count:])
        latency = np.tile(self.disks.latency_seconds, 2)[:, None] + np.zeros_like(points)
        return self._rows.log_lowers(self._asked, DiskTable(rate, iops, latency))


def _key(one: Candidate) -> tuple[int, int, int]:
    return id(one.spec.offer), id(one.workload), id(one.spec.disk.rate)


def _least_order(one: _Start, needs: tuple[float, float]) -> DiskChoice:
    """First less rate, then fewer IOPS, or less size where size is what buys rate."""
    rule, order = one.rule, one.order

    def gives(parts: Parts) -> bool:
        sustained = rule.sustained(*parts)
        told = zip(sustained, one.most, needs, strict=True)
        return all(min(own, most) >= need for own, most, need in told)

    rate, iops = order.mib_per_second, order.iops
    if rate is not None:
        rate = _least(
            rule.provision_mib_s_min or 1.0, rate, 1.0,
            lambda at: gives(parts_for(rule, one.needed_gib, iops, at)),
        )  # fmt: skip
    if iops is not None:
        least = max(
            rule.provision_iops_min or 1.0,
            (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf),
            rule.included_iops(one.needed_gib) or 0.0,
        )
        iops = _least(
            least, iops, IOPS_STEP, lambda at: gives(parts_for(rule, one.needed_gib, at, rate))
        )
    parts = parts_for(rule, one.needed_gib, iops, rate)
    if iops is None and rate is None and order.size_gib and rule.provision_iops_max is None:
        size = _least(one.needed_gib, order.size_gib, 1.0, lambda at: gives((at, None, None)))
        parts = size, None, None
    if not gives(parts):
        return order
    size_gib, iops, rate = parts
    return DiskChoice(type=order.type, size_gib=size_gib, iops=iops, mib_per_second=rate)


def _least(low: float, high: float, unit: float, enough: Callable[[float], bool]) -> float:
    """The least of `low`, `low + unit`, .. that is enough; `high` where none before it is."""
    first, last = 0, max(0, math.ceil((high - low) / unit))
    while first < last:
        middle = (first + last) // 2
        if enough(low + middle * unit):
            last = middle
        else:
            first = middle + 1
    return min(low + first * unit, max(low, high))
