"""What the clouds share: wide price tables, sets of regions, checked figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from advisor.catalog.prices import BASES_FILE, KEYS
from advisor.domain import PRICE_KINDS
from infra.catalog_build import provenance
from infra.catalog_build.tables import OutputTable, number, table

Row = Mapping[str, str]
CURRENCIES = frozenset({"USD", "CNY"})


@dataclass(frozen=True, slots=True)
class Basis:
    """What a line of prices is: the market, how the prices are known, currency, origin."""

    id: str
    market: str
    kind: str
    currency: str
    source: str

    def __post_init__(self) -> None:
        if self.currency not in CURRENCIES:
            raise ValueError(f"{self.id}: '{self.currency}' is no known currency")
        if self.kind not in PRICE_KINDS:
            raise ValueError(f"{self.id}: '{self.kind}' is no way to know a price")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One type on one basis: a price a region."""

    instance_type: str
    basis: Basis
    cells: Mapping[str, str]


def basis_table(bases: Iterable[Basis]) -> OutputTable:
    """The table that price lines refer to."""
    rows = [(entry.id, entry.market, entry.kind, entry.currency, entry.source) for entry in bases]
    return table(BASES_FILE, ("basis", "market", "kind", "currency", "source"), rows)


def price_cell(text: str, what: str) -> str:
    """A price as short as it can be written; 0 is how sources say missing, never free.

    `ValueError` for what is no price: negative, infinite, not a number.
    """
    if not text:
        return ""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what}: {text} is no price")
    return number(text) if value else ""


def price_table(path: str, rows: Iterable[PriceRow]) -> OutputTable:
    """Rows as one table with a column for each region; two prices for one offer are refused."""
    kept = [row for row in rows if any(row.cells.values())]
    regions = sorted({region for row in kept for region, cell in row.cells.items() if cell})
    seen: set[tuple[str, str, str]] = set()
    for row in kept:
        offers = {
            (row.instance_type, row.basis.market, region) for region, c in row.cells.items() if c
        }
        if seen & offers:
            raise ValueError(f"{path}: two prices for {sorted(seen & offers)[0]}")
        seen |= offers
    lines = [
        (
            *(row.instance_type, row.basis.id),
            *(row.cells.get(region, "") for region in regions),
        )
        for row in kept
    ]
    return table(path, (*KEYS, *regions), lines)


def region_sets(
    path: str, offered: Mapping[str, Iterable[str]]
) -> tuple[OutputTable, dict[str, str]]:
    """Types share few combinations of regions, so each is written once; and type -> its id."""
    sets = {name: tuple(sorted(set(regions))) for name, regions in offered.items()}
    ids = {regions: f"r{place:03d}" for place, regions in enumerate(sorted(set(sets.values())))}
    rows = [(ids[regions], " ".join(regions)) for regions in ids]
    named = {name: ids[regions] for name, regions in sets.items()}
    return table(path, ("region_set", "regions"), rows), named


def wide_prices(rows: Sequence[Row], keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """A wide source table as '/'-joined keys -> region -> checked price."""
    return {
        "/".join(row[key] for key in keys): {
            region: price_cell(cell, f"{row[keys[0]]} in {region}")
            for region, cell in row.items()
            if region not in keys
        }
        for row in rows
    }


AWS_LIST = Basis("list", "on-demand", "list", "USD", provenance.PRICES.id)
AWS_SPOT = Basis("spot", "spot", "estimated", "USD", provenance.SPOT.id)
AWS_REGIONAL = Basis("regional", "on-demand", "estimated", "USD", provenance.REGIONAL.id)
AWS_REGIONAL_SPOT = Basis("regspot", "spot", "estimated", "USD", provenance.REGIONAL_SPOT.id)
GCP = {
    "on-demand": Basis("gcp", "on-demand", "list", "USD", provenance.GCP.id),
    "spot": Basis("gcpspot", "spot", "observed", "USD", provenance.GCP.id),
    "month-1y": Basis("gcp1y", "commitment-1y", "list", "USD", provenance.GCP.id),
    "month-3y": Basis("gcp3y", "commitment-3y", "list", "USD", provenance.GCP.id),
}
AZURE = {"on-demand": Basis("azure", "on-demand", "list", "USD", provenance.AZURE.id)}
ALIBABA = {
    "on-demand": Basis("ali", "on-demand", "list", "CNY", provenance.ALIBABA.id),
    "spot": Basis("alispot", "spot", "observed", "CNY", provenance.ALIBABA.id),
}
ALL_BASES = (
    *(AWS_LIST, AWS_SPOT, AWS_REGIONAL, AWS_REGIONAL_SPOT),
    *(*GCP.values(), *AZURE.values(), *ALIBABA.values()),
)
