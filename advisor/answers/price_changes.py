"""`advisor.catalog-diff/1`: the price changes between two catalogues, and their effect on saved answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from advisor.catalog import Catalog, OfferQuery, load_catalog
from advisor.catalog.bundle import DATA_FOLDER, MANIFEST
from advisor.catalog.disk_orders import LOCAL
from advisor.catalog.overlay import import_names, overlay_clouds, overlay_in, own_imports
from advisor.domain import Market, Price
from advisor.domain.money import aged
from advisor.errors import UsageError
from advisor.render.diff import Key, Workload, change, differ, key_of, percent, spec_document, workloads_of
from advisor.render.records import price_block

SCHEMA = "advisor.catalog-diff/1"
# Names of catalogues: the bundled snapshot, and the snapshot with the user's imports and refreshed prices.
SHIPPED, CURRENT = "bundle", "current"

# Fields of a request that set a target rate.
_TARGETS = ("target_throughput", "target_output_tokens_per_second", "target_requests_per_second", "users")

Row = dict[str, Any]


def catalog_in(folder_or_file: str) -> Catalog:
    """The catalogue named "bundle" or "current", or the one in a folder or a file of refreshed prices. A
    folder has a whole bundle, or a user's imports and refreshed prices. The latter, like a file, overlay the
    bundled snapshot. Raises `UsageError` for anything else."""
    if folder_or_file == CURRENT:
        return load_catalog(imports=own_imports())
    if folder_or_file == SHIPPED:
        return load_catalog(DATA_FOLDER)
    path = Path(folder_or_file)
    if path.is_file():
        return load_catalog(DATA_FOLDER, live=dict([overlay_in(path)]))
    for folder in (path, path.parent):
        if (folder / MANIFEST).is_file() and path.is_dir():
            return load_catalog(folder)
    if path.is_dir() and (overlay_clouds(path) or import_names(path)):
        return load_catalog(DATA_FOLDER, imports=path)
    raise UsageError(
        "'{place}' is no catalogue",
        place=folder_or_file,
        hint="name bundle, current, a folder with catalog/manifest.json, your own folder of imports"
        " and refreshed prices, or a file of refreshed prices",
    )


def price_changes(old: Catalog, new: Catalog, query: OfferQuery) -> dict[str, Any]:
    """Counts by cloud and market, and a row for each price that was added, removed or changed, largest
    change first. `median_percent` is over the changed prices only."""
    before, after = (
        {
            (cell.cloud_name, cell.instance_type, cell.region, cell.market): cell.price
            for cell in catalog.price_cells(query)
        }
        for catalog in (old, new)
    )
    rows: list[Row] = []
    totals: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    steps: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        cloud, market = key[0], key[3]
        what = "removed" if was else "added"
        if was and now:
            same = was.kind == now.kind and not differ(was.usd_per_hour, now.usd_per_hour)
            what = "same" if same else "changed"
        totals[cloud, market][what] += 1
        if what != "same":
            rows.append(_row(key, was, now))
        if was and now and was.usd_per_hour and differ(was.usd_per_hour, now.usd_per_hour):
            steps[cloud, market].append(100 * (now.usd_per_hour / was.usd_per_hour - 1))
    rows.sort(key=lambda row: -abs(row["percent"] or 0))
    totalled = [
        {"cloud": cloud, "market": market}
        | {what: counts[what] for what in ("same", "changed", "added", "removed")}
        | {"median_percent": median(steps[cloud, market]) if steps[cloud, market] else None}
        for (cloud, market), counts in totals.items()
    ]
    return {"totals": totalled, "prices": rows}


def answer_changes(
    old: Catalog, new: Catalog, answers: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """The cost in both catalogues of each workload in the saved documents (pairs of file name and document),
    and whether another spec would be chosen: the one that costs least at the upper bound of its price, with
    the uncertainty that prices had on the day of the answer."""
    return [
        {"file": file, "workload": workload.name} | _workload_change(old, new, workload)
        for file, document in answers
        for workload in workloads_of(document).values()
    ]


class _Cost(NamedTuple):
    """USD per hour of one spec with its disk, the upper bound of that, and the price of the instance."""

    usd: float
    upper_usd: float
    price: Price


def _workload_change(old: Catalog, new: Catalog, workload: Workload) -> dict[str, Any]:
    specs = workload.named()
    keys = [key_of(spec) for spec in specs]
    day = date.fromisoformat(workload.recommendation["as_of"])
    before = [_cost(old, key, spec, day) for key, spec in zip(keys, specs, strict=True)]
    after = [_cost(new, key, spec, day) for key, spec in zip(keys, specs, strict=True)]
    was, now = _ranks(workload, specs, before), _ranks(workload, specs, after)
    first, second = _chosen_index(was, was), _chosen_index(now, was)
    return {
        "recommended": spec_document(key_of(workload.pick)) if workload.pick else None,
        "cheapest": {
            "old": None if first is None else spec_document(keys[first]),
            "new": None if second is None else spec_document(keys[second]),
            "changed": first != second,
        },
        "specs": [
            spec_document(key)
            | {"saved_usd_per_hour": spec["price"]["total_usd_per_hour"]}
            | change(was and was.usd, now and now.usd)
            | {"old_kind": was and was.price.kind, "new_kind": now and now.price.kind}
            for key, spec, was, now in zip(keys, specs, before, after, strict=True)
        ],
    }


def _ranks(
    workload: Workload, specs: Sequence[Mapping[str, Any]], costs: Sequence[_Cost | None]
) -> list[float]:
    """The cost that each spec ranks by; infinite without a price."""
    request = workload.recommendation["request"]
    has_target = any(request.get(name) is not None for name in _TARGETS)
    ranks = list[float]()
    for spec, cost in zip(specs, costs, strict=True):
        hours = 1.0 if has_target else 1 / spec["predicted"]["throughput"]["median"]
        if run := spec.get("run"):
            hours = run["hours"]["median"] or 0.0
        ranks.append(inf if cost is None else cost.upper_usd * hours)
    return ranks


def _chosen_index(ranks: Sequence[float], before: Sequence[float]) -> int | None:
    """The index of the spec that would be chosen: the recommended one (the first), unless a spec that costs
    less now has become cheaper relative to it than it was `before`."""
    if not ranks or min(ranks) == inf:
        return None
    if inf in (ranks[0], before[0]):
        return ranks.index(min(ranks))
    overtaking = [
        (rank, index)
        for index, (rank, old) in enumerate(zip(ranks, before, strict=True))
        if rank < ranks[0] and rank * before[0] < old * ranks[0]
    ]
    return min(overtaking, default=(0.0, 0))[1]


def _cost(catalog: Catalog, key: Key, spec: Mapping[str, Any], day: date) -> _Cost | None:
    """The spec's cost in a catalogue; None where the instance or its disk has no price in it."""
    try:
        price = catalog.price(key.instance_type, key.region, Market(key.market), key.cloud)
        prices = [price]
        if spec["disk"]["type"] != LOCAL:
            disks = catalog.disks_of(key.cloud)
            order = disks.parse_choice(key.disk)
            prices.append(disks.regional_prices(order).get(key.region))
    except UsageError:  # a cloud, a type or a disk that this state does not know
        return None
    known = [cost for cost in prices if cost is not None]
    if price is None or len(known) < len(prices):
        return None
    return _Cost(
        key.machines * sum(cost.usd_per_hour for cost in known),
        key.machines * sum(aged(cost, day).high_usd_per_hour for cost in known),
        price,
    )


def _row(key: tuple[str, str, str, str], was: Price | None, now: Price | None) -> Row:
    cloud, name, region, market = key
    return {
        "cloud": cloud,
        "instance_type": name,
        "region": region,
        "market": market,
        "old": was and price_block(was),
        "new": now and price_block(now),
        "percent": percent(was.usd_per_hour, now.usd_per_hour) if was and now else None,
    }
