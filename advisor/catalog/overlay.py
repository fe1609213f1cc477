"""A user's prices, in the user's data directory: they replace the bundle's, or add other clouds.

`CLOUD.refreshed.json` holds prices and offerings of a bundled cloud, from a refresh, `--live` or an imported
list: a JSON document with one row per line, sealed with the SHA-256 of its other bytes. `NAME.import.json`
holds imported clouds that the bundle lacks, or imported disk prices and facts, in the bundle's form: the
first line is a manifest (with the SHA-256 of itself and of the rest), the second holds the tables, so that a
question about no imported cloud reads first lines only. A file is written whole or not at all, and two
refreshes at once lose nothing of each other. Prices of `LIVE_CLOUDS` can be fetched."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.catalog.bundle import StoredPrices, Table, is_sealed, sealed, stored_by_market
from advisor.catalog.instances import Origin
from advisor.catalog.prices import BASES_FILE, Basis, Currency, PriceTable, SourceUse
from advisor.domain import ESTIMATED, OBSERVED, Market, Price
from advisor.domain.money import MAX_AGE_DAYS
from advisor.errors import DataError, UsageError, one_line, unknown_name
from advisor.files import system_errors, user_folder, write_whole

# Name in commands -> name for people.
LIVE_CLOUDS = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud"}
# Regions to suggest, for live clouds without a default region.
USUAL_REGIONS = {"azure": "eastus or westeurope", "gcp": "us-central1 or europe-west4"}
LIVE_MARKETS = (Market.ON_DEMAND, Market.SPOT)


def is_live(cloud: str, market: Market) -> bool:
    """True if `recommend --live` and `catalog refresh` can fetch such a price."""
    return cloud in LIVE_CLOUDS and market in LIVE_MARKETS


def refresh_command(cloud: str, region: str) -> str | None:
    """The command that fetches a region's prices; None for a cloud without live prices."""
    if cloud not in LIVE_CLOUDS:
        return None
    return f"advisor catalog refresh --cloud {cloud} --region {region}"


def cloud_title(cloud: str) -> str:
    """A cloud's name for people."""
    return LIVE_CLOUDS.get(cloud, cloud)


OVERLAY_SUFFIX, OVERLAY_SCHEMA = ".refreshed.json", "advisor.refreshed-prices/1"
IMPORT_SUFFIX, IMPORT_SCHEMA = ".import.json", "advisor.catalog-import/1"
# Older files lack the column `max_age_days`, or the last two.
_PRICE_COLUMNS = "instance_type,region,market,usd_per_hour,kind,as_of,source,terms,max_age_days,low,high"
_OFFERING_COLUMNS = "instance_type,region,offered,as_of"
# Columns before the regions in an import's table of prices.
PRICE_KEYS = ("instance_type", "basis")

# (type, region, market); (market, kind, day, source, terms, days until it is old, low, high).
PriceKey = tuple[str, str, Market]
_BasisKey = tuple[Market, str, date, str, str, int, float, float]


class Overlay(Struct, frozen=True, dict=True):
    """Prices by type, region and market; offerings by type and region: (whether it is offered, on which day).

    A region that no longer offers a type has no price of it either, so the search looks elsewhere."""

    prices: dict[PriceKey, Price] = field(default_factory=dict)
    offerings: dict[tuple[str, str], tuple[bool, date]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prices or self.offerings)

    def updated_with(self, newer: Overlay) -> Overlay:
        """Both overlays together; `newer` wins where both have an entry."""
        return Overlay(self.prices | newer.prices, self.offerings | newer.offerings)

    @cached_property
    def regions(self) -> frozenset[str]:
        """Regions with a price."""
        return frozenset(region for _, region, _ in self._offered)

    @cached_property
    def _offered(self) -> dict[PriceKey, Price]:
        gone = {key for key, (there, _) in self.offerings.items() if not there}
        return {key: price for key, price in self.prices.items() if key[:2] not in gone}

    def not_replaced(self, stored: StoredPrices) -> StoredPrices:
        """Prices of the bundle without those that this overlay replaces."""
        if not self:
            return stored
        gone = {key for key, (there, _) in self.offerings.items() if not there}
        return stored.without(gone | {key[:2] for key in self._offered if key[2] == stored.market})

    def tables(self, cloud: str, dollars: Currency) -> list[PriceTable]:
        """The prices, one table per market."""
        names = self._bases(cloud)
        bases = {}
        for (_, kind, day, source, terms, keeps, low, high), name in names.items():
            origin = Origin(plain_cell(source), day, plain_cell(terms), keeps)
            bases[name] = Basis(kind, origin, "USD", dollars, origin.terms, low, high)
        stored = stored_by_market(
            (str(market), name, region, price.usd_per_hour, names[_basis_key(market, price)])
            for (name, region, market), price in self._offered.items()
        )
        return [PriceTable(prices, bases) for prices in stored]

    def source_uses(self, cloud: str) -> Iterator[SourceUse]:
        """The sources of its prices, each with its number of prices."""
        counts: dict[_BasisKey, int] = defaultdict(int)
        for (_, _, market), price in self._offered.items():
            counts[_basis_key(market, price)] += 1
        for key, name in self._bases(cloud).items():
            _, _, day, source, _, keeps, *_ = key
            yield SourceUse(
                source=name,
                part="refreshed prices",
                as_of=day,
                licence=_licence(cloud),
                origin=plain_cell(source),
                note="",
                prices=counts[key],
                max_age_days=keeps,
            )

    def part(self, cloud: str) -> tuple[str, dict[str, str]]:
        """Its name and entry among the parts of the catalogue."""
        source = f"{len(self.prices)} prices asked for with `advisor catalog refresh` or --live"
        days = [day for _, day in self.offerings.values()] + [price.as_of for price in self.prices.values()]
        part = {"as_of": min(days).isoformat(), "source": source, "licence": _licence(cloud)}
        return f"refreshed prices of {cloud_title(cloud)}", part

    def _bases(self, cloud: str) -> dict[_BasisKey, str]:
        keys = sorted({_basis_key(key[2], price) for key, price in self._offered.items()})
        return {key: f"{cloud} refreshed {number}" for number, key in enumerate(keys)}


NO_OVERLAY = Overlay()


def _basis_key(market: Market, price: Price) -> _BasisKey:
    basis = (price.kind, price.as_of, price.source, price.terms, price.max_age_days)
    return market, *basis, price.low, price.high


def _licence(cloud: str) -> str:
    return f"told by {cloud_title(cloud)} to the user"


def plain_cell(text: str) -> str:
    """A text that fits a table, where no cell holds a comma or a line break."""
    return one_line(text).replace(",", ";")


def own_imports() -> Path:
    """The folder of the user's imports and refreshed prices."""
    return user_folder() / "catalog"


def overlay_clouds(folder: Path) -> list[str]:
    """Clouds with a file of refreshed prices, damaged or not, in order."""
    return _stored_names(folder, OVERLAY_SUFFIX)


def read_overlay(folder: Path, cloud: str) -> Overlay:
    """The stored prices and offerings; empty without a file, `DataError` for a damaged one."""
    path = folder / f"{cloud}{OVERLAY_SUFFIX}"
    return overlay_in(path)[1] if path.exists() else NO_OVERLAY


def overlay_in(path: Path) -> tuple[str, Overlay]:
    """The cloud and overlay in a file; `DataError` where it is missing or damaged."""
    try:
        content = path.read_bytes()
        document: Any = json.loads(content)
        if not is_sealed(content, document) or document["schema"] != OVERLAY_SCHEMA:
            raise _damaged_overlay(path)
        prices = dict(_price_entry(row.split(",")) for row in document["prices"])
        rows = (row.split(",") for row in document["offerings"])
        offerings = {
            (name, region): (bool(int(there)), date.fromisoformat(day)) for name, region, there, day in rows
        }
        # Files from when only AWS could be refreshed name no cloud.
        return document.get("cloud", "aws"), Overlay(prices, offerings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged_overlay(path) from error


def keep_overlay(folder: Path, cloud: str, newer: Overlay) -> Path:
    """Merge `newer` into the stored overlay, and return the file; a damaged one is replaced."""
    _make_folder(folder)
    path = folder / f"{cloud}{OVERLAY_SUFFIX}"
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # keeps other writers out
        try:
            kept = read_overlay(folder, cloud)
        except DataError:
            kept = NO_OVERLAY
        write_whole(path, sealed(_document(cloud, kept.updated_with(newer))).decode())
    return path


def forget_overlay(folder: Path, cloud: str) -> bool:
    """Delete a cloud's refreshed prices; False where there are none."""
    try:
        (folder / f"{cloud}{OVERLAY_SUFFIX}").unlink()
    except FileNotFoundError:
        return False
    return True


def _document(cloud: str, kept: Overlay) -> dict[str, Any]:
    prices = sorted(
        f"{name},{region},{market},{price.usd_per_hour!r},{price.kind},{price.as_of},"
        f"{plain_cell(price.source)},{plain_cell(price.terms)},{price.max_age_days},{price.low!r},{price.high!r}"
        for (name, region, market), price in kept.prices.items()
    )
    offerings = sorted(
        f"{name},{region},{int(offered)},{day}" for (name, region), (offered, day) in kept.offerings.items()
    )
    return {
        "schema": OVERLAY_SCHEMA,
        "cloud": cloud,
        "columns": {"prices": _PRICE_COLUMNS, "offerings": _OFFERING_COLUMNS},
        "prices": prices,
        "offerings": offerings,
    }


def _price_entry(cells: list[str]) -> tuple[PriceKey, Price]:
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


def _damaged_overlay(path: Path) -> DataError:
    return DataError(
        f"the refreshed prices {path} are damaged; ask anew with `advisor catalog refresh`, or go "
        "back to the snapshot with `advisor catalog refresh --forget`"
    )


class ImportedFiles:
    """The tables of one stored import; `DataError` names the file where it was changed or cut short."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name.removesuffix(IMPORT_SUFFIX)
        try:
            with path.open("rb") as file:
                line = file.readline()
            head = json.loads(line)
            intact = head["digest"] == _digest(head) and head["schema"] == IMPORT_SCHEMA
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged() from error
        if not intact or not line.endswith(b"\n"):
            raise self._damaged()
        # Clouds with their price tables, parts with their dates, the file it came from.
        self.manifest: Mapping[str, Any] = head

    def has(self, path: str) -> bool:
        """True if the import has this table."""
        return path in self.manifest["tables"]

    def table(self, path: str) -> Table:
        """The table at `path`."""
        if not self.has(path):
            raise self._damaged()
        return Table(path, self._texts[path])

    def prices(self, path: str) -> list[StoredPrices]:
        """Stored prices by market, from a table with a line per type and basis and a column per region."""
        table = self.table(path)
        market_of = {row["basis"]: row["market"] for row in self.table(BASES_FILE).records()}
        return stored_by_market(
            (market_of[basis], name, region, float(price), basis)
            for name, basis, *prices in table
            for region, price in zip(table.header[len(PRICE_KEYS) :], prices, strict=True)
            if price
        )

    @cached_property
    def _texts(self) -> dict[str, str]:
        content = self._path.read_bytes().split(b"\n", 1)[1]
        if hashlib.sha256(content).hexdigest() != self.manifest["sha256"]:
            raise self._damaged()
        texts: dict[str, str] = json.loads(content)
        return texts

    def _damaged(self) -> DataError:
        return DataError(
            f"the import {self._path} is damaged; import its file again, or remove it with: "
            f"advisor catalog import --remove {self.name}"
        )


def imported_files(folder: Path, *, but: str = "") -> list[ImportedFiles]:
    """Every import in a folder but one, by name; empty without a folder."""
    return [ImportedFiles(folder / f"{name}{IMPORT_SUFFIX}") for name in import_names(folder) if name != but]


def import_names(folder: Path) -> list[str]:
    """Names of the stored imports, damaged ones included."""
    return _stored_names(folder, IMPORT_SUFFIX)


def store_import(folder: Path, name: str, manifest: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    """Write one import whole, in place of an earlier one of that name."""
    content = json.dumps(tables, sort_keys=True)
    head = dict(manifest) | {
        "schema": IMPORT_SCHEMA,
        "tables": sorted(tables),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
    }
    head["digest"] = _digest(head)
    _make_folder(folder)
    write_whole(folder / f"{name}{IMPORT_SUFFIX}", f"{json.dumps(head, sort_keys=True)}\n{content}")


def remove_import(folder: Path, name: str) -> None:
    """Delete an import; `UsageError` with near names for an unknown one."""
    known = import_names(folder)
    if name not in known:
        if not known:
            raise UsageError(f"there is no import '{name}': nothing has been imported")
        raise unknown_name("import", name, known)
    (folder / f"{name}{IMPORT_SUFFIX}").unlink()


def _digest(head: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in head.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _stored_names(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))


def _make_folder(folder: Path) -> None:
    with system_errors(DataError, f"cannot make '{folder}'"):
        folder.mkdir(parents=True, exist_ok=True)
