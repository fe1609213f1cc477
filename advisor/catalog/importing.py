"""Taking a user's offers into the catalogue: the whole file, or nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

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
from advisor.catalog.import_rows import ANY_CLOUD, ImportRow, bad, is_to_come, plain_name, read_rows
from advisor.catalog.import_skypilot import HOSTS_APART, SkyPilotRows, is_skypilot, read_skypilot
from advisor.catalog.import_tables import NO_CARD, build_tables, why_no_card
from advisor.catalog.imported import ImportedFiles, imported_files, store
from advisor.catalog.laid_over import LaidOver, believed, with_gpu_hours, with_rows
from advisor.catalog.overlaid import since
from advisor.catalog.refreshed import Refreshed, keep_refreshed
from advisor.errors import UsageError
from advisor.messages import Message


class Imported(Struct, frozen=True):
    """One import: its name, the offers of each cloud in it, and rows that were left out by reason;
    or the disk prices or facts that it has of clouds that are known. `refreshed` counts prices that
    lie over those of the snapshot, as those of a refresh do. `examples` has a line of some reasons,
    and `read_as` counts lines whose value was taken otherwise than it is written.
    """

    name: str
    offers: dict[str, int]
    left_out: Counter[str] = field(default_factory=Counter)
    disk_prices: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    refreshed: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    read_as: Counter[str] = field(default_factory=Counter)


def import_file(
    path: Path,
    name: str | None,
    folder: Path,
    catalog: Catalog,
    *,
    as_of: date | None = None,
    accept_implausible: bool = False,
) -> Imported:
    """Check a file as a whole and keep it in `folder`, in place of an import of the same name.

    `catalog` gives the data sheets and the clouds whose names are taken. `as_of` is when a file
    that tells no date was fetched; `accept_implausible` takes prices that are far from the known
    ones. `UsageError` with line and reason: then nothing has changed.
    """
    name = plain_name(0, "name", (name or path.stem).lower().replace(" ", "_"))
    _require_past(as_of)
    text = _read(path)
    begins = text.lstrip("\ufeff \t\r\n")[:1]
    if begins in ("[", "{") or path.suffix.lower() == ".json":
        return _take_json(text, path, name, folder, catalog, as_of, accept_implausible)
    if is_disk_prices(text):
        return _take_disk_prices(text, path, name, folder, catalog)
    if is_facts(text):
        return _take_facts(text, path, name, folder, catalog)
    if is_skypilot(text):
        return _take_skypilot(text, path, name, folder, catalog, as_of, accept_implausible)
    return _take_offers(_own_rows(text, name, catalog), path, name, folder, catalog, Counter())


def _require_past(as_of: date | None) -> None:
    if as_of is not None and is_to_come(as_of):
        raise UsageError(
            f"{as_of} is in the future; say when the file was fetched: --as-of 2026-11-20", field="as_of"
        )


def _own_rows(text: str, name: str, catalog: Catalog) -> list[ImportRow]:
    """Rows of the user's own format; `UsageError` for a GPU that cannot be."""
    rows = read_rows(text, name)
    for row in rows:
        if why := why_no_card(row.facts, catalog.gpus):
            raise bad(row.line, f"has a gpu_memory_gib that cannot be: {why}")
    return rows


def _take_skypilot(
    text: str,
    path: Path,
    name: str,
    folder: Path,
    catalog: Catalog,
    as_of: date | None,
    accept_implausible: bool,
) -> Imported:
    if as_of is None:
        raise _undated("a SkyPilot catalogue")
    is_known = name in set(catalog.clouds) - import_clouds(folder)
    types = {one.name: one for one in catalog.instances(name if is_known else HOSTS_APART)}
    read = read_skypilot(text, name, as_of, types)
    if is_known:
        over = with_rows(read.rows, catalog, name)
        done = _laid_over(over, name, folder, catalog, read.left_out, accept_implausible)
    else:
        rows = _of_whole_cards(read, catalog)
        done = _take_offers(rows, path, name, folder, catalog, read.left_out)
    return replace(done, examples=read.examples | done.examples, read_as=+read.read_as)


def _of_whole_cards(read: SkyPilotRows, catalog: Catalog) -> list[ImportRow]:
    """Without rows whose GPU has the memory of no card of its name."""
    whys = [(row, why_no_card(row.facts, catalog.gpus)) for row in read.rows]
    for row, why in whys:
        if why:
            read.leave_out(row.line, f"{row.instance_type}: {why}", NO_CARD)
    return [row for row, why in whys if not why]


def import_clouds(folder: Path, *, but: str = "") -> set[str]:
    """Clouds that stored imports brought, `but` one of them."""
    files = (one for one in imported_files(folder) if one.name != but)
    return {cloud for one in files for cloud in one.manifest["clouds"]}


def _take_json(
    text: str,
    path: Path,
    name: str,
    folder: Path,
    catalog: Catalog,
    as_of: date | None,
    accept_implausible: bool,
) -> Imported:
    """Prices of known types lie over the snapshot's; other clouds become offers of their own."""
    document = parsed(text)
    if is_ec2instances(document):
        if as_of is None:
            raise _undated("ec2instances.info's file")
        types = {one.name: one for one in catalog.instances(OF_EC2INSTANCES)}
        found, left_out, examples = read_ec2instances(document, as_of, types, catalog.gpus)
        over = LaidOver({OF_EC2INSTANCES: found}, examples=examples)
        return _laid_over(over, name, folder, catalog, left_out, accept_implausible)
    if not is_gpu_hours(document):
        raise UsageError(
            "this JSON is none of the price lists that can be read",
            hint=Message(
                "rows of a tracker have a provider, a GPU and a price in US dollars; "
                "ec2instances.info lists types with their pricing"
            ),
            field="file",
        )
    hours, left_out = read_gpu_hours(document, as_of)
    source = f"{path.name.replace(',', ' ')} (imported)"
    bundled = set(catalog.clouds) - import_clouds(folder)
    of_bundled = [hour for hour in hours if hour.cloud in bundled]
    over = with_gpu_hours(of_bundled, catalog, source, accept_implausible=accept_implausible)
    # What another import brought stays as it is.
    others = import_clouds(folder, but=name)
    new = [hour for hour in hours if hour.cloud not in bundled | others]
    rows, second_prices = rows_of_new_clouds(new, source)
    of_others = sum(hour.cloud in others - bundled for hour in hours)
    left_out += second_prices + Counter({"the cloud is another import's": of_others})
    if not rows:
        return _laid_over(over, name, folder, catalog, left_out, accept_implausible)
    newer = _newer(over, catalog, accept_implausible)
    left_out += newer.left_out
    done = _take_offers(rows, path, name, folder, catalog, left_out)
    return replace(done, refreshed=_kept(newer.prices, folder), examples=newer.examples)


def _laid_over(
    over: LaidOver,
    name: str,
    folder: Path,
    catalog: Catalog,
    left_out: Counter[str],
    accept_implausible: bool,
) -> Imported:
    """`UsageError` with the reasons where nothing is left."""
    newer = _newer(over, catalog, accept_implausible)
    reasons = left_out + newer.left_out
    if not newer.prices:
        raise UsageError(
            "the file has no price that can be taken: {reasons}",
            reasons="; ".join(f"{reason} ({count:,})" for reason, count in reasons.items()),
            field="file",
        )
    kept = _kept(newer.prices, folder)
    return Imported(name, {}, +reasons, refreshed=kept, examples=newer.examples)


def _newer(over: LaidOver, catalog: Catalog, accept_implausible: bool) -> LaidOver:
    """Without prices that are older than the one that is known, or too far from it."""
    kept = {cloud: since(catalog.bundles[0], cloud, one) for cloud, one in over.prices.items()}
    before, after = (sum(len(one.prices) for one in some.values()) for some in (over.prices, kept))
    older = Counter({"the price is older than the known one": before - after})
    newer = LaidOver({cloud: one for cloud, one in kept.items() if one}, over.left_out + older, over.examples)
    return newer if accept_implausible else believed(newer, catalog)


def _kept(prices: Mapping[str, Refreshed], folder: Path) -> dict[str, int]:
    """Keep prices as those of a refresh are kept; how many of each cloud."""
    for cloud, found in prices.items():
        keep_refreshed(folder, cloud, found)
    return {cloud: len(found.prices) for cloud, found in prices.items()}


def _take_facts(text: str, path: Path, name: str, folder: Path, catalog: Catalog) -> Imported:
    types = {cloud: catalog.disks_of(cloud).network_types for cloud in catalog.disk_clouds}
    rows = read_facts_file(text, types)
    manifest, tables = build_facts_table(rows)
    counts = Counter(row.cloud for row in rows)
    store(
        folder,
        name,
        manifest
        | _told_of(name, path, [date.today()])
        | {"offers": {}, "left_out": 0, "left_out_by_reason": {}, "fact_counts": counts},
        tables,
    )
    return Imported(name, {}, facts=dict(counts))


def _take_offers(
    rows: Sequence[ImportRow], path: Path, name: str, folder: Path, catalog: Catalog, left_out: Counter[str]
) -> Imported:
    _require_free(name, {row.cloud for row in rows}, folder, catalog)
    manifest, tables = build_tables(rows, catalog.gpus)
    offers = Counter(row.cloud for row in rows if row.price is not None)
    counts = {cloud: offers[cloud] for cloud in manifest["clouds"]}
    manifest |= _told_of(name, path, [row.as_of for row in rows])
    reasons = dict(+left_out)
    manifest |= {"offers": counts, "left_out": left_out.total(), "left_out_by_reason": reasons}
    store(folder, name, manifest, tables)
    return Imported(name, counts, +left_out)


def _take_disk_prices(text: str, path: Path, name: str, folder: Path, catalog: Catalog) -> Imported:
    disks = {cloud: catalog.disks_of(cloud) for cloud in catalog.disk_clouds}
    rows = read_disk_prices(text, {name: one for name, one in disks.items() if one.network_types})
    _require_told_once(rows, name, folder)
    manifest, tables = build_disk_tables(rows)
    counts = Counter(row.cloud for row in rows)
    store(
        folder,
        name,
        manifest
        | _told_of(name, path, [row.as_of for row in rows])
        | {"offers": {}, "left_out": 0, "left_out_by_reason": {}, "disk_price_counts": counts},
        tables,
    )
    return Imported(name, {}, disk_prices=dict(counts))


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
    # Imports of older releases have the number alone.
    left_out = Counter(head.get("left_out_by_reason") or {"no offers": head["left_out"]})
    return Imported(files.name, head["offers"], +left_out, disks, facts)


def _undated(what: str) -> UsageError:
    return UsageError(f"{what} has no date in it; say when it was fetched: --as-of 2026-07-20", field="as_of")


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is not a text in UTF-8; save it as CSV in UTF-8") from error
    if not text.strip("\ufeff \t\r\n"):
        raise UsageError("the file is empty", field="file")
    return text


def _require_free(name: str, clouds: set[str], folder: Path, catalog: Catalog) -> None:
    """An import never hides or mixes with prices of another origin."""
    if ANY_CLOUD in clouds:
        raise UsageError(
            "no cloud can be called 'any': that means all of them",
            hint="give it another name in the column cloud, or with --name",
            field="name",
        )
    own, others = set[str](), set[str]()
    for one in imported_files(folder):
        (own if one.name == name else others).update(one.manifest["clouds"])
    taken = (set(catalog.clouds) - own) | others
    clash = sorted(clouds & taken)
    if clash:
        raise UsageError(
            f"the catalogue has a cloud '{clash[0]}' already; import under another name with --name"
        )
