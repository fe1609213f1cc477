"""A user's CSV of what they measured of assumed facts of a cloud (docs/reference/catalog.md).

The columns are those of `assumed_facts.csv`; `low` and `high` may be left out where the value is
sure, and `why` says where it is from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from advisor.catalog.assumed import COLUMNS, FILE, OF_TYPES, RATES
from advisor.catalog.catalog import Catalog
from advisor.catalog.prices import SOURCES_FILE
from advisor.catalog.providers.rows import PriceFile, Told, bad, csv_lines, number, plain_name, plain_text
from advisor.catalog.providers.tables import SOURCE_COLUMNS, csv_text
from advisor.errors import UsageError

NEEDED, OPTIONAL = ("cloud", "fact", "value"), ("low", "high", "why")


class FactRow(NamedTuple):
    """One checked fact of a cloud."""

    line: int
    cloud: str
    fact: str
    value: float
    low: float
    high: float
    why: str


def reads(file: PriceFile) -> bool:
    """A CSV that names facts."""
    return "fact" in file.columns


def told(file: PriceFile, catalog: Catalog) -> Told:
    """The facts of clouds whose disks are known; `UsageError` for a bad line."""
    rows = [_row(line, cells) for line, cells in csv_lines(file.text, NEEDED, OPTIONAL)]
    if not rows:
        raise UsageError("the file has no facts: a header and nothing below it")
    disk_types = {cloud: catalog.disks_of(cloud).network_types for cloud in catalog.disk_clouds}
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.cloud not in disk_types:
            raise bad(row.line, f"is of {row.cloud}; known: {', '.join(disk_types)}")
        of_disks = (f"{disk}.{kind}" for disk in disk_types[row.cloud] for kind in RATES)
        known = (*OF_TYPES, *of_disks)
        if row.fact not in known:
            raise bad(row.line, f"tells {row.fact} of {row.cloud}; known: {', '.join(known)}")
        first = seen.setdefault((row.cloud, row.fact), row.line)
        if first != row.line:
            raise bad(row.line, f"tells {row.fact} a second time; the first is in line {first}")
    cells = [
        (row.cloud, row.fact, *(f"{x:.10g}" for x in (row.value, row.low, row.high)), row.why) for row in rows
    ]
    tables = {FILE: csv_text(COLUMNS, cells), SOURCES_FILE: csv_text(SOURCE_COLUMNS, [])}
    return Told(tables=({"clouds": {}, "fact_counts": Counter(row.cloud for row in rows)}, tables))


def _row(line: int, cells: Mapping[str, str]) -> FactRow:
    value = number(line, "value", cells["value"], float)
    low, high = (
        number(line, side, cells[side], float) if cells.get(side) else value for side in ("low", "high")
    )
    if not low <= value <= high:
        raise bad(line, f"has a value of {value:g}, not between {low:g} and {high:g}")
    return FactRow(
        line=line,
        cloud=plain_name(line, "cloud", cells["cloud"]).lower(),
        fact=plain_name(line, "fact", cells["fact"]),
        value=value,
        low=low,
        high=high,
        why=plain_text(line, "why", cells.get("why", "")) or "imported by the user",
    )
