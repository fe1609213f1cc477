"""The cheapest of many prices, without building what is dearer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from advisor.catalog.clouds import Cloud
from advisor.catalog.prices import Priced, PriceRow, PriceTable

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
