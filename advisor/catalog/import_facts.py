"""A user's CSV of what they measured of assumed facts of a cloud (docs/reference/catalog.md).

The columns are those of `assumed_facts.csv`; `low` and `high` may be left out where the value is
sure, and `why` says where it is from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from advisor.catalog.assumed import COLUMNS, FILE, OF_TYPES, RATES
from advisor.catalog.import_rows import bad, csv_lines, number, plain_name, plain_text
from advisor.catalog.import_tables import SOURCE_COLUMNS, csv_text
from advisor.errors import UsageError

SOURCES_FILE = "catalog/sources.csv"
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


def is_facts(text: str) -> bool:
    """Whether a file's header names facts."""
    header = text.removeprefix("\ufeff").partition("\n")[0].split(",")
    return "fact" in [cell.strip().strip('"') for cell in header]


def read_facts_file(text: str, disk_types: Mapping[str, Collection[str]]) -> list[FactRow]:
    """Every line; `disk_types` are those of each cloud. `UsageError` for a bad line."""
    rows = [_row(line, cells) for line, cells in csv_lines(text, NEEDED, OPTIONAL)]
    if not rows:
        raise UsageError("the file has no facts: a header and nothing below it")
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.cloud not in disk_types:
            raise bad(row.line, f"is of {row.cloud}; known: {', '.join(disk_types)}")
        of_disks = (f"{disk}.{kind}" for disk in disk_types[row.cloud] for kind in RATES)
        known = (*OF_TYPES, *of_disks)
        if row.fact not in known:
            raise bad(row.line, f"tells {row.fact} of {row.cloud}; known: {', '.join(known)}")
        if (row.cloud, row.fact) in seen:
            first = seen[row.cloud, row.fact]
            raise bad(row.line, f"tells {row.fact} a second time; the first is in line {first}")
        seen[row.cloud, row.fact] = row.line
    return rows


def build_facts_table(rows: list[FactRow]) -> tuple[dict[str, Any], dict[str, str]]:
    """Manifest and table texts of an import that brings no cloud of its own."""
    cells = [
        (row.cloud, row.fact, *(f"{x:.10g}" for x in (row.value, row.low, row.high)), row.why) for row in rows
    ]
    tables = {FILE: csv_text(COLUMNS, cells), SOURCES_FILE: csv_text(SOURCE_COLUMNS, [])}
    return {"clouds": {}}, tables


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
