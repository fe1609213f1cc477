"""Searches disk orders between the catalogue's steps, for the instances worth showing.

The ladder shows which instances answer at all. Those that may be chosen or shown are searched for the order
with which they rank first: the least one that reaches a target, or the one that makes a run or a sample
cheapest. What is found is predicted at every batch size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog import Catalog, DiskRule
from advisor.domain import Disk, DiskChoice
from advisor.engine.columns import Booleans, Floats, Integers
from advisor.engine.disks import IOPS_STEP, order_attached, parts_for
from advisor.engine.limits import MOST_INSTANCES, answering, at_count, completed, deciding, rank, with_runs
from advisor.engine.table import Table, best_of_each, distinct, is_among
from advisor.questions.network import NetworkQuestion

# Orders between the ends that are tried at once, and how often at most. A round leaves a quarter of
# the range: 4 ** 8 steps are more than there are whole units.
_BETWEEN = 7
_ROUNDS = 8
# Two ways to the same point of the range end this near to each other.
_SAME = 1e-9
# What rows are sorted by, the least first: dollars beyond the price allowed, the rank, and less rate.
_Keys = tuple[Floats, Floats, Floats]


def with_fitted_disks(
    request: NetworkQuestion, catalog: Catalog, table: Table, rows: Booleans, last_shown: float = math.inf
) -> Table:
    """The (completed) table with more rows: of the `rows` those instances that may be chosen or
    shown, with the disk orders that suit them best. `last_shown` is the rank beyond which nothing
    is shown, whatever is found here."""
    if request.disk is not None:
        return table
    if request.max_usd_per_hour is not None:
        # Whatever is shown, no type is too dear that answers with some disk.
        answers = np.zeros(len(table.names), dtype=bool)
        answers[table.kind[answering(request, table)]] = True
        every = replace(request, max_results=len(table) + 1)
        dear = rows & ~answers[table.kind]
        table = _Fitting(every, catalog, math.inf).fitted(table, dear)
        rows = np.concatenate([rows, np.ones(len(table) - len(rows), dtype=bool)])
    if request.max_run_usd is not None:
        # A step is too slow and the next one too dear: what lies between may keep the limit.
        anyhow = replace(request, max_run_usd=None, max_results=len(table) + 1)
        table = _Fitting(anyhow, catalog, math.inf, by_limit=True).fitted(table, rows)
        rows = np.concatenate([rows, np.ones(len(table) - len(rows), dtype=bool)])
    return _Fitting(request, catalog, last_shown).fitted(table, rows)


class _Fitting(Struct, frozen=True):
    """One search over all instances. `by_limit`: what the run may cost is what ranks."""

    request: NetworkQuestion
    catalog: Catalog
    last_shown: float
    by_limit: bool = False

    def fitted(self, table: Table, rows: Booleans) -> Table:
        """The table with the orders that were found, at every batch."""
        good = np.flatnonzero(rows & self._enough(table))
        if not len(good):
            return table
        wider, keys = table, self._keys(table)
        last_shown, limits = self._limits(table, keys, good, self.last_shown)
        slow = self._on_hard_disks(table, keys, good, limits)
        if slow is not None and len(slow):
            wider = table.beside(slow)
            good = np.concatenate([good, np.arange(len(table), len(wider))])
            keys = self._keys(wider)
            _, limits = self._limits(wider, keys, good, last_shown)
        starts = self._worth_fitting(wider, keys, good, limits)
        return self._at_every_batch(table, wider, self._cheapest_orders(wider, starts))

    def _enough(self, table: Table) -> Booleans:
        return answering(self.request, table, but_for=("over_max_price",))

    def _rank(self, table: Table) -> Floats:
        hours = deciding(self.request, table).hours
        return hours * table.usd if self.by_limit and hours is not None else rank(self.request, table)

    def _beyond(self, table: Table) -> Floats:
        """What is too dear comes after all that is not, the least dear first: where samples count,
        an order beyond the price would else hide those within it."""
        most = self.request.max_usd_per_hour
        return np.zeros(len(table)) if most is None else np.maximum(0.0, table.usd - most)

    def _keys(self, table: Table) -> _Keys:
        return self._beyond(table), self._rank(table), -table.lower

    def _limits(self, table: Table, keys: _Keys, good: Integers, last_shown: float) -> tuple[float, Floats]:
        """The rank of the last that is shown, and the rank each row's offer must beat."""
        best = _best_of(keys, good, table.option[good])
        beyond, rank, _ = keys
        ranks = np.where(beyond[best] > 0, np.inf, rank[best])
        last = np.sort(ranks)[: self.request.max_results]
        last_shown = min(last_shown, float(last[-1]))
        limits = np.full(int(table.option.max()) + 1, -np.inf)
        limits[table.option[best]] = np.minimum(last_shown, ranks)
        return last_shown, limits

    def _on_hard_disks(self, table: Table, keys: _Keys, good: Integers, limits: Floats) -> Table | None:
        """Hard disks that could come out ahead on instances that answer, at their best batch."""
        best = _best_of(keys, good, table.option[good])
        least = self._least(table, best, np.zeros(len(best)))
        best = best[_may_win(least, limits[table.option[best]])]
        pairs = [
            (row, disk)
            for row in _at_best_batch(table, good, best).tolist()
            for disk in table.source.options[table.option[row]].slow_disks
        ]
        if not pairs:
            return None
        rows = np.array([row for row, _ in pairs])
        shares = np.array([_share(self.request, disk) * disk.usd_per_hour for _, disk in pairs])
        worth = np.flatnonzero(_may_win(self._least(table, rows, shares), limits[table.option[rows]]))
        if not len(worth):
            return None
        made = self._ordered(table, rows[worth], [pairs[index][1] for index in worth.tolist()])
        return made.take(self._enough(made))

    def _worth_fitting(self, table: Table, keys: _Keys, good: Integers, limits: Floats) -> Integers:
        """The best start of each offer and disk type that could still come out ahead: of the same
        offer with another disk, and of the last that would be shown."""
        columns = np.column_stack([table.option[good], table.count[good], table.disk_type[good]])
        groups = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
        best = _best_of(keys, good, groups)
        if self.request.max_usd_per_hour is not None:
            # Less of what is too dear may be better than more of what is not.
            dear = good[best_of_each(groups, *(key[good] for key in keys[1:]))]
            best = distinct(np.concatenate([best, dear]))
        best = best[np.array([table.disk[row].price is not None for row in best], dtype=bool)]
        least = self._least(table, best, np.array([self._least_disk_usd(table, row) for row in best]))
        best = best[_may_win(least, limits[table.option[best]])]
        return _at_best_batch(table, good, best)

    def _least_disk_usd(self, table: Table, row: int) -> float:
        """The least that the row's disk costs: its size holds the data, and its rate may be given up."""
        search = _Search.of(self.catalog, table, row)
        disk, rule = search.disk, search.rule
        if disk.choice.iops is None or rule.provision_iops_min is None:
            return _share(self.request, disk) * disk.usd_per_hour
        rate = rule.provision_mib_s_min if disk.choice.mib_per_second is not None else None
        size, iops, rate = parts_for(rule, search.needed_gib, rule.provision_iops_min, rate)
        order = replace(disk.choice, size_gib=size, iops=iops, mib_per_second=rate)
        return min(disk.usd_per_hour, order_attached(self.catalog, table.offer(row), order).usd_per_hour)

    def _least(self, table: Table, rows: Integers, disk_usd: Floats) -> Floats:
        """The least cost of rows with a disk of that price at their upper bound; inf beyond the limit."""
        request = self.request
        usd = table.count[rows] * (table.offer_usd[rows] + disk_usd)
        usd = np.where(usd > (request.max_usd_per_hour or math.inf), np.inf, usd)
        if request.ranks_by_price:
            return usd
        return usd / (table.upper[rows] * 3600) * (request.run_samples or 1e6)

    def _ordered(self, table: Table, rows: Integers, disks: Sequence[Disk]) -> Table:
        """Rows with other disks, on as many instances as before, so that more disk is never slower."""
        count = table.count[rows]
        made = with_runs(self.request, table.with_orders(rows, disks))
        return at_count(made, count)

    def _at_every_batch(self, table: Table, wider: Table, orders: Sequence[tuple[int, Disk]]) -> Table:
        """The table with the orders that are not its own at every batch of their offers."""
        wanted = [
            (option, disk)
            for option, disk in ((int(wider.option[row]), disk) for row, disk in orders)
            if not any(disk is step for step in wider.source.options[option].disks)
        ]
        wanted.sort(key=lambda order: order[0])
        if not wanted:
            return table
        return table.beside(completed(self.request, wider.source.with_disks(wanted)))

    def _cheapest_orders(self, table: Table, starts: Integers) -> list[tuple[int, Disk]]:
        """The order from each start on that makes a run, or a sample, cheapest: less or more of
        rate, of IOPS, of both together, or of the size that buys them. An order replaces another
        only where it ranks before it."""
        searches = [_Search.of(self.catalog, table, row) for row in starts.tolist()]
        some = self._ranked(table.take(starts))
        for search, keys in zip(searches, some, strict=True):
            search.rank = keys
        for part in _TURNS_BY_PRICE if self.request.ranks_by_price else _TURNS:
            turned = [search for search in searches if search.begin(part)]
            for unit in (0.0, *[_UNITS[part]] * (_ROUNDS - 1)):
                self._close_in(table, turned, part, unit)
            for search in turned:
                search.settled[part] = search.disk.choice
        return [(search.start, search.disk) for search in searches]

    def _close_in(self, table: Table, searches: Sequence[_Search], part: str, unit: float) -> None:
        """One round: try orders between the ends of every search, where these are further apart
        than `unit`; keep the best, and its neighbours as the new ends."""
        tried = [(search, *new) for search in searches for new in search.untried(part, unit)]
        if tried:
            disks = [
                order_attached(self.catalog, table.offer(search.start), order) for search, _, order in tried
            ]
            made = self._ordered(table, np.array([search.start for search, *_ in tried]), disks)
            answers = zip(tried, disks, self._enough(made).tolist(), self._ranked(made), strict=True)
            for (search, value, _), disk, enough, keys in answers:
                if enough and keys < search.rank:
                    search.rank, search.disk, search.value = keys, disk, value
        for search in searches:
            search.narrow()

    def _ranked(self, table: Table) -> list[tuple[float, float, float]]:
        return list(zip(*(column.tolist() for column in self._keys(table)), strict=True))


class _Search(Struct):
    """The best order so far of a start, the range of the part that is varied, and where the other
    parts left the order: `base`, which was best before."""

    start: int
    disk: Disk
    rule: DiskRule
    needed_gib: float
    base: DiskChoice
    rank: tuple[float, float, float] = (0.0, 0.0, 0.0)
    low: float = 0.0
    value: float = 0.0
    high: float = 0.0
    tried: list[float] = field(default_factory=list)
    known: set[DiskChoice] = field(default_factory=set)
    settled: dict[str, DiskChoice] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: Catalog, table: Table, row: int) -> _Search:
        """A search from a row of the table on."""
        disk, offer = table.disk[row], table.offer(row)
        disks = catalog.disks_of(offer.instance.cloud)
        dataset_gib = table.source.request.dataset.total_mib / 1024
        return cls(
            start=row,
            disk=disk,
            rule=disks.rules[disk.choice.type],
            needed_gib=disks.fitting_size(disk.choice.type, dataset_gib),
            base=disk.choice,
        )

    def begin(self, part: str) -> bool:
        """Whether the part can be varied, and something has changed since it was."""
        self.base = self.disk.choice
        if self.settled.get(part) == self.base:
            return False
        span = self._span(part)
        if span is None or span[2] <= span[0]:
            return False
        self.low, self.value, self.high = span
        return True

    def between(self, unit: float) -> list[float]:
        """The lower end and points up to the higher one, each in the same ratio to the next."""
        if self.high - self.low <= unit:
            return []
        step = (self.high / self.low) ** (1 / (_BETWEEN + 1))
        return [self.low * step**number for number in range(_BETWEEN + 1)]

    def untried(self, part: str, unit: float) -> Iterator[tuple[float, DiskChoice]]:
        """The points, and their orders but those that another point had: they win no more."""
        self.tried = self.between(unit)
        for value in self.tried:
            order = self.order(part, value)
            if order not in self.known:
                self.known.add(order)
                yield value, order

    def narrow(self) -> None:
        """The neighbours of the best point become the ends."""
        points = (*self.tried, self.high)
        self.low = max((point for point in points if point < self.value * (1 - _SAME)), default=self.low)
        self.high = min((point for point in points if point > self.value * (1 + _SAME)), default=self.value)

    def order(self, part: str, value: float) -> DiskChoice:
        """The order that is sold and gives so much of the part."""
        iops, rate = self.base.iops, self.base.mib_per_second
        if part == "size":
            return replace(self.base, size_gib=self.rule.size_for(float(math.ceil(value))))
        if part == "both":
            iops, rate = value * (iops or 0), value * (rate or 0)
        elif part == "rate":
            rate = value
        else:
            iops = value
        size, iops, rate = parts_for(self.rule, self.needed_gib, iops, rate)
        return replace(self.base, size_gib=size, iops=iops, mib_per_second=rate)

    def _span(self, part: str) -> tuple[float, float, float] | None:
        """The lowest, present and highest value of a part that is sold; None where it is not."""
        iops, rate, rule = self.base.iops, self.base.mib_per_second, self.rule
        most_rate = rule.provision_mib_s_max or rate
        most_iops = rule.provision_iops_max or iops
        if part == "size":
            size = self.base.size_gib
            if size is None or rule.provision_iops_max is not None:
                return None
            return self.needed_gib, size, min(2 * size, rule.max_gib)
        if part == "rate" and rate is not None:
            return rule.provision_mib_s_min or 1.0, rate, most_rate or rate
        if part == "iops" and iops is not None:
            # More may be worth it where no rate has to go with it.
            least = (rate or 0.0) / (rule.provision_mib_s_per_iops or math.inf)
            most = iops if rate else most_iops or iops
            return max(rule.provision_iops_min or 1, least), iops, most
        if part == "both" and iops is not None and rate is not None:
            least = min((rule.provision_iops_min or 1.0) / iops, (rule.provision_mib_s_min or 1.0) / rate)
            return least, 1.0, min((most_iops or iops) / iops, (most_rate or rate) / rate, 2.0)
        return None


_UNITS = {"rate": 1.0, "iops": IOPS_STEP, "both": 0.001, "size": 1.0}
# What is worth buying of both together depends on what each alone can do without, and the reverse.
_TURNS_BY_PRICE = ("rate", "iops", "size")
_TURNS = ("rate", "iops", "both", "rate", "iops", "both", "rate", "iops", "rate", "size")


def _best_of(keys: _Keys, good: Integers, groups: Integers) -> Integers:
    """The best good row of each group."""
    return good[best_of_each(groups, *(key[good] for key in keys))]


def _at_best_batch(table: Table, good: Integers, rows: Integers) -> Integers:
    """For each row the good one of its spec that has the highest lower bound: it bears the least
    disk, and the larger one of those that the disk holds back alike gains most by a faster disk."""
    spec = table.spec * (MOST_INSTANCES + 1) + table.count
    same = good[is_among(spec[good], spec[rows])]
    best = same[best_of_each(spec[same], -table.lower[same], -table.batch[same])]
    return best[np.searchsorted(spec[best], spec[rows])]


def _share(request: NetworkQuestion, disk: Disk) -> float:
    """The least part of a disk that is needed: its IOPS may be given up, its size holds the data."""
    if disk.choice.iops is not None:
        return 0.0
    return min(1.0, request.dataset.total_mib / 1024 / disk.size_gib)


def _may_win(least: Floats, limits: Floats) -> Booleans:
    return (least <= limits) & (least < np.inf)
