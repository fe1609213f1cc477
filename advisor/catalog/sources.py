"""Where everything in the catalogue comes from, and how many prices rest on each source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

import numpy as np
from msgspec import Struct

from advisor.catalog.files import Files
from advisor.catalog.prices import BASES_FILE
from advisor.domain.money import MAX_AGE_DAYS

SOURCES_FILE = "catalog/sources.csv"


class SourceUse(Struct, frozen=True, kw_only=True):
    """A source, and what rests on it.

    `prices` counts prices of instances and of disks. `max_age_days` is None where no price rests
    on it: facts do not expire. `note` is what users should know of it, or empty.
    """

    id: str
    part: str
    as_of: date
    licence: str
    origin: str
    note: str
    prices: int
    max_age_days: int | None

    def age_days(self, today: date) -> int:
        """How old it is."""
        return (today - self.as_of).days

    def is_too_old(self, today: date) -> bool:
        """Whether a strict answer refuses its prices."""
        return self.max_age_days is not None and self.age_days(today) > self.max_age_days


def source_uses(bundles: Iterable[Files]) -> list[SourceUse]:
    """Every source of the snapshot, of what was imported and of what was refreshed, those with
    most prices first."""
    found = [use for files in bundles for use in _uses(files)]
    return sorted(found, key=lambda use: (-use.prices, use.part, use.id))


def _uses(files: Files) -> Iterator[SourceUse]:
    counts = _prices_by_source(files)
    for row in files.table(SOURCES_FILE).records():
        prices = counts[row["source"]]
        yield SourceUse(
            id=row["source"],
            part=row.get("part") or "imported",
            as_of=date.fromisoformat(row["as_of"]),
            licence=row["licence"],
            origin=row["origin"],
            note=row.get("note", ""),
            prices=prices,
            max_age_days=int(row.get("max_age_days") or MAX_AGE_DAYS) if prices else None,
        )


def _prices_by_source(files: Files) -> Counter[str]:
    counts: Counter[str] = Counter()
    if files.has(BASES_FILE):
        source_of = {row["basis"]: row["source"] for row in files.table(BASES_FILE).records()}
        for facts in files.manifest["clouds"].values():
            for stored in (one for path in facts["prices"] for one in files.prices(path)):
                priced = stored.basis[stored.position > 0]
                for basis, count in zip(stored.bases, np.bincount(priced).tolist(), strict=False):
                    counts[source_of[basis]] += count
    for cloud in (*files.manifest["clouds"], *files.manifest.get("disk_prices", ())):
        path = f"catalog/{cloud}_disk_prices.csv"
        if files.has(path):
            counts.update(row["source"] for row in files.table(path).records())
    return counts
