"""AWS's published prices (the newest listed one of each offer), and how its type names are parsed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from advisor.infra.build.catalog.aws import sources
from advisor.infra.build.catalog.tables import read_source
from advisor.infra.build.catalog.wide import Basis, Cell, wide_prices

# 'c8gd', 'm7i-flex', 'u7i-12tb': class, generation, processor (AMD, Intel, Graviton), the rest.
_FAMILY = re.compile(r"([a-z]+)(\d+)[aig]?(.*)")
BARE_METAL = ".metal"


class Kind(NamedTuple):
    """Class letters, CPU maker, and the family's other suffix: 'd', 'n', '-flex'."""

    letters: str
    maker: str
    suffix: str


def family(instance_type: str) -> str:
    """'g4dn.xlarge' -> 'g4dn'."""
    return instance_type.partition(".")[0]


def generation(family: str) -> int:
    """'c8gd' -> 8; 0 if the name has no generation ('u-6tb1')."""
    found = _FAMILY.fullmatch(family)
    return int(found[2]) if found else 0


def letters(family: str) -> str:
    """'c8gd' -> 'c'; the whole name if it has no generation."""
    found = _FAMILY.fullmatch(family)
    return found[1] if found else family


def kinds(makers: Mapping[str, str]) -> dict[str, Kind]:
    """The kind of every family; `makers` maps a type to its CPU maker."""
    found = {}
    for name, maker in makers.items():
        match = _FAMILY.fullmatch(family(name))
        if match:
            found[family(name)] = Kind(match[1], maker, match[3])
    return found


# Type -> region -> US dollars an hour.
Dollars = Mapping[str, Mapping[str, float]]
Cells = dict[str, dict[str, Cell]]

# Larger relative differences between lists are price changes, not rounding.
_CHANGED = 0.002


class PriceList(Struct, frozen=True):
    """One published list."""

    prices: Mapping[str, Mapping[str, str]]
    basis: Basis


class Newest(Struct, frozen=True):
    """The newest published price of each offer. `changed` are the families whose prices differ in an older
    list; a price of such a family that only the older list has counts as unknown."""

    cells: Cells
    changed: frozenset[str]


def on_demand_lists() -> tuple[PriceList, ...]:
    """The lists, newest first. The newest one prices bare metal as dedicated machines, which cost 6 to 10 %
    more, so its bare-metal prices are left out."""
    newest, *older = (_read(path, basis) for path, basis in sources.ON_DEMAND.items())
    shared = {name: cells for name, cells in newest.prices.items() if BARE_METAL not in name}
    return PriceList(shared, newest.basis), *older


def commitment_lists(market: str, changed: Collection[str]) -> tuple[PriceList, ...]:
    """Lists of commitments without upfront payment, newest first. A commitment depends on the on-demand price
    of its day, so the oldest list leaves out families that have `changed` since."""
    lists = (_read(path, basis) for path, basis in sources.COMMITMENTS[market].items())
    return tuple(_without(changed, one) if one.basis == sources.OLDEST_COMMITMENTS else one for one in lists)


def newest_prices(lists: Iterable[PriceList]) -> Newest:
    """The newest price of each offer; `lists` must be ordered newest first."""
    cells: Cells = {}
    gone: set[str] = set()
    for one in lists:
        gone |= _changed_families(one.prices, cells)
        for name, prices in _without(gone, one).prices.items():
            for region, usd in prices.items():
                if usd:
                    cells.setdefault(name, {}).setdefault(region, Cell(usd, one.basis.id))
    return Newest(cells, frozenset(gone))


def dollars(cells: Mapping[str, Mapping[str, Cell]]) -> Dollars:
    """The prices as numbers."""
    return {name: {region: float(cell.price) for region, cell in row.items()} for name, row in cells.items()}


def dedicated_prices() -> dict[str, float]:
    """Prices in us-east-1 of bare-metal types as dedicated machines, from the newest list."""
    path, basis = next(iter(sources.ON_DEMAND.items()))
    return {
        name: float(usd)
        for name, cells in _read(path, basis).prices.items()
        for usd in cells.values()
        if BARE_METAL in name and usd
    }


def _without(families: Collection[str], one: PriceList) -> PriceList:
    kept = {name: cells for name, cells in one.prices.items() if family(name) not in families}
    return PriceList(kept, one.basis)


def _changed_families(older: Mapping[str, Mapping[str, str]], newer: Cells) -> set[str]:
    return {
        family(name)
        for name, prices in older.items()
        for region, usd in prices.items()
        if usd
        and region in newer.get(name, {})
        and abs(float(usd) / float(newer[name][region].price) - 1) > _CHANGED
    }


def _read(path: str, basis: Basis) -> PriceList:
    return PriceList(wide_prices(read_source(f"catalog/{path}.csv.gz"), ("instance_type",)), basis)
