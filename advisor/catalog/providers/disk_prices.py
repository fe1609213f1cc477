"""A user's CSV of disk prices -> the tables of an import.

Columns (docs/reference/catalog.md): `cloud`, `region`, `disk_type`, `price_per_gib_month`, `currency` and
`as_of` are needed; `kind`, `source` and what IOPS and MiB/s cost apart may be left out. Only a disk whose
rules are known and whose price is not can be priced so: no price of another origin is hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from advisor.catalog.catalog import Catalog
from advisor.catalog.disk_orders import LISTED_COLUMNS
from advisor.catalog.prices import SOURCES_FILE
from advisor.catalog.providers.rows import (
    Contents,
    PriceFile,
    bad,
    day,
    lines_of,
    number,
    plain_name,
    plain_text,
    require_first,
)
from advisor.catalog.providers.tables import SOURCE_COLUMNS, csv_text
from advisor.domain import ESTIMATED, LIST, OBSERVED
from advisor.messages import Message

NEEDED = ("cloud", "region", "disk_type", "price_per_gib_month", "currency", "as_of")
OPTIONAL = ("kind", "source", "price_per_iops_month", "price_per_mib_s_month")
KINDS = (LIST, OBSERVED, ESTIMATED)
# Those with a rate in the snapshot.
CURRENCIES = ("USD", "CNY")
COLUMNS = (*LISTED_COLUMNS, "currency", "kind")
_EMPTY = Message("the file has no prices: a header and nothing below it")


def reads(file: PriceFile) -> bool:
    """A CSV that names disks, not offers."""
    return "disk_type" in file.columns


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """Every line; `UsageError` for a bad line, a disk that is not known, and one that has a price."""
    others = _other_imports(file)
    seen: dict[tuple[str, ...], int] = {}
    origins: dict[tuple[str, str], str] = {}
    rows: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    days = []
    for line, cells in lines_of(file, NEEDED, OPTIONAL, _EMPTY):
        currency, kind = cells["currency"].upper(), cells.get("kind") or LIST
        if currency not in CURRENCIES:
            raise bad(line, f"has '{cells['currency']}' as currency; known: {', '.join(CURRENCIES)}")
        if kind not in KINDS:
            raise bad(line, f"has '{kind}' as kind; known: {', '.join(KINDS)}")
        if not cells["price_per_gib_month"]:
            raise bad(line, "has no price_per_gib_month")
        cloud = plain_name(line, "cloud", cells["cloud"]).lower()
        region = plain_name(line, "region", cells["region"])
        disk_type = plain_name(line, "disk_type", cells["disk_type"])
        _require_unpriced(line, cloud, region, disk_type, catalog)
        require_first(seen, (cloud, region, disk_type), line, f"is a second price of {disk_type} in {region}")
        if other := others.get((cloud, region, disk_type)):
            raise bad(line, f"has a price of {disk_type} that import '{other}' tells too")
        days.append(day(line, cells["as_of"]))
        source = plain_text(line, "source", cells.get("source", "")) or "as the user told"
        per_gib = number(line, "price_per_gib_month", cells["price_per_gib_month"], float)
        per_iops = f"0:{_apart(line, cells, 'price_per_iops_month'):.10g}"
        per_mib_s = f"{_apart(line, cells, 'price_per_mib_s_month'):.10g}"
        origin = origins.setdefault((days[-1].isoformat(), source), f"d{len(origins) + 1}")
        rows[cloud].append(
            (region, disk_type, f"{per_gib:.10g}", per_iops, per_mib_s, origin, currency, kind)
        )
    sources = [(name, as_of, "the user's", text, "") for (as_of, text), name in origins.items()]
    tables = {f"catalog/{cloud}_disk_prices.csv": csv_text(COLUMNS, rows[cloud]) for cloud in rows}
    counts = {cloud: len(rows[cloud]) for cloud in rows}
    manifest = {"clouds": {}, "disk_prices": sorted(counts), "disk_price_counts": counts}
    return Contents(tables=(manifest, {SOURCES_FILE: csv_text(SOURCE_COLUMNS, sources)} | tables), days=days)


def _other_imports(file: PriceFile) -> dict[tuple[str, str, str], str]:
    """The import that tells the price of a disk in a region: two never tell one."""
    return {
        (cloud, row["region"], row["type"]): files.name
        for files in file.beside
        for cloud in files.manifest.get("disk_prices", ())
        for row in files.table(f"catalog/{cloud}_disk_prices.csv").records()
    }


def _require_unpriced(line: int, cloud: str, region: str, disk_type: str, catalog: Catalog) -> None:
    clouds = [name for name in catalog.disk_clouds if catalog.disks_of(name).network_types]
    if cloud not in clouds:
        raise bad(line, f"is of {cloud}; disks are known of: {', '.join(clouds)}")
    known = catalog.disks_of(cloud)
    if disk_type not in known.network_types:
        types = ", ".join(known.network_types)
        raise bad(line, f"has {disk_type}, no disk of {cloud}; it has: {types}")
    if known.has_price(disk_type, region):
        raise bad(line, f"has a price of {disk_type} in {region}: it is known already")


def _apart(line: int, cells: Mapping[str, str], column: str) -> float:
    text = cells.get(column, "")
    return number(line, column, text, float) if text.strip("0.") else 0.0
