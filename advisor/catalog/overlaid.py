"""The bundle with refreshed prices and offerings of a cloud laid over it, as one set of tables.

What a refreshed price replaces is taken out of the bundle's prices; the new ones stand in a file
of their own. A region that no longer offers a type has no price of it either, so that the type is
looked for elsewhere, and `withdrawn` in the manifest says why.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Any

from advisor.catalog.bundle import Files, StoredPrices, Table, stored_prices
from advisor.catalog.live import cloud_title
from advisor.catalog.prices import BASES_FILE, SOURCES_FILE
from advisor.catalog.refreshed import PriceKey, Refreshed, plain_cell
from advisor.domain import Market, Price

# Market, kind, day, source, terms, days for which it keeps, and its interval.
BasisKey = tuple[Market, str, date, str, str, int, float, float]


class OverlaidFiles:
    """The bundle's files with what was refreshed in place of what is older."""

    def __init__(self, bundle: Files, cloud: str, refreshed: Refreshed) -> None:
        self._bundle = bundle
        self.shipped: Files = getattr(bundle, "shipped", bundle)
        self._cloud = cloud
        self._prices_file = f"catalog/{cloud}_prices_refreshed"
        self._types_file = f"catalog/{cloud}_instance_types.csv"
        self._sets_file = f"catalog/{cloud}_region_sets.csv"
        self._licence = f"told by {cloud_title(cloud)} to the user"
        self._gone = {key: day for key, (there, day) in refreshed.offerings.items() if not there}
        self._offerings = {key: there for key, (there, _) in refreshed.offerings.items()}
        self._prices = {key: price for key, price in refreshed.prices.items() if key[:2] not in self._gone}
        self.manifest: Mapping[str, Any] = self._manifest(refreshed)

    def has(self, path: str) -> bool:
        """Whether there is this table."""
        return self._bundle.has(path)

    def prices(self, path: str) -> Sequence[StoredPrices]:
        """The refreshed prices, or those at `path` without what is older than what was told."""
        if path == self._prices_file:
            return self._refreshed_prices()
        stored = self._bundle.prices(path)
        if path not in self._bundle.manifest["clouds"][self._cloud]["prices"]:
            return stored
        return [one.without(self._replaced(one.market)) for one in stored]

    def table(self, path: str) -> Table:
        """The table at `path`, with what was refreshed in it."""
        table = self._bundle.table(path)
        added = {
            SOURCES_FILE: self._with_sources,
            BASES_FILE: self._with_bases,
            self._types_file: self._with_own_sets,
            self._sets_file: self._with_sets,
        }
        return added[path](table) if path in added else table

    def _manifest(self, refreshed: Refreshed) -> dict[str, Any]:
        whole = dict(self._bundle.manifest)
        cloud = dict(whole["clouds"][self._cloud])
        regions = sorted({region for _, region, _ in self._prices})
        if regions:
            cloud["prices"] = {self._prices_file: regions, **cloud["prices"]}
        cloud["withdrawn"] = defaultdict(dict)
        cloud["offered"] = defaultdict(dict)
        for (name, region), (there, day) in sorted(refreshed.offerings.items()):
            cloud["offered" if there else "withdrawn"][region][name] = day.isoformat()
        whole["clouds"] = {**whole["clouds"], self._cloud: cloud}
        told = f"{len(refreshed.prices)} prices asked for with `advisor catalog refresh` or --live"
        oldest = refreshed.dates[0].isoformat()
        part = {"as_of": oldest, "source": told, "licence": self._licence}
        name = f"refreshed prices of {cloud_title(self._cloud)}"
        whole["parts"] = {**whole["parts"], name: part}
        whole["refreshed"] = {**whole.get("refreshed", {}), self._cloud: self._digest()}
        return whole

    def _digest(self) -> str:
        """Of all that is laid over the bundle: two that differ in anything have two."""
        said = repr((sorted(self._prices.items()), sorted(self._offerings.items())))
        return hashlib.sha256(said.encode()).hexdigest()

    @cached_property
    def _bases(self) -> dict[BasisKey, str]:
        """What a refreshed price rests on -> the id of its basis and of its source."""
        kinds = sorted({_basis_key(key[2], price) for key, price in self._prices.items()})
        return {kind: f"{self._cloud} refreshed {number}" for number, kind in enumerate(kinds)}

    def _refreshed_prices(self) -> list[StoredPrices]:
        cells: dict[Market, dict[str, dict[str, tuple[float, str]]]]
        cells = defaultdict(lambda: defaultdict(dict))
        for (name, region, market), price in self._prices.items():
            basis = self._bases[_basis_key(market, price)]
            cells[market][name][region] = price.usd_per_hour, basis
        return [stored_prices(str(market), of_types) for market, of_types in cells.items()]

    def _replaced(self, market: str) -> set[tuple[str, str]]:
        """Pairs of a type and a region whose price on this market counts no longer."""
        return {*self._gone, *((name, place) for name, place, on in self._prices if on == market)}

    def _with_sources(self, table: Table) -> Table:
        header, lines = list(table.header), table.lines
        if "terms" not in table.column:
            header, lines = [*header, "terms"], [f"{line}," for line in lines]
        for (_, _, day, source, terms, keeps, *_), basis in self._bases.items():
            cells = {"source": basis, "as_of": day.isoformat(), "licence": self._licence}
            cells |= {"origin": plain_cell(source), "terms": plain_cell(terms)}
            cells |= {"part": "refreshed prices", "max_age_days": str(keeps)}
            lines = [*lines, ",".join(cells.get(column, "") for column in header)]
        return Table(table.path, "\n".join([",".join(header), *lines]))

    def _with_bases(self, table: Table) -> Table:
        for (market, kind, *_, low, high), basis in self._bases.items():
            cells = {"basis": basis, "market": str(market), "kind": kind}
            cells |= {"currency": "USD", "source": basis, "low": repr(low), "high": repr(high)}
            table.lines.append(",".join(cells.get(column, "") for column in table.header))
        return table

    def _with_own_sets(self, table: Table) -> Table:
        """A type whose offerings were asked for has a set of regions of its own."""
        own, column = {name for name, _ in self._offerings}, table.column["region_set"]
        for at, line in enumerate(table.lines):
            name = line[: line.index(",")]
            if name in own:
                cells = line.split(",")
                cells[column] = _set_of(name)
                table.lines[at] = ",".join(cells)
        return table

    def _with_sets(self, table: Table) -> Table:
        sets = {key: set(regions.split()) for key, regions in table}
        types = self._bundle.table(self._types_file)
        column, lines = types.column["region_set"], types.lines_by_key()
        for name in sorted({name for name, _ in self._offerings if name in lines}):
            regions = set(sets.get(lines[name].split(",")[column], ()))
            for (one, region), there in self._offerings.items():
                if one == name:
                    (regions.add if there else regions.discard)(region)
            if regions:  # a set that is not listed is empty
                table.lines.append(f"{_set_of(name)},{' '.join(sorted(regions))}")
        return table


def since(bundle: Files, cloud: str, refreshed: Refreshed) -> Refreshed:
    """What was told on the day of the bundle's own price, or later; of offerings likewise."""
    days = _days_of_bases(bundle)
    older = {
        key
        for path in bundle.manifest["clouds"][cloud]["prices"]
        for stored in bundle.prices(path)
        for key in _older(stored, days, refreshed)
    }
    first = date.fromisoformat(bundle.manifest["clouds"][cloud]["as_of"])
    return Refreshed(
        {key: price for key, price in refreshed.prices.items() if key not in older},
        {key: told for key, told in refreshed.offerings.items() if told[1] >= first},
    )


def _days_of_bases(bundle: Files) -> dict[str, date]:
    days = {row["source"]: row["as_of"] for row in bundle.table(SOURCES_FILE).records()}
    rows = bundle.table(BASES_FILE).records()
    return {row["basis"]: date.fromisoformat(days[row["source"]]) for row in rows}


def _older(stored: StoredPrices, days: Mapping[str, date], refreshed: Refreshed) -> Iterator[PriceKey]:
    """Refreshed prices for which a newer one is stored."""
    rows = {name: at for at, name in enumerate(stored.types)}
    columns = {name: at for at, name in enumerate(stored.regions)}
    for key, price in refreshed.prices.items():
        name, region, market = key
        if market == stored.market and name in rows and region in columns:
            cell = rows[name], columns[region]
            basis = stored.bases[int(stored.basis[cell])]
            if stored.position[cell] and days[basis] > price.as_of:
                yield key


def _basis_key(market: Market, price: Price) -> BasisKey:
    price_basis = (price.kind, price.as_of, price.source, price.terms, price.max_age_days)
    return market, *price_basis, price.low, price.high


def _set_of(name: str) -> str:
    return f"refreshed {name}"
