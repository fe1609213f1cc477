"""One cloud's tables, each read on first use, and its cheapest prices.

Thousands of types have no accelerator. Building a record for each takes longer than the rest of a
recommendation, so the search reads their table cells without records."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog.assumed import Facts
from advisor.catalog.bundle import Files
from advisor.catalog.disk_orders import imported_prices
from advisor.catalog.disk_rules import rules_path
from advisor.catalog.disks import DiskCatalog
from advisor.catalog.gpus import require_whole
from advisor.catalog.instances import STATUSES, InstanceTable, Origin, PartialType, restrictions_by_type
from advisor.catalog.overlay import Overlay, cloud_title
from advisor.catalog.prices import (
    RATE_VARIABLE,
    Basis,
    Currency,
    OfferQuery,
    PriceTable,
    is_gpu,
    matches_instance,
)
from advisor.domain import Gpu, InstanceType, Market, Offer, Price
from advisor.domain.money import NotOrderable
from advisor.errors import NoOfferError, UsageError, unknown_name
from advisor.messages import FieldName, Message


class PriceCell(NamedTuple):
    """A cell of a price table. The first five fields sort cells: no two offers share all five."""

    usd_per_hour: float
    cloud_name: str
    region: str
    instance_type: str
    market: str
    cloud: Cloud
    table: PriceTable
    row: int
    column: int

    @property
    def price(self) -> Price:
        """The price with its source."""
        price = self.table.price(self.row, self.column)
        return self.cloud.capped(price, self.instance_type, self.region, self.table.market)

    def offer(self) -> Offer:
        """The offer, as a record."""
        instance = self.cloud.instances.find(self.instance_type)
        assert instance is not None
        return Offer(
            instance=instance,
            region=self.region,
            market=self.table.market,
            price=self.price,
            closed=self.cloud.restriction(self.instance_type, self.region, self.market),
        )


by_price = itemgetter(0, 1, 2, 3, 4)


class Cloud(Struct, dict=True, eq=False):
    """Types, prices and disks of one cloud, each read on first use."""

    name: str
    _files: Files
    _origins: Mapping[str, Origin]
    _currencies: Mapping[str, Currency]
    _capability_of: Callable[[str | None], float | None]
    _assumed: Facts
    _bases: Callable[[], Mapping[str, Basis]]
    _overlay: Overlay
    disk_imports: list[Files] = []  # imports with prices of its disks
    _tables: dict[str, list[PriceTable]] = {}
    _dearer: dict[str, frozenset[str]] = {}

    @property
    def _facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._files.manifest["clouds"][self.name]
        return facts

    @property
    def as_of(self) -> date:
        """Date of the list prices."""
        return date.fromisoformat(self._facts["as_of"])

    @property
    def currency(self) -> str:
        """The currency of its prices; "USD" also if prices have several."""
        return str(self._facts.get("currency", "USD"))

    @property
    def has_rate(self) -> bool:
        """Return whether its prices are known in dollars."""
        return not math.isnan(self._currencies[self.currency].per_usd)

    def has_prices(self, market: Market | None) -> bool:
        """Return whether any price on the market is known, in whatever currency."""
        return any(True for _ in self._price_tables(None, market))

    def unconverted(self, query: OfferQuery) -> frozenset[str]:
        """Currencies without a known rate among the prices of the query's region and market."""
        if query.region not in (None, *self.priced_regions):
            return frozenset()
        if not self.has_rate:
            return frozenset((self.currency,))
        tables = self._price_tables(query.region, query.market)
        return frozenset().union(*(table.unconverted for table in tables))

    @cached_property
    def priced_regions(self) -> tuple[str, ...]:
        """Regions with any price, in order; from the manifest, so that no table is read."""
        listed: Mapping[str, list[str]] = self._facts["prices"]
        return tuple(sorted(self._overlay.regions.union(*listed.values())))

    @property
    def _incomplete_types(self) -> list[str]:
        """Types that lack facts; from the manifest, so that no table is searched."""
        names: list[str] = self._facts["lacking"]
        return names

    @cached_property
    def instances(self) -> InstanceTable:
        """Facts of the types."""
        offered: dict[str, dict[str, bool]] = {}
        for (name, region), (there, _) in self._overlay.offerings.items():
            offered.setdefault(name, {})[region] = there
        return InstanceTable(self.name, self._files, self._origins, self._assumed, offered)

    @cached_property
    def has_disks(self) -> bool:
        """Return whether its disks are known."""
        return rules_path(self._files, self.name) is not None

    @cached_property
    def disks(self) -> DiskCatalog:
        """Network disks, with their rules and prices."""
        rows, origins = imported_prices(self.disk_imports, self.name, self._currencies)
        return DiskCatalog(self.name, self._files, {**origins, **self._origins}, rows, self._assumed)

    def regions_without_cheaper_disks(self, region: str) -> frozenset[str]:
        """Regions where no disk costs less than in this one; those with equal prices are included."""
        if region not in self._dearer:
            regions = self.priced_regions
            dearer = self.disks.without_cheaper_disks(region, regions) if self.has_disks else regions
            self._dearer[region] = frozenset(dearer)
        return self._dearer[region]

    def price_cells(self, query: OfferQuery) -> Iterator[PriceCell]:
        """Prices of the query's types in its regions and markets, up to its price limit, in bundle order."""
        names, limit = self.candidates(query), query.max_usd_per_hour or math.inf
        for table in self._price_tables(query.region, query.market):
            market = str(table.market)
            for row, column, usd in table.cells(names, query.region, query.price_filter):
                if usd <= limit:
                    name, region = table.types[row], table.regions[column]
                    yield PriceCell(usd, self.name, region, name, market, self, table, row, column)

    def lowest_prices(self, query: OfferQuery, names: Collection[str]) -> dict[str, float]:
        """Type -> USD per hour in its cheapest region, for those of `names` within the price limit."""
        limit = query.max_usd_per_hour or math.inf
        lowest: dict[str, float] = {}
        for table in self._price_tables(query.region, query.market):
            cheaper = table.lowest(names, query.region, query.price_filter, limit)
            if lowest:  # of two tables or markets
                cheaper |= {name: min(usd, cheaper.get(name, usd)) for name, usd in lowest.items()}
            lowest = cheaper
        return lowest

    def lowest_by_type(self, query: OfferQuery) -> dict[str, float]:
        """Type -> USD per hour in its cheapest region, for matching types with known facts. All `candidates`
        match a query without limits on GPU, vCPUs or RAM."""
        fitting = self.candidates(query)
        names = frozenset(self.instances.names if fitting is None else fitting) - {*self._incomplete_types}
        if query.asks_for_gpu or query.vcpus.limits or query.memory_mib.limits:
            names = frozenset(name for name in names if self._is_match(name, query))
        return self.lowest_prices(query, names)

    def cpu_only(self, query: OfferQuery) -> Iterator[CpuOnly]:
        """Types without an accelerator that have facts, a price, and the query's vCPUs and RAM."""
        names = self.instances.cpu_only(query.vcpus, query.memory_mib)
        for name, usd in self.lowest_prices(query, names).items():
            yield CpuOnly(self.name, name, usd, *self.instances.cpu_facts(name))

    def price(self, name: str, region: str, market: Market) -> Price | None:
        """The price of a type in a region and on a market; None if it is not known."""
        for table in self._price_tables(region, market):
            for row, column, _ in table.cells((name,), region):
                return self.capped(table.price(row, column), name, region, market)
        return None

    def capped(self, price: Price, name: str, region: str, market: Market) -> Price:
        """A price with its ceiling: nobody pays more for a spot instance than for one on demand."""
        on_demand = self.price(name, region, Market.ON_DEMAND) if market is Market.SPOT else None
        if on_demand is None or not price.usd_per_hour:
            return price
        most = max(1.0, on_demand.usd_per_hour / price.usd_per_hour)
        return replace(price, high=min(price.high, most), ceiling=most)

    def candidates(self, query: OfferQuery) -> Collection[str] | None:
        """Types worth checking: a cheap superset of the matching ones; None means all."""
        if query.instances:
            return frozenset(query.instances)
        if query.accelerated or query.asks_for_gpu:
            return self.instances.accelerated
        return None

    def matching(self, query: OfferQuery) -> Iterator[PriceCell]:
        """The `price_cells` whose types have known facts and match the query."""
        verdicts = dict.fromkeys(self._incomplete_types, False)
        plain = not query.asks_for_facts
        for cell in self.price_cells(query):
            name = cell.instance_type
            if name not in verdicts:
                verdicts[name] = plain or self._is_match(name, query)
            if verdicts[name]:
                yield cell

    def unbeaten(self, query: OfferQuery) -> Iterator[PriceCell]:
        """The `matching` cells without those of regions where both the type and every disk cost more than in
        another region. A priced type that no region sells keeps its cheapest region, so that it can be
        rejected by name."""
        cells_of: dict[tuple[str, str], list[PriceCell]] = {}
        for cell in self.matching(query):
            cells_of.setdefault((cell.instance_type, cell.market), []).append(cell)
        for (name, market), cells in cells_of.items():
            cells.sort(key=by_price)
            sold = [cell for cell in cells if self.restriction(name, cell.region, market) is None]
            rest = sold or cells[:1]
            while rest:
                best, *rest = rest
                yield best
                if rest:
                    beaten = self.regions_without_cheaper_disks(best.region)
                    rest = [cell for cell in rest if cell.region not in beaten]

    def incomplete_cells(self, query: OfferQuery) -> Iterator[tuple[PriceCell, PartialType]]:
        """The `price_cells` whose types lack facts and may match the query."""
        partial = {name: self.instances.partial(name) for name in self._incomplete_types}
        fitting = {name: known for name, known in partial.items() if self._matches(known, query)}
        if fitting:
            cells = self.price_cells(replace(query, instances=tuple(fitting)))
            yield from ((cell, fitting[cell.instance_type]) for cell in cells)

    def incomplete_types(self, query: OfferQuery) -> dict[str, PartialType]:
        """Priced types that lack facts and may match the query, by name."""
        priced = self.lowest_prices(query, self._incomplete_types)
        partial = {name: self.instances.partial(name) for name in priced}
        return {name: known for name, known in partial.items() if self._matches(known, query)}

    def unpriced(self, query: OfferQuery) -> list[str]:
        """Types that match, are offered in the query's region and have no price there."""
        free, names = replace(query, max_usd_per_hour=None), self.candidates(query)
        names = self.instances.names if names is None else names
        priced = self.lowest_prices(free, names)
        return [
            name
            for name in names
            if name not in priced and self._is_offered(name, query.region) and self._is_match(name, query)
        ]

    @cached_property
    def _restrictions(self) -> dict[str, list[NotOrderable]]:
        """Type -> why it cannot be ordered: bundled reasons, and the cloud's answers to a refresh."""
        restrictions = restrictions_by_type(self._files, self.name, self.instances.names)
        for (name, region), (there, day) in sorted(self._overlay.offerings.items()):
            if not there:
                gone = NotOrderable(cloud=self.name, status="withdrawn", as_of=day, region=region)
                restrictions.setdefault(name, []).append(gone)
        return restrictions

    def order_restrictions(self, name: str) -> Sequence[NotOrderable]:
        """Every known reason why a type cannot be ordered."""
        return self._restrictions.get(name, ())

    def restriction(self, name: str, region: str, market: str) -> NotOrderable | None:
        """The reason why a type cannot be ordered in a region and on a market; None if it can be."""
        there, day = self._overlay.offerings.get((name, region), (False, date.min))
        for known in self.order_restrictions(name):
            listed_since = there and not known.market and known.as_of is not None and day > known.as_of
            if known.applies_to(region, market) and not listed_since:
                return known
        if region in self.instances.regions_of(name):
            return None
        return NotOrderable(cloud=self.name, status="elsewhere")

    def unpriced_closed(self, query: OfferQuery) -> list[tuple[str, NotOrderable]]:
        """Types that match, cannot be ordered in the query's region, and have no price there."""
        market = str(query.market or Market.ON_DEMAND)
        closed = [
            (name, restriction)
            for name, restrictions in self._restrictions.items()
            if name in self.instances and self._is_match(name, query)
            for restriction in restrictions
            if restriction.applies_to(query.region or "", market)
            and (restriction.region or self._is_offered(name, query.region))
        ]
        priced = self.lowest_prices(replace(query, max_usd_per_hour=None), [n for n, _ in closed])
        return [pair for pair in dict(closed).items() if pair[0] not in priced]

    def _is_match(self, name: str, query: OfferQuery) -> bool:
        instance = self.instances.find(name)
        return instance is not None and self._matches(instance, query)

    def _matches(self, known: InstanceType | PartialType, query: OfferQuery) -> bool:
        """Return whether a type matches; data sheets are read only for a query about compute capability."""
        asks_for_sheet = query.compute_capability.limits
        return matches_instance(known, query, self._capability_of(known.gpu_name) if asks_for_sheet else None)

    def _is_offered(self, name: str, region: str | None) -> bool:
        if name not in self.instances:
            return False
        regions = self.instances.regions_of(name)
        return region in regions if region else bool(regions)

    def not_outdated(self, overlay: Overlay) -> Overlay:
        """The overlay without prices older than the cloud's, and offerings older than its list."""
        days = {
            key: day
            for market in {market for _, _, market in overlay.prices}
            for table in self._price_tables(None, market)
            for key in overlay.prices
            if key[2] is market and (day := table.price_date(*key[:2]))
        }
        return Overlay(
            {key: price for key, price in overlay.prices.items() if days.get(key, date.min) <= price.as_of},
            {key: offered for key, offered in overlay.offerings.items() if offered[1] >= self.as_of},
        )

    @cached_property
    def _user_prices(self) -> list[PriceTable]:
        return self._overlay.tables(self.name, self._currencies["USD"])

    def _price_tables(self, region: str | None, market: Market | None) -> Iterator[PriceTable]:
        """The tables that may hold such prices, the user's before the bundle's; no other table is read."""
        yield from (table for table in self._user_prices if market in (None, table.market))
        market_of: Mapping[str, str] = self._facts.get("markets", {})
        for path, regions in self._facts["prices"].items():
            if region not in (None, *regions) or market not in (None, market_of.get(path, market)):
                continue
            if path not in self._tables:
                stored = self._files.prices(path)
                self._tables[path] = [
                    PriceTable(self._overlay.not_replaced(table), self._bases()) for table in stored
                ]
            yield from (table for table in self._tables[path] if market in (None, table.market))


class CpuOnly(NamedTuple):
    """A CPU type with its cheapest price and its whole cores; `mark` is nan if nobody measured it."""

    cloud: str
    name: str
    usd_per_hour: float
    cores: float
    mark: float
    cpu_model: str
    burstable: bool


def require_rate(cloud: Cloud) -> None:
    """Raise `UsageError` for a cloud whose prices are not known in dollars."""
    if not cloud.has_rate:
        raise UsageError(
            "prices of {cloud} are in {currency}, and no exchange rate is set",
            cloud=cloud.name,
            currency=cloud.currency,
            field="cloud",
            hint=Message("say it: {variable}=0.9 advisor ..", variable=RATE_VARIABLE.format(cloud.currency)),
        )


def require_gpu(name: str, sheets: Mapping[str, Gpu], clouds: Sequence[Cloud]) -> None:
    """Raise `UsageError`, with near names, for a GPU that no data sheet or type has, and for a slice."""
    require_whole(name, sheets)
    if any(is_gpu(sheet, name) for sheet in sheets):
        return
    sold = frozenset().union(*(cloud.instances.gpu_names for cloud in clouds))
    if not any(is_gpu(gpu, name) for gpu in sold):
        error = unknown_name("GPU", name, {*sold, *sheets}, field="gpu")
        types = [cloud.instances.find(name) for cloud in clouds if name in cloud.instances]
        if types and types[0] and types[0].gpu_name:
            error.hint = Message(
                "{name} is an instance type: its GPU is {gpu}; for itself: `advisor predict --instance`",
                name=name,
                gpu=types[0].gpu_name,
            )
        raise error


def require_instance(name: str, clouds: Sequence[Cloud]) -> None:
    """Raise `UsageError`, with near names, for a type that none of the clouds has."""
    if not any(name in cloud.instances for cloud in clouds):
        known = [known for cloud in clouds for known in cloud.instances.names]
        raise unknown_name("instance type", name, known, listed_by="advisor catalog list", field="instance")


def require_region(region: str, clouds: Sequence[Cloud]) -> None:
    """Raise `UsageError`, with near names, for an unknown region, `NoOfferError` for one without prices."""
    priced = sorted({name for cloud in clouds for name in cloud.priced_regions})
    if region in priced:
        return
    known = {name for cloud in clouds for name in cloud.instances.regions}
    if region not in known:
        # A type that no known region offers has an empty region name.
        raise unknown_region(region, (known | set(priced)) - {""}, [cloud.name for cloud in clouds])
    raise NoOfferError(
        f"no prices of region {region} are in the catalogue; regions with prices: {', '.join(priced)}"
    )


# Regions with the city, then the state or country, that they are named after in the clouds' documentation.
_PLACES = Path(__file__).parents[1] / "data" / "region_places.csv"


def unknown_region(region: str, known: Iterable[str], clouds: Collection[str]) -> UsageError:
    """The error for a region that is not among the `known` ones of these clouds, or for several at once. The
    name of a place leads to the regions there: 'did you mean eu-central-1 (Frankfurt)?'."""
    if "," in region or region in ("any", "all"):
        said = Message("{region} takes one region", region=FieldName("region"))
        return UsageError(said, hint="ask once for each of them", field="region")
    error, place = unknown_name("region", region, known, field="region"), region.casefold()
    with _PLACES.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["cloud"] in clouds or "any" in clouds]
    there = {row["region"]: row for row in rows if place in row["places"].casefold().split(";")}
    if near := sorted(name for name in known if name in there):
        texts = [f"{name} ({there[name]['places'].partition(';')[0]})" for name in near]
        error.hint = Message("did you mean {names}?", names=" or ".join(texts))
        error.suggestions = tuple(near)
    return error


def why_closed(closed: NotOrderable) -> Message:
    """The reason in words, with the way out where there is one; the message's code is the status."""
    day = str(closed.as_of or "")
    values = {"cloud": cloud_title(closed.cloud), "region": closed.region, "as_of": day}
    return Message(STATUSES[closed.status].text, code=closed.status, market=FieldName("market"), **values)
