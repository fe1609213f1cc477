"""Which regions sell every disk for no more than others do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from advisor.catalog.prices import PriceParts


class RegionsByPrice:
    """Regions of a cloud as rows: what each part of a disk's price is (infinite: not sold there),
    and whether its seller lists it."""

    def __init__(
        self, prices: Mapping[str, Mapping[str, PriceParts]], listed: Collection[tuple[str, str]]
    ) -> None:
        # Prices whose tiers begin elsewhere cannot be compared: they are of two columns.
        places: dict[tuple[str, tuple[float, ...]], slice] = {}
        width = 0
        for of_region in prices.values():
            for kind, parts in of_region.items():
                if (kind, parts.tiers) not in places:
                    places[kind, parts.tiers] = slice(width, width + len(parts.usd))
                    width += len(parts.usd)
        self._row = {region: at for at, region in enumerate(prices)}
        # The last row is of a region that sells none.
        self._usd = np.full((len(prices) + 1, width), np.inf)
        self._listed = np.zeros((len(prices) + 1, width), dtype=bool)
        for region, row in self._row.items():
            for kind, parts in prices[region].items():
                place = places[kind, parts.tiers]
                self._usd[row, place] = parts.usd
                self._listed[row, place] = (region, kind) in listed

    def no_dearer_than(self, region: str, others: Iterable[str]) -> list[str]:
        """Of the other regions those where every disk is sold in `region` too, for no more; no
        estimate beats a listed price."""
        own = self._row.get(region, -1)
        beaten = (self._usd[own] <= self._usd) & (self._listed[own] | ~self._listed)
        whole = beaten.all(axis=1).tolist()
        return [other for other in others if whole[self._row.get(other, -1)]]
