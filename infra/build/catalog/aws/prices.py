"""AWS's prices on every market: listed or observed, otherwise estimated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from advisor.infra.build.catalog.aws import estimates, sources
from advisor.infra.build.catalog.aws.estimates import Estimates, interval
from advisor.infra.build.catalog.aws.lists import (
    Cells,
    Newest,
    commitment_lists,
    dedicated_prices,
    dollars,
    family,
    newest_prices,
    on_demand_lists,
)
from advisor.infra.build.catalog.tables import read_source
from advisor.infra.build.catalog.wide import Basis, Cell, PriceRow, wide_prices

Types = Mapping[str, Mapping[str, str]]
Offered = Mapping[str, Iterable[str]]


class Prices(NamedTuple):
    """All AWS prices, the bases they refer to, and priced type names without facts."""

    rows: list[PriceRow]
    bases: list[Basis]
    unknown: list[str]


def build_prices(types: Types, offered: Offered, listed: Newest) -> Prices:
    """Build all prices. `types` are source rows by name; `offered` maps every known type to its regions (none
    if retired); `listed` are on-demand list prices."""
    kept = offered_prices(listed.cells, offered)
    on_demand, ways = _with_estimates(kept, Estimates(dollars(kept), types), offered)
    observed = observed_spot(on_demand, listed.changed)
    rules = spot_rules(types, kept, observed)
    spots, spot_bases = _spot(types, on_demand, observed, rules)
    rows = _rows("on-demand", on_demand) + _rows("spot", spots)
    for market in sources.COMMITMENTS:
        reserved = newest_prices(commitment_lists(market, listed.changed))
        rows += _rows(market, offered_prices(reserved.cells, offered))
    unknown = sorted(listed.cells.keys() - offered.keys())
    return Prices(rows, [*sources.LIST_BASES, *ways, *spot_bases], unknown)


def spot_rules(types: Types, listed: Cells, observed: Cells) -> estimates.SpotRules:
    """Rules for spot prices, fitted on observed prices of types whose on-demand price is listed."""
    seen = estimates.observations(dollars(observed), dollars(listed))
    groups = {one.name: estimates.group(one.name, bool(types[one.name]["gpu_name"])) for one in seen}
    return estimates.SpotRules(seen, groups)


def listed_prices() -> Newest:
    """The newest published on-demand prices."""
    return newest_prices(on_demand_lists())


def offered_prices(listed: Cells, offered: Offered) -> Cells:
    """Prices of offers; for a retired type all its prices, so that it can be rejected by name."""
    return {
        name: {at: cell for at, cell in cells.items() if at in offered[name] or not offered[name]}
        for name, cells in listed.items()
        if name in offered
    }


def _with_estimates(listed: Cells, kin: Estimates, offered: Offered) -> tuple[Cells, list[Basis]]:
    """The listed prices and the missing ones estimated, with the bases of the estimates."""
    wrong: dict[str, list[float]] = {}
    for way, ratio in kin.left_out():
        wrong.setdefault(way, []).append(ratio)
    bases = {
        way: Basis(f"from-{way}", "estimated", "USD", sources.ESTIMATED.id, *interval(ratios))
        for way, ratios in sorted(wrong.items())
    }
    used: dict[str, Basis] = {}
    unlike = kin.unlike(dedicated_prices())
    cells = {name: dict(listed.get(name, {})) for name in offered if name not in unlike}
    cells |= {name: dict(listed[name]) for name in unlike & listed.keys()}
    for name, own in cells.items():
        for region in sorted(set(offered[name]) - own.keys() if name not in unlike else ()):
            found = kin.estimate(name, region)
            if found:
                basis = bases[found.way]
                if found.twin:
                    basis = _as_listed(basis, listed[found.twin][region])
                used[basis.id] = basis
                own[region] = Cell(f"{found.usd:.5g}", basis.id)
    return cells, list(used.values())


def _as_listed(basis: Basis, twin: Cell) -> Basis:
    """The basis of an estimate that is another type's listed price; it has the date of that list."""
    day = twin.basis.removeprefix("list-")
    return replace(basis, id=f"{basis.id}-{day}", source=sources.SAME_AS_LISTED[twin.basis].id)


def observed_spot(on_demand: Cells, changed: Iterable[str]) -> Cells:
    """Observed spot prices of current offers, if below the on-demand price. Families whose on-demand price
    has changed since are left out."""
    read = wide_prices(read_source("catalog/aws_spot_2024-09-28.csv.gz"), ("instance_type",))
    changed = frozenset(changed)
    return {
        name: {
            region: Cell(usd, "")
            for region, usd in cells.items()
            if usd
            and region in on_demand.get(name, {})
            and float(usd) <= float(on_demand[name][region].price)
        }
        for name, cells in read.items()
        if family(name) not in changed
    }


def _spot(
    types: Types, on_demand: Cells, observed: Cells, rules: estimates.SpotRules
) -> tuple[Cells, list[Basis]]:
    """Spot prices, each with the band of interruptions, and their bases."""
    bases: dict[str, Basis] = {}
    advised = estimates.advice()
    found: Cells = {}
    for name, cells in on_demand.items():
        group = estimates.group(name, bool(types[name]["gpu_name"]))
        for region, listed in cells.items():
            told = advised.get(name, {}).get(region)
            seen = observed.get(name, {}).get(region)
            if seen:
                basis, usd = _observed_basis(told), seen.price
            elif told:
                share = rules.share(group, told.share)
                basis, usd = (_estimated_basis(group, told, rules), f"{float(listed.price) * share:.5g}")
            else:
                continue
            bases.setdefault(basis.id, basis)
            found.setdefault(name, {})[region] = Cell(usd, basis.id)
    return found, [bases[key] for key in sorted(bases)]


def _observed_basis(told: estimates.Advice | None) -> Basis:
    band = "" if told is None else str(told.band)
    terms = sources.INTERRUPTIONS[told.band] if told else ""
    return Basis(f"spot-seen{band}", "observed", "USD", sources.SPOT_OBSERVED.id, terms=terms)


def _estimated_basis(group: str, told: estimates.Advice, rules: estimates.SpotRules) -> Basis:
    low, high = rules.interval(group)
    return Basis(
        f"spot-{group}{told.band}",
        *("estimated", "USD", sources.SPOT_ESTIMATED.id, low, high),
        sources.INTERRUPTIONS[told.band],
    )


def _rows(market: str, cells: Cells) -> list[PriceRow]:
    return [PriceRow(name, market, own) for name, own in cells.items() if own]
