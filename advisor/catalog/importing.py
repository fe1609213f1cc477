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
from advisor.catalog.import_ec2instances import CLOUD as OF_EC2INSTANCES
from advisor.catalog.import_ec2instances import is_ec2instances, read_ec2instances
from advisor.catalog.import_facts import build_facts_table, is_facts, read_facts_file
from advisor.catalog.import_gpu_hours import is_gpu_hours, read_gpu_hours, rows_of_new_clouds
from advisor.catalog.import_json import parsed
from advisor.catalog.import_rows import ImportRow, bad, is_to_come, plain_name, read_rows
from advisor.catalog.import_skypilot import is_skypilot, read_skypilot
from advisor.catalog.import_tables import build_tables
from advisor.catalog.imported import ImportedFiles, imported_files, store
from advisor.catalog.laid_over import LaidOver, with_gpu_hours, with_rows
from advisor.catalog.refreshed import keep_refreshed
from advisor.errors import UsageError
from advisor.messages import Message


@dataclass(frozen=True, slots=True)
class Imported:
    """One import: its name, the offers of each cloud in it, and lines that were no offers; or the
    disk prices or facts that it tells of clouds that are known. `refreshed` counts prices that lie
    over those of the snapshot, as those of a refresh do.
    """

    name: str
    offers: dict[str, int]
    left_out: int = 0
    disk_prices: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    refreshed: dict[str, int] = field(default_factory=dict)


def import_file(
    path: Path, name: str | None, folder: Path, catalog: Catalog, *, as_of: date | None = None
) -> Imported:
    """Check a file as a whole and keep it in `folder`, in place of an import of the same name.

    `catalog` gives the data sheets and the clouds whose names are taken. `as_of` is when a file
    that tells no date was fetched. `UsageError` with line and reason: then nothing has changed.
    """
    name = plain_name(0, "name", (name or path.stem).lower().replace(" ", "_"))
    if as_of is not None and is_to_come(as_of):
        raise UsageError(
            f"{as_of} is a day to come; say when the file was fetched: --as-of 2026-07-20",
            field="as_of",
        )
    text = _read(path)
    if text.lstrip("\ufeff \t\r\n")[:1] in ("[", "{"):
        return _take_json(text, path, name, folder, catalog, as_of)
    if is_disk_prices(text):
        return _take_disk_prices(text, path, name, folder, catalog)
    if is_facts(text):
        return _take_facts(text, path, name, folder, catalog)
    rows, left_out = _rows(text, name, as_of)
    if is_skypilot(text) and name in set(catalog.clouds) - import_clouds(folder):
        return _laid_over(with_rows(rows, catalog, name), name, folder, left_out)
    return _take_offers(rows, path, name, folder, catalog, left_out)


def import_clouds(folder: Path, *, but: str = "") -> set[str]:
    """Clouds that stored imports brought, `but` one of them."""
    files = (one for one in imported_files(folder) if one.name != but)
    return {cloud for one in files for cloud in one.manifest["clouds"]}


def _take_json(
    text: str, path: Path, name: str, folder: Path, catalog: Catalog, as_of: date | None
) -> Imported:
    """Prices of known types lie over the snapshot's; other clouds become offers of their own."""
    document = parsed(text)
    if is_ec2instances(document):
        if as_of is None:
            raise _undated("the file of ec2instances.info")
        known = frozenset(one.name for one in catalog.instances(OF_EC2INSTANCES))
        found, left_out = read_ec2instances(document, as_of, known)
        return _laid_over(LaidOver({OF_EC2INSTANCES: found}), name, folder, left_out)
    if not is_gpu_hours(document):
        raise UsageError(
            "the file is JSON and no price list that is known",
            hint=Message("a tracker's rows tell a provider, a GPU and a price in US dollars; "
                         "ec2instances.info lists types with their pricing"),
            field="file",
        )  # fmt: skip
    hours, left_out = read_gpu_hours(document, as_of)
    source = f"{path.name.replace(',', ' ')} (imported)"
    bundled = set(catalog.clouds) - import_clouds(folder)
    over = with_gpu_hours([hour for hour in hours if hour.cloud in bundled], catalog, source)
    # What another import brought stays as it is.
    new = [hour for hour in hours if hour.cloud not in bundled | import_clouds(folder, but=name)]
    left_out += over.left_out + sum(hour.cloud not in bundled for hour in hours) - len(new)
    rows, counts = rows_of_new_clouds(new, source), dict[str, int]()
    if rows:
        counts = _take_offers(rows, path, name, folder, catalog, left_out).offers
    elif not over.prices:
        raise _nothing_known()
    return Imported(name, counts, left_out, refreshed=_kept(over, folder))


def _laid_over(over: LaidOver, name: str, folder: Path, left_out: int) -> Imported:
    if not over.prices:
        raise _nothing_known()
    return Imported(name, {}, left_out + over.left_out, refreshed=_kept(over, folder))


def _kept(over: LaidOver, folder: Path) -> dict[str, int]:
    """Keep prices as those of a refresh are kept; how many of each cloud."""
    for cloud, found in over.prices.items():
        keep_refreshed(folder, cloud, found)
    return {cloud: len(found.prices) for cloud, found in over.prices.items()}


def _nothing_known() -> UsageError:
    return UsageError("the file prices no type that is known", field="file")


def _take_facts(text: str, path: Path, name: str, folder: Path, catalog: Catalog) -> Imported:
    types = {cloud: catalog.disks_of(cloud).network_types for cloud in catalog.disk_clouds}
    rows = read_facts_file(text, types)
    manifest, tables = build_facts_table(rows)
    counts = Counter(row.cloud for row in rows)
    store(folder, name, manifest | _told_of(name, path, [date.today()]) | {
        "offers": {}, "left_out": 0, "fact_counts": counts,
    }, tables)  # fmt: skip
    return Imported(name, {}, facts=dict(counts))


def _take_offers(
    rows: Sequence[ImportRow], path: Path, name: str, folder: Path, catalog: Catalog, left_out: int
) -> Imported:
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
    disks, facts = head.get("disk_price_counts", {}), head.get("fact_counts", {})
    return Imported(files.name, head["offers"], head["left_out"], disks, facts)


def _rows(text: str, name: str, as_of: date | None) -> tuple[list[ImportRow], int]:
    if not is_skypilot(text):
        return read_rows(text, name), 0
    if as_of is None:
        raise _undated("a SkyPilot catalogue")
    return read_skypilot(text, name, as_of)


def _undated(what: str) -> UsageError:
    return UsageError(
        f"{what} tells no date; say when it was fetched: --as-of 2026-07-20", field="as_of"
    )


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
