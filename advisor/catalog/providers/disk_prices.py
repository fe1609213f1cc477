"""A user's CSV of disk prices -> the tables of an import.

Columns (docs/reference/catalog.md): `cloud`, `region`, `disk_type`, `price_per_gib_month`, `currency` and
`as_of` are needed; `kind`, `source` and separate prices of IOPS and MiB/s may be left out. Only a disk with
known rules and no known price can be priced so: an import never hides another price."""

from __future__ import annotations

from collections import defaultdict

from advisor.catalog.catalog import Catalog
from advisor.catalog.disk_orders import LISTED_COLUMNS
from advisor.catalog.prices import SOURCES_FILE
from advisor.catalog.providers.rows import Contents, Line, PriceFile, lines_of, require_first
from advisor.catalog.providers.tables import SOURCE_COLUMNS, csv_text
from advisor.domain import ESTIMATED, LIST, OBSERVED
from advisor.messages import Message

NEEDED = ("cloud", "region", "disk_type", "price_per_gib_month", "currency", "as_of")
OPTIONAL = ("kind", "source", "price_per_iops_month", "price_per_mib_s_month")
KINDS = (LIST, OBSERVED, ESTIMATED)
# Currencies with a rate in the snapshot.
CURRENCIES = ("USD", "CNY")
COLUMNS = (*LISTED_COLUMNS, "currency", "kind")
_EMPTY = Message("the file has no prices: a header and nothing below it")


def reads(file: PriceFile) -> bool:
    """True if a file is a CSV of disks, not of offers."""
    return "disk_type" in file.columns


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """Tables of all lines; `UsageError` for a bad line, an unknown disk, and one that has a price."""
    others = _other_imports(file)
    seen: dict[tuple[str, ...], int] = {}
    origins: dict[tuple[str, str], str] = {}
    rows: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    days = []
    for line in lines_of(file, NEEDED, OPTIONAL, _EMPTY):
        currency, kind = line.word("currency", CURRENCIES), line.word("kind", KINDS, LIST)
        if not line.text("price_per_gib_month"):
            raise line.bad("has no price_per_gib_month")
        cloud, region, disk_type = line.name("cloud").lower(), line.name("region"), line.name("disk_type")
        _require_unpriced(line, cloud, region, disk_type, catalog)
        what = f"is a second price of {disk_type} in {region}"
        require_first(seen, (cloud, region, disk_type), line.number, what)
        if other := others.get((cloud, region, disk_type)):
            raise line.bad(f"has a price of {disk_type} that import '{other}' tells too")
        days.append(line.day("as_of"))
        source = line.words("source") or "as the user told"
        per_gib = line.amount("price_per_gib_month")
        per_iops = f"0:{_price_or_zero(line, 'price_per_iops_month'):.10g}"
        per_mib_s = f"{_price_or_zero(line, 'price_per_mib_s_month'):.10g}"
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
    """Disk in a region -> the other import that has its price; no two imports may have one."""
    return {
        (cloud, row["region"], row["type"]): files.name
        for files in file.other_imports
        for cloud in files.manifest.get("disk_prices", ())
        for row in files.table(f"catalog/{cloud}_disk_prices.csv").records()
    }


def _require_unpriced(line: Line, cloud: str, region: str, disk_type: str, catalog: Catalog) -> None:
    clouds = [name for name in catalog.disk_clouds if catalog.disks_of(name).rules]
    if cloud not in clouds:
        raise line.bad(f"is of {cloud}; disks are known of: {', '.join(clouds)}")
    known = catalog.disks_of(cloud)
    if disk_type not in known.rules:
        types = ", ".join(known.rules)
        raise line.bad(f"has {disk_type}, no disk of {cloud}; it has: {types}")
    if known.has_price(disk_type, region):
        raise line.bad(f"has a price of {disk_type} in {region}: it is known already")


def _price_or_zero(line: Line, column: str) -> float:
    return line.amount(column) if line.text(column).strip("0.") else 0.0
