"""What a user imported: one file an import, in the user's data directory, whole or not there.

The first line is a manifest (with the SHA-256 of its own bytes and of the rest), the second line
holds the tables, in the form of the bundle. A command that asks about no imported cloud reads
first lines only.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from advisor.catalog.bundle import StoredPrices, Table, stored_prices
from advisor.catalog.prices import BASES_FILE
from advisor.errors import DataError, UsageError, unknown_name

SCHEMA = "advisor.catalog-import/1"
SUFFIX = ".import.json"
# Columns of a table of prices before the regions.
PRICE_KEYS = ("instance_type", "basis")


class ImportedFiles:
    """One stored import as tables; `DataError` names the file where it is not as it was stored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                line = file.readline()
            head = json.loads(line)
            intact = head["digest"] == _digest(head) and head["schema"] == SCHEMA
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged() from error
        if not intact or not line.endswith(b"\n"):
            raise self._damaged()
        self._head: Mapping[str, Any] = head

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Clouds with their price tables, parts with their dates, the file it came from."""
        return self._head

    @property
    def name(self) -> str:
        """What the import is called."""
        return self._path.name.removesuffix(SUFFIX)

    def has(self, path: str) -> bool:
        """Whether the import has this table."""
        return path in self._head["tables"]

    def table(self, path: str) -> Table:
        """The table at `path`."""
        if not self.has(path):
            raise self._damaged()
        return Table(path, self._texts[path])

    def prices(self, path: str) -> list[StoredPrices]:
        """The prices of the table at `path`, one entry a market."""
        return _by_market(self.table(path), self.table(BASES_FILE))

    @cached_property
    def _texts(self) -> dict[str, str]:
        content = self._path.read_bytes().split(b"\n", 1)[1]
        if hashlib.sha256(content).hexdigest() != self._head["sha256"]:
            raise self._damaged()
        texts: dict[str, str] = json.loads(content)
        return texts

    def _damaged(self) -> DataError:
        name = self._path.name.removesuffix(SUFFIX)
        return DataError(
            f"the import {self._path} is damaged; import its file again, or remove it with: "
            f"advisor catalog import --remove {name}"
        )


def _by_market(table: Table, bases: Table) -> list[StoredPrices]:
    """A table with a line for each type and basis, and a column for each region."""
    market_of = {row["basis"]: row["market"] for row in bases.records()}
    cells: dict[str, dict[str, dict[str, tuple[float, str]]]]
    cells = defaultdict(lambda: defaultdict(dict))
    for name, basis, *prices in table:
        for region, price in zip(table.header[len(PRICE_KEYS) :], prices, strict=True):
            if price:
                cells[market_of[basis]][name][region] = float(price), basis
    return [stored_prices(market, of_types) for market, of_types in cells.items()]


def imported_files(folder: Path) -> list[ImportedFiles]:
    """Every import in a folder, by name; none where there is no folder."""
    return [ImportedFiles(path) for path in _stored(folder)]


def import_names(folder: Path) -> list[str]:
    """Names of the stored imports, damaged ones included."""
    return [path.name.removesuffix(SUFFIX) for path in _stored(folder)]


def store(folder: Path, name: str, manifest: Mapping[str, Any], tables: Mapping[str, str]) -> None:
    """Write one import whole, in place of an earlier one of that name."""
    from advisor.files import write_whole  # only who imports waits for it

    content = json.dumps(tables, sort_keys=True)
    head = dict(manifest) | {
        "schema": SCHEMA,
        "tables": sorted(tables),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
    }
    head["digest"] = _digest(head)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make '{folder}': {error.strerror}") from error
    write_whole(folder / f"{name}{SUFFIX}", f"{json.dumps(head, sort_keys=True)}\n{content}")


def remove(folder: Path, name: str) -> None:
    """Take an import away; `UsageError` with near names where there is none of that name."""
    known = import_names(folder)
    if name not in known:
        if not known:
            raise UsageError(f"there is no import '{name}': nothing has been imported")
        raise unknown_name("import", name, known)
    (folder / f"{name}{SUFFIX}").unlink()


def _stored(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _digest(head: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in head.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
