"""One cloud's tables, each read when it is first needed, and the cheapest of its prices.

There are thousands of types without an accelerator: building each one's record takes longer than
everything else that a recommendation does, so they are looked at unbuilt."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

from advisor.catalog.disks import DiskCatalog
from advisor.catalog.files import Files
from advisor.catalog.instances import InstanceTable, Origin, PartialType
from advisor.catalog.matching import OfferQuery, could_match, matches_instance
from advisor.catalog.prices import (
    NOTHING_TOLD,
    Basis,
    Currency,
    Priced,
    PriceRow,
    PriceTable,
    read_bases,
    told_prices,
)
from advisor.domain import Market, Price
from advisor.records import replace

# A line of prices, and the table it stands in.
Line = tuple[PriceTable, PriceRow, Priced]
_SCANS_KEPT = 2


class Cloud:
    """Types, prices and disks of one cloud; what nobody asks about is not read."""

    def __init__(
        self,
        name: str,
        files: Files,
        origins: Mapping[str, Origin],
        currencies: Mapping[str, Currency],
        capability_of: Callable[[str | None], float | None],
    ) -> None:
        self.name = name
        self._files = files
        self._origins = origins
        self._currencies = currencies
        self._capability_of = capability_of
        self._facts: Mapping[str, Any] = files.manifest["clouds"][name]
        self._tables: dict[str, PriceTable] = {}
        # One question scans for several ends.
        self._scanned: dict[object, list[Line]] = {}
        self._told = NOTHING_TOLD
        self._dearer: dict[str, frozenset[str]] = {}

    @property
    def as_of(self) -> date:
        """Date of the list prices."""
        return date.fromisoformat(self._facts["as_of"])

    @property
    def priced_regions(self) -> tuple[str, ...]:
        """Regions with any price, in order; told by the manifest, so that no table is read."""
        listed: Mapping[str, list[str]] = self._facts["prices"]
        return tuple(sorted({region for regions in listed.values() for region in regions}))

    @cached_property
    def _bases(self) -> dict[str, Basis]:
        return read_bases(self._files, self._origins, self._currencies)

    @property
    def _lacking(self) -> list[str]:
        """Types that lack facts; told by the manifest, so that no table is searched for them."""
        names: list[str] = self._facts["lacking"]
        return names

    @cached_property
    def instances(self) -> InstanceTable:
        """Facts of the types."""
        return InstanceTable(self.name, self._files, self._origins)

    def tell_disk_prices(self, files: Files) -> None:
        """Take the disk prices that an import tells of this cloud."""
        self._told = told_prices(files, self.name, self._currencies, self._told)

    @property
    def has_disks(self) -> bool:
        """Whether anything is known of its disks."""
        return self._files.has(f"catalog/{self.name}_disk_types.csv")

    @cached_property
    def disks(self) -> DiskCatalog:
        """Network disks."""
        return DiskCatalog(self.name, self._files, self._origins, self._told)

    def with_dearer_disks(self, region: str) -> frozenset[str]:
        """Regions where no disk costs less than in this one (equal ones are among them)."""
        if region not in self._dearer:
            regions = self.priced_regions
            dearer = self.disks.no_dearer_than(region, regions) if self.has_disks else regions
            self._dearer[region] = frozenset(dearer)
        return self._dearer[region]

    def scan(self, query: OfferQuery) -> Iterator[Line]:
        """Prices in the regions, on the markets and of the types that are asked for."""
        limit = query.max_usd_per_hour
        for table, row, priced in self._lines(query):
            within = _up_to(limit, priced) if limit else priced
            if within.usd:
                yield table, row, within

    def _lines(self, query: OfferQuery) -> Iterable[Line]:
        """As `scan`, at whatever price."""
        names = self.candidates(query)
        found = (
            (table, row, priced)
            for table in self._prices_in(query.region)
            for row, priced in table.scan(names, query.region, query.market)
        )
        if names is None:
            return found  # everything: too much to be kept
        key = (names, query.region, query.market)
        if key not in self._scanned:
            if len(self._scanned) >= _SCANS_KEPT:
                self._scanned.clear()
            self._scanned[key] = list(found)
        return self._scanned[key]

    def price(self, name: str, region: str, market: Market) -> Price | None:
        """One price; None where it is not known."""
        found = (table.one(name, region, market) for table in self._prices_in(region))
        return next((price for price in found if price), None)

    def candidates(self, query: OfferQuery) -> Collection[str] | None:
        """Names worth a look: a cheap, wider choice than the predicate's own; None: all."""
        if query.instances:
            return frozenset(query.instances)
        if query.accelerated or query.asks_for_gpu:
            return self.instances.accelerated
        return None

    def matching(self, query: OfferQuery) -> Iterator[Line]:
        """Of `scan`, the types with known facts that are what the query looks for."""
        verdicts = dict.fromkeys(self._lacking, False)
        plain = not query.asks_for_facts
        for table, row, priced in self.scan(query):
            name = row.instance_type
            if name not in verdicts:
                verdicts[name] = plain or self._fits(name, query)
            if verdicts[name]:
                yield table, row, priced

    def lacking(
        self, query: OfferQuery
    ) -> Iterator[tuple[PriceTable, PriceRow, Priced, PartialType]]:
        """Of `scan`, the types that lack facts and may be what the query looks for."""
        partial = {name: self.instances.partial(name) for name in self._lacking}
        asked = {name: one for name, one in partial.items() if self._may_fit(one, query)}
        if asked:
            for table, row, priced in self.scan(replace(query, instances=tuple(asked))):
                yield table, row, priced, asked[row.instance_type]

    def unpriced(self, query: OfferQuery) -> list[str]:
        """Types that match, are offered where it is asked, and have no price there."""
        free = replace(query, max_usd_per_hour=None)
        priced = {row.instance_type for _, row, _ in self.scan(free)}
        return [
            name
            for name in self.candidates(query) or self.instances.names
            if name not in priced and self._offers(name, query.region) and self._fits(name, query)
        ]

    def withdrawn(self, query: OfferQuery) -> list[tuple[str, str]]:
        """Types that match and that the region offers no longer, with the day it was told."""
        gone: Mapping[str, str] = self._facts.get("withdrawn", {}).get(query.region, {})
        return [
            (name, day)
            for name, day in gone.items()
            if name in self.instances and self._fits(name, query)
        ]

    def _fits(self, name: str, query: OfferQuery) -> bool:
        instance = self.instances.find(name)
        if instance is None:
            return False
        return matches_instance(instance, query, self._capability(instance.gpu_name, query))

    def _may_fit(self, partial: PartialType, query: OfferQuery) -> bool:
        return could_match(partial, query, self._capability(partial.gpu_name, query))

    def _capability(self, gpu_name: str | None, query: OfferQuery) -> float | None:
        """Data sheets are not read where nobody asks for what stands in them."""
        return self._capability_of(gpu_name) if query.compute_capability.limits else None

    def _offers(self, name: str, region: str | None) -> bool:
        if name not in self.instances:
            return False
        regions = self.instances.regions_of(name)
        return region in regions if region else bool(regions)

    def _prices_in(self, region: str | None) -> Iterator[PriceTable]:
        for path, regions in self._facts["prices"].items():
            if region is None or region in regions:
                if path not in self._tables:
                    self._tables[path] = PriceTable(self._files.table(path), self._bases)
                yield self._tables[path]


def _up_to(limit: float, priced: Priced) -> Priced:
    """Only the prices that are not above a limit."""
    if max(priced.usd) <= limit:
        return priced
    within = {
        column - priced.first
        for column, usd in zip(priced.columns, priced.usd, strict=True)
        if usd <= limit
    }
    texts = [text if at in within else "" for at, text in enumerate(priced.texts)]
    return Priced([usd for usd in priced.usd if usd <= limit], texts, priced.first)


Place = tuple[Cloud, PriceTable, PriceRow, int]
# By price, then in an order that no two offers share.
Ranked = tuple[float, str, str, str, str, Place]


def ranked_in_line(
    cloud: Cloud, table: PriceTable, row: PriceRow, priced: Priced
) -> Iterator[Ranked]:
    """Every price of a line."""
    for column, usd in zip(priced.columns, priced.usd, strict=True):
        yield _ranked(cloud, table, row, column, usd)


def _ranked(cloud: Cloud, table: PriceTable, row: PriceRow, column: int, usd: float) -> Ranked:
    names = (cloud.name, table.region_at(column), row.instance_type, str(row.basis.market))
    return (usd, *names, (cloud, table, row, column))


class Cheapest:
    """Keeps the `count` cheapest places; ties by cloud, region, type and market."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[Ranked] = []
        self._limit = math.inf
        self.seen = 0

    def add(self, cloud: Cloud, table: PriceTable, row: PriceRow, priced: Priced) -> None:
        """Look at the prices of one line."""
        self.seen += len(priced.usd)
        if min(priced.usd) > self._limit:
            return
        for column, price in zip(priced.columns, priced.usd, strict=True):
            if price <= self._limit:
                self._kept.append(_ranked(cloud, table, row, column, price))
        if len(self._kept) > 4 * self._count:
            self._cut()

    @property
    def ranked(self) -> list[Ranked]:
        """The cheapest, in order."""
        self._cut()
        return self._kept

    @property
    def places(self) -> list[Place]:
        """Where they stand."""
        return [place for *_, place in self.ranked]

    def _cut(self) -> None:
        # Two offers never share price, cloud, region, type and market: places are not compared.
        self._kept.sort(key=lambda one: one[:5])
        del self._kept[self._count :]
        if len(self._kept) == self._count:
            self._limit = self._kept[-1][0]


# Regions whose disks are nowhere cheaper than those of the one that is asked about.
Beaten = Callable[[str], frozenset[str]]


def best_places(cloud: Cloud, query: OfferQuery) -> Iterator[Ranked]:
    """Of each type and market the regions that no other one beats in both the price of the
    instance and of every disk, cheapest first. Where none sells a priced type any more, its
    cheapest region, so that it can be rejected by name.
    """
    found: dict[tuple[str, Market], list[Ranked]] = {}
    for table, row, priced in cloud.matching(query):
        key = (row.instance_type, row.basis.market)
        found.setdefault(key, []).extend(ranked_in_line(cloud, table, row, priced))
    for (name, _), places in found.items():
        offered = cloud.instances.regions_of(name)
        sold = [one for one in places if _region(one) in offered]
        yield from _unbeaten(sold or [min(places, key=_order)], cloud.with_dearer_disks)


def _unbeaten(places: Iterable[Ranked], beaten: Beaten) -> Iterator[Ranked]:
    left = sorted(places, key=_order)
    while left:
        first, *rest = left
        gone = beaten(_region(first))
        left = [one for one in rest if _region(one) not in gone]
        yield first


def _region(one: Ranked) -> str:
    return one[2]


def _order(one: Ranked) -> tuple[float, str, str, str, str]:
    """No two offers share all of these: places are not compared."""
    return one[:5]


class CpuOnly(NamedTuple):
    """A type with its price in its cheapest region (of those asked for) and its whole cores;
    `mark` is nan where nobody measured one."""

    name: str
    usd_per_hour: float
    cores: float
    mark: float
    cpu_model: str


def cpu_only(clouds: Iterable[Cloud], query: OfferQuery) -> Iterator[CpuOnly]:
    """Every type without an accelerator that has facts, a price where it is asked for, and the
    vCPUs and RAM that are asked for."""
    for cloud in clouds:
        sizes, least = _cores(cloud.instances, query), dict[str, float]()
        for _, row, priced in cloud.scan(query):
            if row.instance_type in sizes:
                known = least.get(row.instance_type, priced.usd[0])
                least[row.instance_type] = min(known, *priced.usd)
        for name, usd in least.items():
            model, mark = cloud.instances.cpu_mark(name)
            yield CpuOnly(name, usd, sizes[name], mark, model)


def _cores(instances: InstanceTable, query: OfferQuery) -> dict[str, float]:
    """Whole cores of the types without an accelerator whose facts are known, by name."""
    return {
        name: min(float(vcpus), float(cores))
        for name, vcpus, cores, memory_mib in instances.without_accelerator
        if vcpus and cores
        if int(vcpus) in query.vcpus and int(memory_mib) in query.memory_mib
    }
