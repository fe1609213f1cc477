"""The disk that is enough and no more: orders between the coarse steps of the catalogue's ladder.

Every task asks for the least order of a type that gives so much bandwidth and so many IOPS (`least_order`).
What a network needs of them to reach a target is found first, in numbers and for all rows at once: a disk
counts by the scarcer of the two, so that each of them is looked for alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from advisor.catalog import Catalog, DiskRule
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import CacheState, Disk, DiskChoice, Offer, Rejected
from advisor.domain.decision import MISS_COST
from advisor.engine.candidates import attached_disks, rejected_offer
from advisor.engine.columns import Floats, Integers
from advisor.engine.limits import least_first_rate
from advisor.engine.table import Table
from advisor.messages import Message
from advisor.models.bayes import gaussian_multiplier
from advisor.models.performance.machines import DiskTable
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion

# Nobody orders 5,473 IOPS.
IOPS_STEP = 10.0
# What needs less than the range has, which spans this factor, is served by the least order of any
# type. It is cut into so many parts first, and then narrowed to less than any unit that is sold.
_RANGE = math.log(1e4)
_PARTS = 32
_FINE = 1e-7
_MOST_ROUNDS = 10
# The distance from the estimated root to the points beside it, as a share of a wide bracket.
_REACH = 0.05
_SIDES = np.array([-1.0, 0.0, 1.0])
# Where a function rises in steps, no straight line helps: even points leave an eighth in any case.
_EVEN = np.linspace(0.0, 1.0, 9)[1:-1]
# Standard deviations between median and target: what a smaller disk may take of them where there are few,
# and how many are worth a price that rises by so much of its logarithm with each: phi / (2 - Phi), since
# a miss costs the price once more.
_GIVEN_UP = 0.05
_DEVIATIONS = np.linspace(3.0, 0.3, 28)
_RISES = np.array(
    [(norm := NormalDist()).pdf(z) / (1 + MISS_COST * (1 - norm.cdf(z))) for z in _DEVIATIONS.tolist()]
)
_TINY = 1e-300
_WEIGHTS = Message("the weights")
# GiB, IOPS and MiB/s of an order; None is what the size includes.
Parts = tuple[float, float | None, float | None]


def disks_by_price(
    request: SpecQuestion, catalog: Catalog, offer: Offer, weights_gib: float
) -> list[Disk] | Rejected:
    """Disks that hold the weights, cheapest first; the instance's own only if asked for."""
    attached = attached_disks(request, catalog, offer, weights_gib, _WEIGHTS)
    if isinstance(attached, Rejected):
        return attached
    own = request.disk is not None or LOCAL in request.disk_types
    disks = [disk for disk in attached if own or not disk.is_local]
    if not disks:
        return rejected_offer(
            offer,
            "no_disk",
            Message(
                "only its own disk holds the weights, and that is empty after a stop: --disk local takes it"
            ),
        )
    return sorted(disks, key=lambda disk: disk.usd_per_hour)


def least_disks(
    catalog: Catalog, offer: Offer, disks: Iterable[Disk], data_gib: float, mib_per_second: float
) -> list[Disk]:
    """For each network disk larger than needed, the least order of its type that reads as fast."""
    sold, least = catalog.disks_of(offer.instance.cloud), []
    for disk in disks:
        kind = disk.choice.type
        if kind == LOCAL or (disk.rate.read_mib_per_second or math.inf) < mib_per_second:
            continue
        needed, most = sold.fitting_size(kind, data_gib), sold.passed_on(offer.instance, kind)
        order = least_order(sold.rules[kind], disk.choice, needed, most, (mib_per_second, 0.0))
        if order != disk.choice:
            least.append(order_attached(catalog, offer, order))
    return least


def least_order(
    rule: DiskRule,
    order: DiskChoice,
    needed_gib: float,
    most: tuple[float, float],
    needs: tuple[float, float],
) -> DiskChoice:
    """The least order of a type that still gives `needs` (MiB/s, IOPS) where `order` does and the
    instance passes on `most`: first less rate, then fewer IOPS, or less size where size is what
    buys rate; not below `needed_gib`."""

    def gives(parts: Parts) -> bool:
        sustained = rule.sustained(*parts)
        pairs = zip(sustained, most, needs, strict=True)
        return all(min(own, passed) >= need for own, passed, need in pairs)

    rate, iops = order.mib_per_second, order.iops
    if rate is not None:
        rate = _least(
            rule.provision_mib_s_min or 1.0,
            rate,
            1.0,
            lambda rate: gives(parts_for(rule, needed_gib, iops, rate)),
        )
    if iops is not None:
        least = max(
            rule.provision_iops_min or 1.0,
            (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf),
            rule.included_iops(needed_gib) or 0.0,
        )
        iops = _least(least, iops, IOPS_STEP, lambda tried: gives(parts_for(rule, needed_gib, tried, rate)))
    parts = parts_for(rule, needed_gib, iops, rate)
    if iops is None and rate is None and order.size_gib and rule.provision_iops_max is None:
        size = _least(needed_gib, order.size_gib, 1.0, lambda gib: gives((gib, None, None)))
        parts = rule.size_for(size), None, None
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


def parts_for(rule: DiskRule, needed_gib: float, iops: float | None, rate: float | None) -> Parts:
    """The least order of a type that gives so much, where it provisions that at all."""
    if rate is not None:
        rate = max(float(math.ceil(rate)), rule.provision_mib_s_min or 1.0)
    if iops is not None:
        ratio = rule.provision_mib_s_per_iops or math.inf
        least = max(iops, (rate or 0.0) / ratio, rule.provision_iops_min or 1.0)
        iops = min(IOPS_STEP * math.ceil(least / IOPS_STEP), rule.provision_iops_max or math.inf)
    return min(rule.size_for(needed_gib, iops), rule.max_gib), iops, rate


def order_attached(catalog: Catalog, offer: Offer, order: DiskChoice) -> Disk:
    """An order of a known size on the offer's instance, at the price of its region."""
    return catalog.disks_of(offer.instance.cloud).attach(offer.instance, order, offer.region)


class _Start(Struct, frozen=True):
    """A row with what its type of disk sells, and what its instance passes on at most."""

    row: int
    offer: Offer
    disk: Disk
    rule: DiskRule
    needed_gib: float
    most: tuple[float, float]

    @property
    def has_more(self) -> bool:
        """True where a smaller order of its type is sold."""
        order, included = self.disk.choice, self.rule.included_iops(self.needed_gib) or 0.0
        return (
            (order.iops or 0.0) > max(self.rule.provision_iops_min or 0.0, included)
            or (order.mib_per_second or 0.0) > (self.rule.provision_mib_s_min or 0.0)
            or (order.size_gib or 0.0) > self.needed_gib
        )


def least_orders(
    request: NetworkQuestion, catalog: Catalog, table: Table, rows: Integers
) -> list[tuple[int, Disk]]:
    """Rows that reach the target with more than they need, each with the least disk that does."""
    starts = [_start(request, catalog, table, row) for row in rows.tolist()]
    starts = [start for start in starts if start.has_more]
    orders = []
    for start, needs in zip(starts, _needs(request, table, starts), strict=True):
        order = least_order(start.rule, start.disk.choice, start.needed_gib, start.most, needs)
        if order != start.disk.choice:
            orders.append((start.row, order_attached(catalog, start.offer, order)))
    return orders


def _start(request: NetworkQuestion, catalog: Catalog, table: Table, row: int) -> _Start:
    disk, offer = table.disk[row], table.offer(row)
    disks, name = catalog.disks_of(offer.instance.cloud), disk.choice.type
    needed = disks.fitting_size(name, request.dataset.total_mib / 1024)
    most = disks.passed_on(offer.instance, name)
    return _Start(row, offer, disk, disks.rules[name], needed, most)


def _needs(request: NetworkQuestion, table: Table, starts: list[_Start]) -> list[tuple[float, float]]:
    """The least MiB/s and IOPS with which each start reaches the target, each found alone."""
    if not starts:
        return []
    count = len(starts)
    above = _Above(request, table, starts)
    has = np.concatenate([above.disks.mib_per_second, above.disks.iops])
    points = np.log(has)[:, None] - _RANGE * np.linspace(1.0, 0.0, _PARTS + 1)
    low, high = _least_roots(above, points, above.at_steps(points))
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


def _least_roots(above: Callable[[Floats], Floats], points: Floats, values: Floats) -> tuple[Floats, Floats]:
    """The roots of rising functions, each between two ends; `above` gives their values at points (n, k) that
    rise along each row, and `values` are those at the first `points`.

    A round asks for the root of a straight line and for a point on either side of it, the nearer the narrower
    the ends are: where the function is smooth, that squares what is left. Beside them it asks for even
    points."""
    row = np.arange(len(points))
    for _ in range(_MOST_ROUNDS):
        reached = values >= 0
        reached[:, -1] = True  # the last point of a row always is enough
        first = np.asarray(reached.argmax(axis=1))
        last = np.maximum(first - 1, 0)
        low, high = points[row, last], points[row, first]
        width = high - low
        if (width <= _FINE).all():
            break
        below, over = values[row, last], values[row, first]
        share = np.where(over > below, below / np.minimum(below - over, -_TINY), 0.5)
        near = low + width * np.where(np.isfinite(share), share, 0.5)
        reach = _REACH * width * np.minimum(1.0, width)
        sides = np.clip(near[:, None] + reach[:, None] * _SIDES, low[:, None], high[:, None])
        even = low[:, None] + width[:, None] * _EVEN
        between = np.sort(np.column_stack([sides, even]), axis=1)
        points = np.column_stack([low, between, high])
        values = np.column_stack([below, above(between), over])
    return low, high


def _allowed_below(request: NetworkQuestion, table: Table) -> Floats:
    """How far below the target (n,), as a logarithm, the lower bound of each start may lie with less of
    its disk: where its expected cost is least if it costs in proportion to what it gives."""
    doubt, z = np.log(table.median / table.lower), gaussian_multiplier(request.confidence)
    if z == 0:  # the bound is the median
        return np.zeros(len(table))
    with np.errstate(divide="ignore", invalid="ignore"):
        has = z * np.log(table.median / (request.target_throughput or 0.0)) / doubt
    wanted = np.interp(doubt / z * table.disk_usd / table.usd_each, _RISES, _DEVIATIONS)
    keeps = np.clip(np.nan_to_num(has) - _GIVEN_UP, 0.0, wanted)
    return np.asarray(doubt * (z - keeps) / z)


class _Above:
    """How far above what is asked of each start so much bandwidth, and so many IOPS, are."""

    def __init__(self, request: NetworkQuestion, table: Table, starts: list[_Start]) -> None:
        rows = np.array([start.row for start in starts])
        self.disks = DiskTable.of([start.disk.rate for start in starts])
        self._table, self._rows, self._starts = table, rows, starts
        some = table.take(rows)
        target = np.log((request.target_throughput or 0.0) / some.count)
        below = 0.0 if request.is_sure else _allowed_below(request, some)
        self._wanted: dict[CacheState | None, Floats] = {None: target - below}
        first = least_first_rate(request, some)
        if first is not None:  # the first epoch finds nothing in the page cache
            below = 0.0 if request.is_sure else np.log(some.first_median / some.first_lower)
            self._wanted[CacheState.COLD] = np.log(np.broadcast_to(first, len(rows)) / some.count) - below

    def __call__(self, points: Floats) -> Floats:
        """Log of the lower bound over what is asked for, the least of both epochs; `points` (2n, k)
        are logs of MiB/s in the first half and of IOPS in the second."""
        return self._above([self._reached(points, cache) for cache in self._wanted])

    def at_steps(self, points: Floats) -> Floats:
        """The same at a start's usual points, cached, since no target changes what is reached there."""
        count = len(self._starts)
        known = self._table.source.predictions.reached
        keys = [(int(self._table.row[start.row]), start.disk.rate) for start in self._starts]
        if any(key not in known for key in keys):
            levels = [self._reached(points, cache).reshape(2, count, -1) for cache in self._wanted]
            for index, key in enumerate(keys):
                known[key] = np.stack([reached[:, index] for reached in levels])
        every = np.stack([known[key] for key in keys], axis=2)
        return self._above([levels.reshape(2 * count, -1) for levels in every])

    def _above(self, reached: list[Floats]) -> Floats:
        parts = zip(reached, self._wanted.values(), strict=True)
        above = [levels - np.tile(wanted, 2)[:, None] for levels, wanted in parts]
        return np.asarray(np.minimum.reduce(above))

    def _reached(self, points: Floats, cache: CacheState | None) -> Floats:
        count = len(points) // 2
        rate, iops = np.full_like(points, np.inf), np.full_like(points, np.inf)
        rate[:count], iops[count:] = np.exp(points[:count]), np.exp(points[count:])
        has = self.disks
        latency, low, high = (
            np.tile(column, 2)[:, None] + np.zeros_like(points)
            for column in (has.latency_seconds, has.low, has.high)
        )
        disks = DiskTable(rate, iops, latency, low, high)
        return self._table.log_lowers(np.tile(self._rows, 2), disks, cache)
