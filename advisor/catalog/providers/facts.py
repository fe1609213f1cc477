"""A user's CSV of measured values for a cloud's assumed facts (docs/reference/catalog.md).

The columns are those of `assumed_facts.csv`; `low` and `high` may be left out for an exact value, and `why`
names the source."""

from __future__ import annotations

from collections import Counter

from advisor.catalog.assumed import COLUMNS, FILE, OF_TYPES, RATES
from advisor.catalog.catalog import Catalog
from advisor.catalog.prices import SOURCES_FILE
from advisor.catalog.providers.rows import Contents, PriceFile, lines_of, require_first
from advisor.catalog.providers.tables import SOURCE_COLUMNS, csv_text
from advisor.messages import Message

NEEDED, OPTIONAL = ("cloud", "fact", "value"), ("low", "high", "why")
_EMPTY = Message("the file has no facts: a header and nothing below it")


def reads(file: PriceFile) -> bool:
    """Return whether a file is a CSV of facts."""
    return "fact" in file.columns


def contents_of(file: PriceFile, catalog: Catalog) -> Contents:
    """The facts of clouds whose disks are known; `UsageError` for a bad line."""
    disk_types = {cloud: catalog.disks_of(cloud).rules for cloud in catalog.disk_clouds}
    seen: dict[tuple[str, ...], int] = {}
    rows: list[tuple[str, ...]] = []
    for line in lines_of(file, NEEDED, OPTIONAL, _EMPTY):
        cloud, fact = line.name("cloud").lower(), line.name("fact")
        if cloud not in disk_types:
            raise line.bad(f"is of {cloud}; known: {', '.join(disk_types)}")
        known = (*OF_TYPES, *(f"{disk}.{kind}" for disk in disk_types[cloud] for kind in RATES))
        if fact not in known:
            raise line.bad(f"tells {fact} of {cloud}; known: {', '.join(known)}")
        require_first(seen, (cloud, fact), line.number, f"tells {fact} a second time")
        value = line.amount("value")
        low, high = (line.amount(side) if line.text(side) else value for side in ("low", "high"))
        if not low <= value <= high:
            raise line.bad(f"has a value of {value:g}, not between {low:g} and {high:g}")
        why = line.words("why") or "imported by the user"
        rows.append((cloud, fact, *(f"{figure:.10g}" for figure in (value, low, high)), why))
    tables = {FILE: csv_text(COLUMNS, rows), SOURCES_FILE: csv_text(SOURCE_COLUMNS, [])}
    return Contents(tables=({"clouds": {}, "fact_counts": Counter(cloud for cloud, *_ in rows)}, tables))
