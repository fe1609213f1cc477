"""Estimated AWS prices: on-demand outside us-east-1, and spot everywhere.

On-demand: today's us-east-1 price times what the region cost, relative to us-east-1, in February
2022: the same type's ratio, else the median of its family, else the median of the region. Spot:
on-demand less the saving of the Spot Instance Advisor, with its interruption band.
Regions that 2022 did not know have no estimate. No estimate ever passes for a list price.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from infra.catalog_build.aws.sources import REGIONAL_BASIS
from infra.catalog_build.aws.types import family
from infra.catalog_build.tables import read_source
from infra.catalog_build.wide import Basis, Cell, PriceRow, price_row, wide_prices

HOME = "us-east-1"
Cells = Mapping[str, str]


class RegionalRatios:
    """What a region costs relative to us-east-1, from the price list of February 2022."""

    def __init__(self, prices: Mapping[str, Cells]) -> None:
        self._own: dict[tuple[str, str], float] = {}
        by_family: dict[tuple[str, str], list[float]] = defaultdict(list)
        by_region: dict[str, list[float]] = defaultdict(list)
        for name, region, ratio in _ratios(prices):
            self._own[name, region] = ratio
            by_family[family(name), region].append(ratio)
            by_region[region].append(ratio)
        self._family = {key: statistics.median(some) for key, some in by_family.items()}
        self._region = {key: statistics.median(some) for key, some in by_region.items()}

    def ratio(self, name: str, region: str) -> float | None:
        """The same type's, else its family's, else the region's; None for an unknown region."""
        own = self._own.get((name, region))
        return own or self._family.get((family(name), region)) or self._region.get(region)


def on_demand_estimates(listed: Cells, offered: Mapping[str, Iterable[str]]) -> list[PriceRow]:
    """Estimates for every region that offers a type whose us-east-1 price is `listed`."""
    ratios = RegionalRatios(
        wide_prices(read_source("catalog/aws_regional_prices_2022.csv"), ("instance_type",))
    )
    rows = []
    for name, usd in listed.items():
        existing = {region: ratios.ratio(name, region) for region in offered.get(name, ())}
        cells = {
            region: f"{float(usd) * ratio:.5g}"
            for region, ratio in existing.items()
            if ratio and region != HOME
        }
        rows.append(price_row(name, "on-demand", cells, REGIONAL_BASIS.id))
    return rows


def spot_estimates(on_demand: Mapping[str, Cells], bases: Sequence[Basis]) -> list[PriceRow]:
    """Spot prices where a saving is known; `bases` has one for each band of interruptions."""
    advice = {row["instance_type"]: row for row in read_source("catalog/aws_spot_advisor.csv")}
    return [
        PriceRow(name, "spot", _spot_cells(cells, advice[name], bases))
        for name, cells in on_demand.items()
        if name in advice
    ]


def _spot_cells(on_demand: Cells, advice: Cells, bases: Sequence[Basis]) -> dict[str, Cell]:
    cells = {}
    for region, usd in on_demand.items():
        saving, _, band = advice.get(region, "").partition("~")
        if usd and saving and 0 <= int(saving) < 100:
            estimate = f"{float(usd) * (100 - int(saving)) / 100:.5g}"
            cells[region] = Cell(estimate, bases[int(band)].id)
    return cells


def _ratios(prices: Mapping[str, Cells]) -> Iterable[tuple[str, str, float]]:
    for name, cells in prices.items():
        if cells.get(HOME):
            for region, usd in cells.items():
                if usd:
                    yield name, region, float(usd) / float(cells[HOME])
