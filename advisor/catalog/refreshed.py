"""Prices and offerings that the user refreshed: a file for each cloud in the user's data directory.

A file is one JSON document with a row a line, sealed with the SHA-256 of its own bytes. It is
written whole or not at all, and two refreshes at once lose nothing of each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.catalog.bundle import REFRESHED_SUFFIX, is_sealed, sealed
from advisor.domain import ESTIMATED, OBSERVED, Market, Price
from advisor.domain.money import MAX_AGE_DAYS
from advisor.errors import DataError, one_line

SCHEMA = "advisor.refreshed-prices/1"
# Files of before have no column `max_age_days`, or none of the last two.
PRICE_COLUMNS = "instance_type,region,market,usd_per_hour,kind,as_of,source,terms,max_age_days,low,high"
OFFERING_COLUMNS = "instance_type,region,offered,as_of"

PriceKey = tuple[str, str, Market]


class Refreshed(Struct, frozen=True):
    """Prices by type, region and market; offerings (whether, and when told) by type and region."""

    prices: dict[PriceKey, Price] = field(default_factory=dict)
    offerings: dict[tuple[str, str], tuple[bool, date]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prices or self.offerings)

    def under(self, newer: Refreshed) -> Refreshed:
        """Both together; where both know something, `newer` counts."""
        return Refreshed(self.prices | newer.prices, self.offerings | newer.offerings)

    @property
    def dates(self) -> list[date]:
        """The days on which anything was told, in order."""
        told = {price.as_of for price in self.prices.values()}
        return sorted(told | {day for _, day in self.offerings.values()})


def refreshed_file(folder: Path, cloud: str) -> Path:
    """Where the prices of a cloud lie."""
    return folder / f"{cloud}{REFRESHED_SUFFIX}"


def refreshed_clouds(folder: Path) -> list[str]:
    """Clouds of which something is kept, damaged or not, in order."""
    names = (path.name for path in folder.glob(f"*{REFRESHED_SUFFIX}"))
    return sorted(name.removesuffix(REFRESHED_SUFFIX) for name in names)


def read_refreshed(folder: Path, cloud: str) -> Refreshed:
    """What was refreshed; nothing where there is no file. `DataError` where it is damaged."""
    path = refreshed_file(folder, cloud)
    if not path.exists():
        return Refreshed()
    of, refreshed = refreshed_in(path)
    if of != cloud:
        raise _damaged(path)
    return refreshed


def refreshed_in(path: Path) -> tuple[str, Refreshed]:
    """A cloud and what was refreshed of it, by a file; `DataError` where it is damaged, or none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _damaged(path) from error
    try:
        document: Any = json.loads(content)
        if not is_sealed(content, document) or document["schema"] != SCHEMA:
            raise _damaged(path)
        prices = dict(_price(row.split(",")) for row in document["prices"])
        offerings = dict(_offering(row.split(",")) for row in document["offerings"])
        # Files of before there were others than AWS name no cloud.
        return document.get("cloud", "aws"), Refreshed(prices, offerings)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error


def keep_refreshed(folder: Path, cloud: str, newer: Refreshed) -> Path:
    """Lay what was told over what is kept, and return the file; a damaged one is replaced."""
    from advisor.files import write_whole  # only who refreshes waits for it

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make '{folder}': {error.strerror}") from error
    path = refreshed_file(folder, cloud)
    with _alone(path):
        try:
            kept = read_refreshed(folder, cloud)
        except DataError:
            kept = Refreshed()
        write_whole(path, sealed(_document(cloud, kept.under(newer))).decode())
    return path


def forget_refreshed(folder: Path, cloud: str) -> bool:
    """Go back to the snapshot; False where nothing was refreshed."""
    try:
        refreshed_file(folder, cloud).unlink()
    except FileNotFoundError:
        return False
    return True


def plain_cell(text: str) -> str:
    """A text as it can stand in a table, where no cell holds a comma or a line break."""
    return one_line(text).replace(",", ";")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else writes meanwhile; where files cannot be locked the last one to write wins."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _document(cloud: str, kept: Refreshed) -> dict[str, Any]:
    prices = sorted(
        f"{name},{region},{market},{one.usd_per_hour!r},{one.kind},{one.as_of},"
        f"{plain_cell(one.source)},{plain_cell(one.terms)},{one.max_age_days},"
        f"{one.low!r},{one.high!r}"
        for (name, region, market), one in kept.prices.items()
    )
    offerings = sorted(
        f"{name},{region},{int(offered)},{day}" for (name, region), (offered, day) in kept.offerings.items()
    )
    return {
        "schema": SCHEMA,
        "cloud": cloud,
        "columns": {"prices": PRICE_COLUMNS, "offerings": OFFERING_COLUMNS},
        "prices": prices,
        "offerings": offerings,
    }


def _price(cells: list[str]) -> tuple[PriceKey, Price]:
    name, region, market, usd, kind, day, source, terms, *rest = cells
    keeps, low, high = [*rest, *(str(MAX_AGE_DAYS), "1", "1")[len(rest) :]]
    price = Price(
        usd_per_hour=float(usd),
        kind=kind,
        as_of=date.fromisoformat(day),
        source=source,
        terms=terms,
        max_age_days=int(keeps),
        low=float(low),
        high=float(high),
    )
    if Market(market) is Market.SPOT and kind not in (OBSERVED, ESTIMATED):
        raise ValueError(f"a {kind} price on the market {market}")
    return (name, region, Market(market)), price


def _offering(cells: list[str]) -> tuple[tuple[str, str], tuple[bool, date]]:
    name, region, offered, day = cells
    return (name, region), (bool(int(offered)), date.fromisoformat(day))


def _damaged(path: Path) -> DataError:
    return DataError(
        f"the refreshed prices {path} are damaged; ask anew with `advisor catalog refresh`, or go "
        "back to the snapshot with `advisor catalog refresh --forget`"
    )
