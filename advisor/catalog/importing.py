"""Taking a user's offers into the catalogue: the whole file, or nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from advisor.catalog.catalog import Catalog
from advisor.catalog.import_disk_prices import (
    DiskPriceRow,
    build_disk_tables,
    is_disk_prices,
    read_disk_prices,
)
from advisor.catalog.import_rows import ImportRow, bad, plain_name, read_rows
from advisor.catalog.import_skypilot import is_skypilot, read_skypilot
from advisor.catalog.import_tables import build_tables
from advisor.catalog.imported import ImportedFiles, imported_files, store
from advisor.errors import UsageError


@dataclass(frozen=True, slots=True)
class Imported:
    """One import: its name, the offers of each cloud in it, and lines that were no offers; or the
    disk prices that it tells of clouds that are known.
    """

    name: str
    offers: dict[str, int]
    left_out: int = 0
    disk_prices: dict[str, int] = field(default_factory=dict)


def import_file(
    path: Path, name: str | None, folder: Path, catalog: Catalog, *, as_of: date | None = None
) -> Imported:
    """Check a CSV as a whole and keep it in `folder`, in place of an import of the same name.

    `catalog` gives the data sheets and the clouds whose names are taken. `as_of` is when a
    SkyPilot file was fetched. `UsageError` with line and reason: then nothing has changed.
    """
    name = plain_name(0, "name", (name or path.stem).lower().replace(" ", "_"))
    text = _read(path)
    if is_disk_prices(text):
        return _take_disk_prices(text, path, name, folder, catalog)
    rows, left_out = _rows(text, name, as_of)
    _require_free(name, {row.cloud for row in rows}, folder, catalog)
    manifest, tables = build_tables(rows, catalog.gpus)
    offers = Counter(row.cloud for row in rows if row.price is not None)
    counts = {cloud: offers[cloud] for cloud in manifest["clouds"]}
    manifest |= _told_of(name, path, [row.as_of for row in rows])
    manifest |= {"offers": counts, "left_out": left_out}
    store(folder, name, manifest, tables)
    return Imported(name, counts, left_out)


def _take_disk_prices(text: str, path: Path, name: str, folder: Path, catalog: Catalog) -> Imported:
    disks = {cloud: catalog.disks_of(cloud) for cloud in catalog.disk_clouds}
    rows = read_disk_prices(text, {name: one for name, one in disks.items() if one.network_types})
    _require_told_once(rows, name, folder)
    manifest, tables = build_disk_tables(rows)
    counts = Counter(row.cloud for row in rows)
    store(folder, name, manifest | _told_of(name, path, [row.as_of for row in rows]) | {
        "offers": {}, "left_out": 0, "disk_price_counts": counts,
    }, tables)  # fmt: skip
    return Imported(name, {}, 0, dict(counts))


def _require_told_once(rows: Sequence[DiskPriceRow], name: str, folder: Path) -> None:
    """Two imports never tell one price."""
    others = {
        (cloud, row["region"], row["type"]): one.name
        for one in imported_files(folder)
        if one.name != name
        for cloud in one.manifest.get("disk_prices", ())
        for row in one.table(f"catalog/{cloud}_disk_prices.csv").records()
    }
    for row in rows:
        other = others.get((row.cloud, row.region, row.disk_type))
        if other:
            raise bad(row.line, f"has a price of {row.disk_type} that import '{other}' tells too")


def _told_of(name: str, path: Path, dates: Sequence[date]) -> dict[str, Any]:
    part = {"as_of": min(dates).isoformat(), "source": path.name, "licence": "the user's own"}
    return {"parts": {f"import {name}": part}}


def imports_in(folder: Path) -> list[Imported]:
    """What has been imported."""
    return [_told(one) for one in imported_files(folder)]


def _told(files: ImportedFiles) -> Imported:
    head = files.manifest
    disks = head.get("disk_price_counts", {})
    return Imported(files.name, head["offers"], head["left_out"], disks)


def _rows(text: str, name: str, as_of: date | None) -> tuple[list[ImportRow], int]:
    if not is_skypilot(text):
        return read_rows(text, name), 0
    if as_of is None:
        raise UsageError(
            "a SkyPilot catalogue tells no date; say when it was fetched: --as-of 2026-07-20"
        )
    return read_skypilot(text, name, as_of)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is no UTF-8 text; save it as CSV in UTF-8") from error


def _require_free(name: str, clouds: set[str], folder: Path, catalog: Catalog) -> None:
    """An import never hides or mixes with prices of another origin."""
    own: set[str] = set()
    others = {"any"}
    for one in imported_files(folder):
        (own if one.name == name else others).update(one.manifest["clouds"])
    taken = (set(catalog.clouds) - own) | others
    clash = sorted(clouds & taken)
    if clash:
        raise UsageError(
            f"the catalogue has a cloud '{clash[0]}' already; import under another name with --name"
        )
