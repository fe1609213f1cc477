"""Imports a user's price file into the catalogue: all of it or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from advisor.catalog.believed import TOO_FAR, why_not_believed
from advisor.catalog.catalog import Catalog
from advisor.catalog.load import load_catalog
from advisor.catalog.overlay import imported_files, keep_overlay, store_import
from advisor.catalog.prices import ANY_CLOUD
from advisor.catalog.providers import provider_of
from advisor.catalog.providers.rows import Contents, Line, PriceFile, is_future
from advisor.catalog.providers.tables import build_tables
from advisor.errors import UsageError
from advisor.files import system_errors
from advisor.messages import Message


class Imported(Struct, frozen=True):
    """One import: its name, and by cloud the number of new `offers`, or of `disk_prices` or `facts` of known
    clouds. `refreshed` counts prices that replace the snapshot's, `left_out` rows by reason, with a row of
    some reasons in `examples`; `read_otherwise` counts values that were converted."""

    name: str
    offers: dict[str, int]
    left_out: Counter[str] = field(default_factory=Counter)
    disk_prices: dict[str, int] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    refreshed: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    read_otherwise: Counter[str] = field(default_factory=Counter)


def import_file(
    path: Path, name: str | None, folder: Path, *, as_of: date | None = None, accept_implausible: bool = False
) -> Imported:
    """Import a file as a whole into `folder`, in place of an import with its name, even a damaged one.

    `as_of` is when a file without dates was fetched; `accept_implausible` takes prices far from the known
    ones. `UsageError` with line and reason: then nothing has changed."""
    name = Line(0, {"name": (name or path.stem).lower().replace(" ", "_")}).name("name")
    if as_of is not None and is_future(as_of):
        raise UsageError(
            f"{as_of} is in the future; say when the file was fetched: --as-of 2026-11-20", field="as_of"
        )
    catalog, others = load_catalog(imports=folder, without=name), imported_files(folder, but=name)
    file = PriceFile(
        path=path,
        name=name,
        text=_read(path),
        as_of=as_of,
        accept_implausible=accept_implausible,
        bundled=frozenset(catalog.clouds).difference(*(files.manifest["clouds"] for files in others)),
        other_imports=others,
    )
    contents = provider_of(file).contents_of(file, catalog)
    if contents.tables is not None:
        manifest, tables = contents.tables
        entries = _manifest_entries(file, contents.days or [datetime.now(UTC).date()], {}, Counter())
        store_import(folder, name, manifest | entries, tables)
        return _import_record(name, manifest | entries)
    kept = _plausible_contents(contents, catalog, accept_implausible=accept_implausible)
    if not kept.rows and not kept.overlays:
        raise UsageError(
            "the file has no price that can be taken: {reasons}",
            reasons="; ".join(f"{reason} ({count:,})" for reason, count in kept.left_out.items()),
            field="file",
        )
    offers: dict[str, int] = {}
    if kept.rows:
        _require_new_clouds({row.cloud for row in kept.rows}, catalog)
        manifest, tables = build_tables(kept.rows, catalog.gpus)
        priced = Counter(row.cloud for row in kept.rows if row.price is not None)
        offers = {cloud: priced[cloud] for cloud in manifest["clouds"]}
        entries = _manifest_entries(file, [row.as_of for row in kept.rows], offers, kept.left_out)
        store_import(folder, name, manifest | entries, tables)
    for cloud, overlay in kept.overlays.items():
        keep_overlay(folder, cloud, overlay)
    refreshed = {cloud: len(overlay.prices) for cloud, overlay in kept.overlays.items()}
    return Imported(
        name, offers, kept.left_out, refreshed=refreshed, examples=kept.examples, read_otherwise=+kept.read_as
    )


def _plausible_contents(contents: Contents, catalog: Catalog, *, accept_implausible: bool) -> Contents:
    """The contents without prices older than the known one, or too far from it."""
    overlays = {cloud: catalog.not_outdated(cloud, overlay) for cloud, overlay in contents.overlays.items()}
    before, after = (
        sum(len(each.prices) for each in some.values()) for some in (contents.overlays, overlays)
    )
    contents.left_out["the price is older than the known one"] += before - after
    for cloud, overlay in overlays.items() if not accept_implausible else ():
        for (name, region, market), price in list(overlay.prices.items()):
            if why := why_not_believed(price.usd_per_hour, catalog, cloud, name, region, market):
                contents.leave_out(TOO_FAR, f"{name} in {region} ({market}): {why}")
                del overlay.prices[name, region, market]
    overlays = {cloud: overlay for cloud, overlay in overlays.items() if overlay}
    return replace(contents, overlays=overlays, left_out=+contents.left_out)


def _manifest_entries(
    file: PriceFile, days: Sequence[date], offers: Mapping[str, int], left_out: Counter[str]
) -> dict[str, Any]:
    part = {"as_of": min(days).isoformat(), "source": file.path.name, "licence": "the user's own"}
    return {
        "parts": {f"import {file.name}": part},
        "offers": offers,
        "left_out": left_out.total(),
        "left_out_by_reason": dict(left_out),
    }


def imports_in(folder: Path) -> list[Imported]:
    """Every stored import."""
    return [_import_record(files.name, files.manifest) for files in imported_files(folder)]


def _import_record(name: str, manifest: Mapping[str, Any]) -> Imported:
    # Older releases stored only the number.
    left_out = Counter(manifest.get("left_out_by_reason") or {"no offers": manifest["left_out"]})
    disks, facts = manifest.get("disk_price_counts", {}), manifest.get("fact_counts", {})
    return Imported(name, manifest["offers"], +left_out, disk_prices=disks, facts=facts)


def _read(path: Path) -> str:
    try:
        with system_errors(UsageError, f"cannot read '{path}'"):
            text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is not a text in UTF-8; save it as CSV in UTF-8") from error
    if not text.strip("\ufeff \t\r\n"):
        raise UsageError("the file is empty", field="file")
    return text


def _require_new_clouds(clouds: set[str], catalog: Catalog) -> None:
    """Raise `UsageError` for a cloud's name that is taken: an import never mixes with other prices."""
    if ANY_CLOUD in clouds:
        hint = Message("give it another name in the column cloud, or with --name")
        raise UsageError("no cloud can be called 'any': that means all of them", hint=hint, field="name")
    if clash := sorted(clouds.intersection(catalog.clouds)):
        raise UsageError(
            f"the catalogue has a cloud '{clash[0]}' already; import under another name with --name"
        )
