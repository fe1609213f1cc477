"""A user's CSV of disk prices -> checked rows and the tables of an import.

Columns (docs/reference/catalog.md): `cloud`, `region`, `disk_type`, `price_per_gib_month`,
`currency` and `as_of` are needed; `kind`, `source` and what IOPS and MiB/s cost apart may be left
out. Only a disk whose rules are known and whose price is not can be priced so: no price of another
origin is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Protocol

from msgspec import Struct

from advisor.catalog.disk_prices import LISTED_COLUMNS
from advisor.catalog.import_rows import bad, csv_lines, day, number, plain_name, plain_text
from advisor.catalog.import_tables import SOURCE_COLUMNS, csv_text
from advisor.domain import ESTIMATED, LIST, OBSERVED
from advisor.errors import UsageError

NEEDED = ("cloud", "region", "disk_type", "price_per_gib_month", "currency", "as_of")
OPTIONAL = ("kind", "source", "price_per_iops_month", "price_per_mib_s_month")
KINDS = (LIST, OBSERVED, ESTIMATED)
# Those with a rate in the snapshot.
CURRENCIES = ("USD", "CNY")
COLUMNS = (*LISTED_COLUMNS, "currency", "kind")


class Disks(Protocol):
    """What is known of a cloud's disks."""

    @property
    def network_types(self) -> tuple[str, ...]:
        """Types that can be ordered."""

    def has_price(self, disk_type: str, region: str) -> bool:
        """Whether the bundle knows what a type costs in a region."""


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


def is_disk_prices(text: str) -> bool:
    """Whether a file's header names disks, not offers."""
    header = text.removeprefix("\ufeff").partition("\n")[0].split(",")
    return "disk_type" in [cell.strip().strip('"') for cell in header]


def read_disk_prices(text: str, disks: Mapping[str, Disks]) -> list[DiskPriceRow]:
    """Every line; `disks` are those of the clouds whose disks are known. `UsageError` for a bad
    line, a disk that is not known, and one that has a price already.
    """
    rows = [_row(line, cells) for line, cells in csv_lines(text, NEEDED, OPTIONAL)]
    if not rows:
        raise UsageError("the file has no prices: a header and nothing below it")
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        _require_unpriced(row, disks)
        key = (row.cloud, row.region, row.disk_type)
        if key in seen:
            what = f"is a second price of {row.disk_type} in {row.region}"
            raise bad(row.line, f"{what}; the first is in line {seen[key]}")
        seen[key] = row.line
    return rows


def build_disk_tables(rows: Sequence[DiskPriceRow]) -> tuple[dict[str, Any], dict[str, str]]:
    """Manifest and table texts of an import that brings no cloud of its own."""
    ids: dict[tuple[str, str], str] = {}
    for row in rows:
        ids.setdefault((row.as_of.isoformat(), row.source), f"d{len(ids) + 1}")
    origins = [(name, as_of, "the user's", text, "") for (as_of, text), name in ids.items()]
    tables = {"catalog/sources.csv": csv_text(SOURCE_COLUMNS, origins)}
    for cloud in sorted({row.cloud for row in rows}):
        cells = [_cells(row, ids) for row in rows if row.cloud == cloud]
        tables[f"catalog/{cloud}_disk_prices.csv"] = csv_text(COLUMNS, cells)
    return {"clouds": {}, "disk_prices": sorted({row.cloud for row in rows})}, tables


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


def _require_unpriced(row: DiskPriceRow, disks: Mapping[str, Disks]) -> None:
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
