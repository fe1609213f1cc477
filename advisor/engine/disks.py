"""Finds disk orders between the coarse sizes that the catalogue proposes.

For a language model's weights, the smallest order of a type that reads fast enough is taken (`least_order`).
For networks, the catalogue's sizes say which instances answer at all. For those that may be chosen or shown,
a search of `Orders` finds the one that ranks best: the smallest that reaches a target, or the one that makes
a run or a sample cheapest. It is then predicted at every batch size."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog import Catalog, DiskRule
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import Disk, DiskChoice, Offer, Rejected
from advisor.engine.candidates import attached_disks, rejected_offer
from advisor.engine.columns import Booleans, Floats, Integers, Level
from advisor.engine.limits import MOST_INSTANCES, answering, at_count, completed, level_of, rank, with_runs
from advisor.engine.table import Table, best_of_each
from advisor.messages import Message
from advisor.questions.network import NetworkQuestion
from advisor.questions.spec import SpecQuestion

# IOPS are ordered in round numbers: nobody orders 5,473.
_IOPS_STEP = 10.0
# The parts of an order that can be varied, with the smallest step; `both` is a factor of rate and IOPS.
UNITS = {"rate": 1.0, "iops": _IOPS_STEP, "both": 0.001, "size": 1.0}
# Orders between the ends of a range that one round tries.
_BETWEEN = 7
_WEIGHTS = Message("the weights")
# The most rounds of a search over one part of an order. A round leaves a quarter of the range, and no range
# has 4 ** 8 whole units.
_ROUNDS = 8
# Two computations of the same amount of a part differ by up to this share.
_SAME = 1e-9
# The sort keys of rows, least first: dollars beyond the price limit, the rank, and the negative rate.
_Keys = tuple[Floats, Floats, Floats]
# The order in which parts are varied. The best amounts of `both`, rate and IOPS depend on each other.
_TURNS_BY_PRICE = ("rate", "iops", "size")
_TURNS = ("rate", "iops", "both", "rate", "iops", "both", "rate", "iops", "rate", "size")


def disks_by_price(
    request: SpecQuestion, catalog: Catalog, offer: Offer, weights_gib: float
) -> list[Disk] | Rejected:
    """Disks that hold the weights, cheapest first; local ones only for a run, or if the request has one."""
    attached = attached_disks(request, catalog, offer, weights_gib, _WEIGHTS)
    if isinstance(attached, Rejected):
        return attached
    own = request.ends or request.disk is not None or LOCAL in request.disk_types
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
    """For each network disk that reads at `mib_per_second` or more, a smaller order of its type that does."""
    sold, least = catalog.disks_of(offer.instance.cloud), []
    for disk in disks:
        kind = disk.choice.type
        if kind == LOCAL or (disk.rate.read_mib_per_second or math.inf) < mib_per_second:
            continue
        needed, most = sold.fitting_size(kind, data_gib), sold.instance_limits(offer.instance, kind)
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
    """The smallest order that gives `needs` (MiB/s, IOPS), as `order` does, where the instance passes on
    `most`. It lowers the rate, then IOPS, or the size where that buys rate, though not below `needed_gib`."""
    sold, rate, iops = Orders(rule, needed_gib), order.mib_per_second, order.iops

    def gives(tried: DiskChoice) -> bool:
        sustained = rule.sustained(tried.size_gib or 0.0, tried.iops, tried.mib_per_second)
        return all(min(own, passed) >= need for own, passed, need in zip(sustained, most, needs, strict=True))

    if rate is not None:
        least = rule.provision_mib_s_min or 1.0
        rate = _least(least, rate, 1.0, lambda rate: gives(sold.giving(order, iops, rate)))
    if iops is not None:
        least = max(
            rule.provision_iops_min or 1.0,
            (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf),
            rule.included_iops(needed_gib) or 0.0,
        )
        iops = _least(least, iops, _IOPS_STEP, lambda iops: gives(sold.giving(order, iops, rate)))
    found = sold.giving(order, iops, rate)
    if iops is None and rate is None and order.size_gib and rule.provision_iops_max is None:
        size = _least(needed_gib, order.size_gib, 1.0, lambda gib: gives(replace(order, size_gib=gib)))
        found = replace(order, size_gib=rule.size_for(size))
    return found if gives(found) else order


def _least(low: float, high: float, unit: float, enough: Callable[[float], bool]) -> float:
    """The least of `low`, `low + unit`, .. that is enough, by bisection; `high` where none below it is."""
    numbers = range(max(0, math.ceil((high - low) / unit)))
    first = bisect_left(numbers, True, key=lambda number: enough(low + number * unit))
    return min(low + first * unit, max(low, high))


class Orders(Struct, frozen=True):
    """The orders that a disk type sells for disks that hold `needed_gib`."""

    rule: DiskRule
    needed_gib: float

    def least(self, order: DiskChoice) -> DiskChoice:
        """The smallest order that provisions the same as `order` does: rate, IOPS, or neither."""
        return self.giving(order, order.iops and 1.0, order.mib_per_second and 1.0)

    def range_of(self, order: DiskChoice, part: str) -> tuple[float, float, float] | None:
        """The lowest, present and highest amount of a `part` (of `UNITS`); None where it cannot be varied."""
        iops, rate, rule = order.iops, order.mib_per_second, self.rule
        most_rate = rule.provision_mib_s_max or rate
        most_iops = rule.provision_iops_max or iops
        if part == "size":
            size = order.size_gib
            if size is None or rule.provision_iops_max is not None:
                return None
            return self.needed_gib, size, min(2 * size, rule.max_gib)
        if part == "rate" and rate is not None:
            return rule.provision_mib_s_min or 1.0, rate, most_rate or rate
        if part == "iops" and iops is not None:
            # More IOPS may pay only where the order does not also provision a rate.
            least = (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf)
            most = iops if rate else most_iops or iops
            return max(rule.provision_iops_min or 1, least), iops, most
        if part == "both" and iops is not None and rate is not None:
            least = min((rule.provision_iops_min or 1.0) / iops, (rule.provision_mib_s_min or 1.0) / rate)
            return least, 1.0, min((most_iops or iops) / iops, (most_rate or rate) / rate, 2.0)
        return None

    def with_part(self, order: DiskChoice, part: str, amount: float) -> DiskChoice:
        """The smallest order like `order` with at least this amount of a part."""
        iops, rate = order.iops, order.mib_per_second
        if part == "size":
            return replace(order, size_gib=self.rule.size_for(float(math.ceil(amount))))
        if part == "both":
            iops, rate = amount * (iops or 0), amount * (rate or 0)
        elif part == "rate":
            rate = amount
        else:
            iops = amount
        return self.giving(order, iops, rate)

    def giving(self, order: DiskChoice, iops: float | None, rate: float | None) -> DiskChoice:
        """The smallest order with at least these IOPS and this rate (None: not provisioned)."""
        rule = self.rule
        if rate is not None:
            rate = max(float(math.ceil(rate)), rule.provision_mib_s_min or 1.0)
        if iops is not None:
            ratio = rule.provision_mib_s_per_iops or math.inf
            least = max(iops, (rate or 0.0) / ratio, rule.provision_iops_min or 1.0)
            iops = min(_IOPS_STEP * math.ceil(least / _IOPS_STEP), rule.provision_iops_max or math.inf)
        size = min(rule.size_for(self.needed_gib, iops), rule.max_gib)
        return replace(order, size_gib=size, iops=iops, mib_per_second=rate)


@lru_cache(maxsize=4096)
def orders_between(
    orders: Orders, order: DiskChoice, part: str, low: float, high: float
) -> tuple[tuple[float, DiskChoice], ...]:
    """Amounts of a part from `low` up to below `high`, in a constant ratio, each with its order. They are
    cached, since most questions try the same ones."""
    step = (high / low) ** (1 / (_BETWEEN + 1))
    amounts = (low * step**number for number in range(_BETWEEN + 1))
    return tuple((amount, orders.with_part(order, part, amount)) for amount in amounts)


def order_attached(catalog: Catalog, offer: Offer, order: DiskChoice) -> Disk:
    """The disk that an order of known size gives on the offer's instance, at the price of its region."""
    return catalog.disks_of(offer.instance.cloud).attach(offer.instance, order, offer.region)


def with_fitted_disks(
    request: NetworkQuestion, catalog: Catalog, table: Table, rows: Booleans, last_shown: float
) -> Table:
    """The (completed) table, followed by rows with the best disk orders for those instances among `rows`
    that may be chosen or shown. Rows with a rank above `last_shown` are never shown."""
    if request.disk is not None:
        return table
    if request.max_usd_per_hour is not None:
        # Types are not rejected as too dear if they answer with some disk, even if they are not shown.
        answers = np.zeros(len(table.names), dtype=bool)
        answers[table.kind[answering(request, table)]] = True
        every = replace(request, max_results=len(table) + 1)
        table = _Fitting(every, catalog, math.inf).fitted(table, rows & ~answers[table.kind])
        rows = np.append(rows, np.ones(len(table) - len(rows), dtype=bool))
    if request.max_run_usd is not None:
        # Where one size is too slow and the next too dear, a size between them may meet the limit.
        anyhow = replace(request, max_run_usd=None, max_results=len(table) + 1)
        table = _Fitting(anyhow, catalog, math.inf, by_limit=True).fitted(table, rows)
        rows = np.append(rows, np.ones(len(table) - len(rows), dtype=bool))
    return _Fitting(request, catalog, last_shown).fitted(table, rows)


class _Fitting(Struct, frozen=True):
    """A search for disk orders for all instances; if `by_limit`, rows rank by the cost of the run."""

    request: NetworkQuestion
    catalog: Catalog
    last_shown: float
    by_limit: bool = False

    def fitted(self, table: Table, rows: Booleans) -> Table:
        """The table, followed by rows with the orders found, at every batch size."""
        able = table.take(np.flatnonzero(rows))
        able = able.take(self._meets_limits(able))
        if not len(able):
            return table
        keys = self._keys(able)
        limits = self._ranks_to_beat(able, keys, best_of_each(able.option, *keys))
        orders = self._cheapest_orders(able, self._worth_fitting(able, keys, limits))
        wanted = [
            (option, disk)
            for option, disk in ((int(able.option[row]), disk) for row, disk in orders)
            if not any(disk is step for step in table.source.options[option].disks)
        ]
        if not wanted:
            return table
        wanted.sort(key=lambda order: order[0])
        return table.beside(completed(self.request, table.source.with_disks(wanted)))

    def _meets_limits(self, table: Table) -> Booleans:
        return answering(self.request, table, but_for=("over_max_price",))

    def _keys(self, table: Table) -> _Keys:
        """The sort keys of rows. Rows above the price limit come last: if rows rank by the cost of samples, a
        row above the limit could otherwise hide those within it."""
        most = self.request.max_usd_per_hour
        beyond = np.zeros(len(table)) if most is None else np.maximum(0.0, table.usd - most)
        if self.by_limit and table.hours is not None:
            return beyond, table.hours[level_of(self.request)] * table.usd, -table.lower
        return beyond, rank(self.request, table), -table.lower

    def _ranks_to_beat(self, table: Table, keys: _Keys, best: Integers) -> Floats:
        """The rank that each option must beat: of its `best` row, or of the last spec to show."""
        beyond, rank, _ = keys
        ranks = np.where(beyond[best] > 0, np.inf, rank[best])
        last_shown = min(self.last_shown, float(np.sort(ranks)[: self.request.max_results][-1]))
        limits = np.full(int(table.option.max()) + 1, -np.inf)
        limits[table.option[best]] = np.minimum(last_shown, ranks)
        return limits

    def _worth_fitting(self, table: Table, keys: _Keys, limits: Floats) -> Integers:
        """The rows to start searches from: the best of each offer and disk type that could still beat the
        offer's other disks and the last spec to show."""
        types, number = np.unique(table.disk_type, return_inverse=True)
        groups = (table.option * (MOST_INSTANCES + 1) + table.count) * len(types) + number
        best = best_of_each(groups, *keys)
        if self.request.max_usd_per_hour is not None:
            # A smaller order of a disk that is too dear may be better than a larger one of another.
            best = np.unique(np.concatenate([best, best_of_each(groups, *keys[1:])]))
        best = best[np.array([disk.price is not None for disk in table.disk[best]], dtype=bool)]
        least = self._least_usd(table, best, table.disk[best].tolist())
        return _at_best_batch(table, best[self._may_win(table, best, least, limits)])

    def _least_usd(self, table: Table, rows: Integers, disks: Sequence[Disk]) -> Floats:
        """The dollars per hour of the smallest order of each disk's type on the row's offer, (rows,)."""
        known, usd = dict[tuple[object, ...], float](), []
        for row, disk in zip(rows.tolist(), disks, strict=True):
            offer, order = table.offer(row), disk.choice
            named = order.iops is None, order.mib_per_second is None
            key = offer.instance.cloud, offer.region, order.type, named
            if key not in known:
                least = self._orders(table, row, order.type).least(order)
                known[key] = order_attached(self.catalog, offer, least).usd_per_hour
            usd.append(known[key])
        return np.array(usd)

    def _orders(self, table: Table, row: int, disk_type: str) -> Orders:
        disks = self.catalog.disks_of(table.offer(row).instance.cloud)
        dataset_gib = table.source.request.dataset.total_mib / 1024
        return Orders(disks.rules[disk_type], disks.fitting_size(disk_type, dataset_gib))

    def _may_win(self, table: Table, rows: Integers, disk_usd: Floats, limits: Floats) -> Booleans:
        """A mask of the rows that could rank within the limits at these disk prices and the best rates."""
        request = self.request
        usd = table.count[rows] * (table.offer_usd[rows] + disk_usd)
        least = usd
        if not request.ranks_by_price:
            least = usd / (table.rates[Level.HOPED, rows] * 3600) * (request.run_samples or 1e6)
        allowed = usd <= (request.max_usd_per_hour or math.inf)
        return np.asarray(allowed & (least <= limits[table.option[rows]]) & (least < np.inf))

    def _rows_with_disks(self, table: Table, rows: Integers, disks: Sequence[Disk]) -> Table:
        """The rows with other disks on as many instances as before, so that a larger disk is never slower."""
        made = table.source.rows_with(table.row[rows], table.option[rows], disks, np.arange(len(rows)))
        return at_count(with_runs(self.request, replace(made, count=table.count[rows])), table.count[rows])

    def _cheapest_orders(self, table: Table, starts: Integers) -> list[tuple[int, Disk]]:
        """For each start its row and the best disk found by varying its rate, IOPS, both together, or the
        size that includes them. An order replaces another only if it ranks before it."""
        disks, keys = table.disk[starts].tolist(), self._key_rows(table.take(starts))
        ranked = zip(starts.tolist(), disks, keys, strict=True)
        searches = [
            _Search(start, disk, self._orders(table, start, disk.choice.type), keys, disk.choice)
            for start, disk, keys in ranked
        ]
        for part in _TURNS_BY_PRICE if self.request.ranks_by_price else _TURNS:
            turned = [search for search in searches if search.begin(part)]
            going, unit = turned, 0.0
            for _ in range(_ROUNDS):
                going = [search for search in going if search.high - search.low > unit]
                self._try_between(table, going)
                unit = UNITS[part]
            for search in turned:
                search.settled[part] = search.disk.choice
        return [(search.start, search.disk) for search in searches]

    def _try_between(self, table: Table, searches: Sequence[_Search]) -> None:
        """Run one round: try orders between the ends of every search, keep the best, and make its neighbours
        the new ends."""
        tried = [(search, *new) for search in searches for new in search.untried()]
        if tried:
            starts = [search.start for search, *_ in tried]
            disks = [
                order_attached(self.catalog, table.offer(search.start), order) for search, _, order in tried
            ]
            made = self._rows_with_disks(table, np.array(starts), disks)
            answers = zip(tried, disks, self._meets_limits(made).tolist(), self._key_rows(made), strict=True)
            for (search, amount, _), disk, enough, keys in answers:
                if enough and keys < search.keys:
                    search.keys, search.disk, search.amount = keys, disk, amount
        for search in searches:
            search.narrow()

    def _key_rows(self, table: Table) -> list[tuple[float, float, float]]:
        return list(zip(*(column.tolist() for column in self._keys(table)), strict=True))


class _Search(Struct):
    """A search from one row: the best disk so far, the range of the part that is varied now (`low`, `high`),
    and `base`, the best order before that."""

    start: int
    disk: Disk
    orders: Orders
    keys: tuple[float, float, float]
    base: DiskChoice
    part: str = ""
    low: float = 0.0
    amount: float = 0.0
    high: float = 0.0
    amounts: Sequence[float] = ()
    tried: set[DiskChoice] = field(default_factory=set)
    settled: dict[str, DiskChoice] = field(default_factory=dict)

    def begin(self, part: str) -> bool:
        """Start to vary a part; False if it cannot be varied, or nothing has changed since it last was."""
        self.part, self.base = part, self.disk.choice
        if self.settled.get(part) == self.base:
            return False
        ends = self.orders.range_of(self.base, part)
        if ends is None:
            return False
        self.low, self.amount, self.high = ends
        return True

    def untried(self) -> Iterator[tuple[float, DiskChoice]]:
        """Amounts between the ends with their orders, except orders that were tried before."""
        between = orders_between(self.orders, self.base, self.part, self.low, self.high)
        self.amounts = [amount for amount, _ in between]
        for amount, order in between:
            if order not in self.tried:
                self.tried.add(order)
                yield amount, order

    def narrow(self) -> None:
        """Make the neighbours of the best amount the new ends."""
        amounts = (*self.amounts, self.high)
        below = bisect_left(amounts, self.amount * (1 - _SAME))
        above = bisect_right(amounts, self.amount * (1 + _SAME))
        self.low = amounts[below - 1] if below else self.low
        self.high = amounts[above] if above < len(amounts) else self.amount


def _at_best_batch(table: Table, rows: Integers) -> Integers:
    """For each row, the row of the same spec at the batch with the highest lower bound, since that needs the
    smallest disk. Of equal bounds the largest batch counts, which gains most from a faster disk."""
    spec = table.spec * (MOST_INSTANCES + 1) + table.count
    same = np.flatnonzero(np.isin(spec, spec[rows]))
    best = same[best_of_each(spec[same], -table.lower[same], -table.batch[same])]
    return best[np.searchsorted(spec[best], spec[rows])]
