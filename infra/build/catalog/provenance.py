"""Where a part of the bundle comes from: origin, date, licence. Each provider names its own."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from advisor.catalog.prices import SOURCES_FILE
from advisor.infra.build.catalog.tables import OutputTable, table


class Source(Struct, frozen=True):
    """One origin; `as_of` is the date the facts were true, not the date of the build.

    `part` is what rests on it, in words; what is older than `max_age_days` is too old for a strict
    answer, and told as old (None: 90 days). `note` tells users what nobody knows of it without
    asking the seller, as a warning among others: no capital, comma, semicolon or full stop.
    """

    id: str
    as_of: str
    licence: str
    origin: str
    part: str
    max_age_days: int | None = None
    note: str = ""


# How long prices keep. AWS lists of 2025-04-04 and 2026-02-17 are equal in 8,927 of 8,959 pairs,
# those of 2022-02-06 and 2026-02-17 in 99.8 % of 3,602; the others are P4, P5 and the largest U7i,
# which fell by up to 44 % in June 2025: lists of accelerators keep as long as other clouds' lists.
AWS_LIST_DAYS = 730
# EBS of 2022-02 and 2024-07 is equal in 131 of 131.
AWS_DISK_DAYS = 1500
# Azure's of 2026-05-20 and 2026-08-22 are equal in 4,078 of 4,078; other lists of large clouds are
# taken to move as little within a year, which nobody measured.
LIST_DAYS = 365
# Observed prices of spare machines.
SPOT_DAYS = 90
# Prices of neo-clouds moved by 96 to 145 % within 90 days (63 of them).
NEO_LIST_DAYS = 30


def sources_table(sources: Iterable[Source]) -> OutputTable:
    """Every source once; `ValueError` where two share an id."""
    known: dict[str, Source] = {}
    for one in sources:
        if known.setdefault(one.id, one) != one:
            raise ValueError(f"two sources are called {one.id}")
    header = ("source", "as_of", "licence", "origin", "part", "max_age_days", "note")
    rows = [
        (*(one.id, one.as_of, one.licence, one.origin, one.part), str(one.max_age_days or ""), one.note)
        for one in known.values()
    ]
    return table(SOURCES_FILE, header, rows)
