"""A user's CSV of disk prices -> checked rows and the tables of an import.

Columns (docs/reference/catalog.md): `cloud`, `region`, `disk_type`, `price_per_gib_month`,
`currency` and `as_of` are needed; `kind`, `source` and what IOPS and MiB/s cost apart may be left
out. Only a disk whose rules are known and whose price is not can be priced so: no price of another
origin is hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from advisor.catalog.catalog import Catalog
from advisor.catalog.disk_prices import LISTED_COLUMNS
from advisor.catalog.disks import DiskCatalog
from advisor.catalog.prices import SOURCES_FILE
from advisor.catalog.providers.rows import (
    PriceFile,
    Tables,
    Told,
    bad,
    csv_lines,
    day,
    number,
    plain_name,
    plain_text,
)
from advisor.catalog.providers.tables import SOURCE_COLUMNS, csv_text
from advisor.domain import ESTIMATED, LIST, OBSERVED
from advisor.errors import UsageError

NEEDED = ("cloud", "region", "disk_type", "price_per_gib_month", "currency", "as_of")
OPTIONAL = ("kind", "source", "price_per_iops_month", "price_per_mib_s_month")
KINDS = (LIST, OBSERVED, ESTIMATED)
# Those with a rate in the snapshot.
CURRENCIES = ("USD", "CNY")
COLUMNS = (*LISTED_COLUMNS, "currency", "kind")


class DiskPriceRow(Struct, frozen=True, kw_only=True):
    """One checked price of a disk type in a region; texts are numbers as they were written."""

    line: int
    cloud: str
    region: str
    disk_type: str
    per_gib: float
    per_iops: float
    per_mib_s: float
    currency: str
    kind: str
    as_of: date
    source: str


def reads(file: PriceFile) -> bool:
    """A CSV that names disks, not offers."""
    return "disk_type" in file.columns


def told(file: PriceFile, catalog: Catalog) -> Told:
    """Every line; `UsageError` for a bad line, a disk that is not known, and one that has a price."""
    rows = [_row(line, cells) for line, cells in csv_lines(file.text, NEEDED, OPTIONAL)]
    if not rows:
        raise UsageError("the file has no prices: a header and nothing below it")
    disks = {cloud: catalog.disks_of(cloud) for cloud in catalog.disk_clouds}
    disks = {cloud: known for cloud, known in disks.items() if known.network_types}
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        _require_unpriced(row, disks)
        first = seen.setdefault((row.cloud, row.region, row.disk_type), row.line)
        if first != row.line:
            what = f"is a second price of {row.disk_type} in {row.region}"
            raise bad(row.line, f"{what}; the first is in line {first}")
    _require_told_once(rows, file)
    return Told(tables=_tables(rows), days=[row.as_of for row in rows])


def _require_told_once(rows: Sequence[DiskPriceRow], file: PriceFile) -> None:
    """Two imports never tell one price."""
    others = {
        (cloud, told["region"], told["type"]): files.name
        for files in file.beside
        for cloud in files.manifest.get("disk_prices", ())
        for told in files.table(f"catalog/{cloud}_disk_prices.csv").records()
    }
    for row in rows:
        other = others.get((row.cloud, row.region, row.disk_type))
        if other:
            raise bad(row.line, f"has a price of {row.disk_type} that import '{other}' tells too")


def _tables(rows: Sequence[DiskPriceRow]) -> Tables:
    ids: dict[tuple[str, str], str] = {}
    for row in rows:
        ids.setdefault((row.as_of.isoformat(), row.source), f"d{len(ids) + 1}")
    origins = [(name, as_of, "the user's", text, "") for (as_of, text), name in ids.items()]
    tables = {SOURCES_FILE: csv_text(SOURCE_COLUMNS, origins)}
    counts = Counter(row.cloud for row in rows)
    for cloud in sorted(counts):
        cells = [_cells(row, ids) for row in rows if row.cloud == cloud]
        tables[f"catalog/{cloud}_disk_prices.csv"] = csv_text(COLUMNS, cells)
    return {"clouds": {}, "disk_prices": sorted(counts), "disk_price_counts": counts}, tables


def _row(line: int, cells: Mapping[str, str]) -> DiskPriceRow:
    currency, kind = cells["currency"].upper(), cells.get("kind") or LIST
    if currency not in CURRENCIES:
        raise bad(line, f"has '{cells['currency']}' as currency; known: {', '.join(CURRENCIES)}")
    if kind not in KINDS:
        raise bad(line, f"has '{kind}' as kind; known: {', '.join(KINDS)}")
    if not cells["price_per_gib_month"]:
        raise bad(line, "has no price_per_gib_month")
    return DiskPriceRow(
        line=line,
        cloud=plain_name(line, "cloud", cells["cloud"]).lower(),
        region=plain_name(line, "region", cells["region"]),
        disk_type=plain_name(line, "disk_type", cells["disk_type"]),
        per_gib=number(line, "price_per_gib_month", cells["price_per_gib_month"], float),
        per_iops=_apart(line, cells, "price_per_iops_month"),
        per_mib_s=_apart(line, cells, "price_per_mib_s_month"),
        currency=currency,
        kind=kind,
        as_of=day(line, cells["as_of"]),
        source=plain_text(line, "source", cells.get("source", "")) or "as the user told",
    )


def _apart(line: int, cells: Mapping[str, str], column: str) -> float:
    """0 for what is not sold apart."""
    text = cells.get(column, "")
    return number(line, column, text, float) if text.strip("0.") else 0.0


def _require_unpriced(row: DiskPriceRow, disks: Mapping[str, DiskCatalog]) -> None:
    if row.cloud not in disks:
        raise bad(row.line, f"is of {row.cloud}; disks are known of: {', '.join(disks)}")
    known = disks[row.cloud]
    if row.disk_type not in known.network_types:
        types = ", ".join(known.network_types)
        raise bad(row.line, f"has {row.disk_type}, no disk of {row.cloud}; it has: {types}")
    if known.has_price(row.disk_type, row.region):
        raise bad(row.line, f"has a price of {row.disk_type} in {row.region}: it is known already")


def _cells(row: DiskPriceRow, ids: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    return (
        row.region,
        row.disk_type,
        f"{row.per_gib:.10g}",
        f"0:{row.per_iops:.10g}",
        f"{row.per_mib_s:.10g}",
        ids[row.as_of.isoformat(), row.source],
        row.currency,
        row.kind,
    )
