"""How right the prices are that ship.

    python benchmarks/prices.py --json [--rows FILE]

`offers`: how many of each cloud, market and kind there are. `rows`: shipped prices against
published ones: those of FILE, a CSV with the columns provider, type, region, market, usd, date;
without it AWS's lists that the bundle was made from. Prices within 0.2 % are the same, as lists
round. `listed_off` counts list prices that differ by more than 0.5 % from a list that is as new or
newer. `estimates_without`: AWS's estimates against the list price of what they were made without
(a size, a family), by the way they were made and as the ways are mixed in what ships.
`spot_without`: AWS's spot estimates against observed prices of families that the rule was fitted
without; `spot_as_told`: the same of the on-demand price less the saving that the advisor tells, as
`advisor catalog refresh` estimates without credentials.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.domain import LIST, Market, Price
from advisor.errors import UsageError
from advisor.infra.build.catalog.aws import prices, spot
from advisor.infra.build.catalog.aws.estimates import Estimates
from advisor.infra.build.catalog.aws.lists import dollars, on_demand_lists
from advisor.infra.build.catalog.aws.sources import SOURCES
from advisor.infra.build.catalog.aws.types import offered_regions, read_types

SAME, OFF = 0.002, 0.005


class Row(NamedTuple):
    """A published price."""

    provider: str
    type: str
    region: str
    market: str
    usd: float
    date: date


def read_rows(path: Path) -> list[Row]:
    """The rows of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                *(row["provider"], row["type"], row["region"], row["market"]),
                *(float(row["usd"]), date.fromisoformat(row["date"])),
            )
            for row in csv.DictReader(file)
        ]


def aws_lists() -> Iterator[Row]:
    """AWS's published on-demand prices, each list with its date."""
    dates = {source.id: date.fromisoformat(source.as_of) for source in SOURCES}
    for one in on_demand_lists():
        for name, cells in one.prices.items():
            for region, usd in cells.items():
                if usd:
                    at = dates[one.basis.source]
                    yield Row("aws", name, region, "on-demand", float(usd), at)


def price_of(catalog: Catalog, row: Row) -> Price | None:
    """What ships for a row; None where there is none, or the type is unknown."""
    try:
        return catalog.price(row.type, row.region, Market(row.market), row.provider)
    except UsageError:
        return None


def rows_scored(catalog: Catalog, rows: Iterable[Row]) -> dict[str, Any]:
    """By provider, market and kind; `missing` are rows without a price."""
    found: dict[str, list[tuple[Row, Price]]] = defaultdict(list)
    missing: Counter[str] = Counter()
    for row in rows:
        price = price_of(catalog, row)
        place = f"{row.provider} {row.market}"
        if price is None:
            missing[place] += 1
        else:
            found[f"{place} {price.kind}"].append((row, price))
    return {key: _scored(pairs) for key, pairs in sorted(found.items())} | {"missing": missing}


def _scored(pairs: Sequence[tuple[Row, Price]]) -> dict[str, Any]:
    over = np.array([row.usd / price.usd_per_hour for row, price in pairs])
    inside = [p.low - SAME <= ratio <= p.high + SAME for ratio, (_, p) in zip(over, pairs, strict=True)]
    newer = np.array([row.date >= price.as_of for row, price in pairs])
    off = newer & (abs(1 / over - 1) > OFF)
    listed = pairs[0][1].kind == LIST
    return errors(over) | {
        "inside_interval": round(float(np.mean(inside)), 4),
        **({"listed_off": int(off.sum())} if listed else {}),
    }


def errors(over: Iterable[float]) -> dict[str, Any]:
    """`over`: true prices over ours. Errors are relative to the true price."""
    wrong = np.abs(1 / np.array(list(over)) - 1)
    at = {f"p{share:g}": round(float(np.percentile(wrong, share)), 5) for share in (50, 90, 99)}
    same = round(float(np.mean(wrong <= SAME)), 4)
    return {"n": len(wrong), "same": same, **at, "max": round(float(wrong.max()), 4)}


def offers_counted(catalog: Catalog) -> dict[str, Any]:
    """Offers by cloud, market and kind, and how many of AWS's GPU offers on demand are listed."""
    offers = catalog.offers(OfferQuery(cloud="any"))
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    gpus: Counter[str] = Counter()
    for one in offers:
        counts[one.instance.cloud][one.market][one.price.kind] += 1
        if (one.instance.cloud, one.market) == ("aws", Market.ON_DEMAND) and one.instance.gpu_count:
            gpus[one.price.kind] += 1
    listed = round(gpus[LIST] / gpus.total(), 4)
    return {"all": len(offers), "by_cloud": counts, "aws_gpu_pairs": gpus, "aws_gpu_listed": listed}


def left_out() -> dict[str, Any]:
    """AWS's estimates without what they estimate."""
    types = {row["instance_type"]: row for row in read_types()}
    listed = prices.listed_prices()
    offered = offered_regions(listed.cells)
    kept = prices.offered_prices(listed.cells, offered)
    wrong: dict[str, list[float]] = defaultdict(list)
    for way, over in Estimates(dollars(kept), types).left_out():
        wrong[way].append(over)
    built = prices.build_prices(types, offered, listed)
    shipped = Counter(
        cell.basis.split("-")[1]
        for row in built.rows
        for cell in row.cells.values()
        if cell.basis.startswith("from-")
    )
    on_demand = {row.instance_type: row.cells for row in built.rows if row.market == "on-demand"}
    observed = prices.observed_spot(on_demand, listed.changed)
    rules = prices.spot_rules(types, kept, observed)
    as_told: dict[str, list[float]] = defaultdict(list)
    for one in spot.observations(dollars(observed), dollars(kept)):
        group = spot.group(one.name, bool(types[one.name]["gpu_name"]))
        as_told["gpu" if group == spot.GPU else "no gpu"].append(one.share / one.advice.share)
    return {
        "estimates_without": {way: errors(of) | {"shipped": shipped[way]} for way, of in wrong.items()}
        | {"as_shipped": _mixed(wrong, shipped)},
        "spot_without": {
            group: _spot_scored(rules.observed_over_estimate(group)) | {"interval": rules.interval(group)}
            for group in spot.GROUPS
        },
        "spot_as_told": {group: _spot_scored(over) for group, over in as_told.items()},
    }


def _mixed(wrong: Mapping[str, Sequence[float]], shipped: Mapping[str, int]) -> dict[str, float]:
    """Percentiles with each way counting as often as it ships."""
    pairs = sorted((abs(1 / over - 1), shipped[way] / len(of)) for way, of in wrong.items() for over in of)
    values, weights = np.array(pairs).T
    reached = np.cumsum(weights) / weights.sum()
    at = {share: values[np.searchsorted(reached, share / 100)] for share in (50, 90, 99)}
    return {f"p{share}": round(float(value), 5) for share, value in at.items()}


def _spot_scored(observed_over_estimate: Sequence[float]) -> dict[str, Any]:
    over = np.array(observed_over_estimate)
    shares = {f"p{share}": round(float(np.percentile(over, share)), 3) for share in (5, 50, 95)}
    return {"n": len(over), "observed_over_estimate": shares}


def main() -> None:
    """Print the scores as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="the only form there is")
    parser.add_argument("--rows", type=Path, help="CSV: provider,type,region,market,usd,date")
    asked = parser.parse_args()
    catalog = load_catalog()
    rows = read_rows(asked.rows) if asked.rows else list(aws_lists())
    told = {"offers": offers_counted(catalog), "rows": rows_scored(catalog, rows)} | left_out()
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
