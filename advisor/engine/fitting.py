"""Finds the best disk order, between the catalogue's sizes, for each instance that may be shown.

With the catalogue's sizes it is known which instances answer at all. For those that may be chosen or shown, a
search finds the disk order that ranks best: the smallest that reaches a target, or the one that makes a run
or a sample cheapest. It is then predicted at every batch size."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog import Catalog
from advisor.domain import Disk, DiskChoice
from advisor.engine.columns import Booleans, Floats, Integers, Level
from advisor.engine.disks import UNITS, Orders, order_attached, orders_between
from advisor.engine.limits import MOST_INSTANCES, answering, at_count, completed, level_of, rank, with_runs
from advisor.engine.table import Table, best_of_each
from advisor.questions.network import NetworkQuestion

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


def with_fitted_disks(
    request: NetworkQuestion, catalog: Catalog, table: Table, rows: Booleans, last_shown: float = math.inf
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
        made = with_runs(self.request, table.with_orders(rows, disks))
        return at_count(made, table.count[rows])

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
