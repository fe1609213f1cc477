"""Where a type is worth buying: in which regions instance and disk together may be cheapest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from advisor.catalog.cheapest import Ranked, ranked_in_line
from advisor.catalog.clouds import Cloud
from advisor.catalog.matching import OfferQuery
from advisor.domain import Market

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
