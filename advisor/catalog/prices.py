"""One cloud's instance prices: a row a type and market, a column a region."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from advisor.catalog.files import BundleFiles
from advisor.catalog.instances import Origin
from advisor.domain import Market, Price

# Columns before the regions.
_KEYS = ("instance_type", "market", "source")


@dataclass(frozen=True, slots=True)
class PricedType:
    """A price with what it is for."""

    instance_type: str
    region: str
    market: Market
    price: Price


class PriceTable:
    """Prices, scanned row by row; an empty cell is a missing price, never 0."""

    def __init__(self, cloud: str, files: BundleFiles, origins: Mapping[str, Origin]) -> None:
        self._table = files.table(f"catalog/{cloud}_prices.csv")
        self._origins = origins

    @property
    def regions(self) -> tuple[str, ...]:
        """Regions with prices."""
        return tuple(self._table.header[len(_KEYS) :])

    @property
    def as_of(self) -> date:
        """Date of the oldest price."""
        source = self._table.column["source"]
        return min(self._origins[key].as_of for key in {cells[source] for cells in self._table})

    def price(self, name: str, region: str, market: Market) -> Price | None:
        """One price; None where it is not known."""
        if region not in self.regions:
            return None
        column = self._table.column[region]
        for cells in self._rows.get(name, ()):
            if cells[1] == market and cells[column]:
                return self._price(cells, column)
        return None

    def scan(
        self, names: Collection[str] | None, region: str | None, market: Market | None
    ) -> Iterator[PricedType]:
        """Prices of the named types (None: all), in one region or all, on one market or all."""
        wanted = [region] if region else list(self.regions)
        columns = [(one, self._table.column[one]) for one in wanted]
        for cells in self._table:
            name, its_market = cells[:2]
            if (names is not None and name not in names) or (market and its_market != market):
                continue
            for one, column in columns:
                if cells[column]:
                    yield PricedType(name, one, Market(its_market), self._price(cells, column))

    @cached_property
    def _rows(self) -> dict[str, list[list[str]]]:
        rows: dict[str, list[list[str]]] = {}
        for cells in self._table:
            rows.setdefault(cells[0], []).append(cells)
        return rows

    def _price(self, cells: list[str], column: int) -> Price:
        _, market, source = cells[: len(_KEYS)]
        origin = self._origins[source]
        return Price(
            usd_per_hour=float(cells[column]),
            kind=market,
            as_of=origin.as_of,
            source=origin.text,
        )
