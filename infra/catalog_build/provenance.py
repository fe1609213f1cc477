"""Where a part of the bundle comes from: origin, date, licence. Each provider names its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.catalog.sources import SOURCES_FILE
from infra.catalog_build.tables import OutputTable, table


@dataclass(frozen=True, slots=True)
class Source:
    """One origin; `as_of` is the date the facts were true, not the date of the build.

    `part` is what rests on it, in words; what is older than `max_age_days` is too old for a strict
    answer (None: the limit that all prices have). `note` is a sentence that users should read.
    """

    id: str
    as_of: str
    licence: str
    origin: str
    part: str
    max_age_days: int | None = None
    note: str = ""


def sources_table(sources: Iterable[Source]) -> OutputTable:
    """Every source once; `ValueError` where two share an id."""
    known: dict[str, Source] = {}
    for one in sources:
        if known.setdefault(one.id, one) != one:
            raise ValueError(f"two sources are called {one.id}")
    header = ("source", "as_of", "licence", "origin", "part", "max_age_days", "note")
    rows = [
        (
            *(one.id, one.as_of, one.licence, one.origin, one.part),
            str(one.max_age_days or ""),
            one.note,
        )
        for one in known.values()
    ]
    return table(SOURCES_FILE, header, rows)
