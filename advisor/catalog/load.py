"""Opens the bundled snapshot with the user's imports and refreshes, or with one type changed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from advisor.catalog.bundle import DATA_FOLDER, BundleFiles
from advisor.catalog.catalog import Catalog
from advisor.catalog.match import OfferQuery
from advisor.catalog.overlay import (
    NO_OVERLAY,
    Overlay,
    imported_files,
    overlay_clouds,
    own_imports,
    read_overlay,
)
from advisor.catalog.prices import RATE_VARIABLE, Currency
from advisor.domain import InstanceType, Offer
from advisor.errors import DataError
from advisor.quantities import parse_positive


def with_host(
    instance: InstanceType, vcpus: int | None = None, memory_mib: float | None = None
) -> InstanceType:
    """The type with a host of so many vCPUs and so much RAM; None leaves what it has.

    Cores go with the vCPUs, as many threads a core as it has, rounded up to whole ones. GPUs, disks and links
    stay the type's own."""
    vcpus = instance.vcpus if vcpus is None else vcpus
    cores = math.ceil(vcpus * instance.physical_cores / instance.vcpus)
    mib = instance.memory_mib if memory_mib is None else round(memory_mib)
    return replace(instance, vcpus=vcpus, physical_cores=cores, memory_mib=mib)


class WhatIfCatalog(Catalog):
    """All of `real` but one type, which is `changed` here and has no price: nobody sells it."""

    def __init__(self, real: Catalog, changed: InstanceType) -> None:
        vars(self).update(vars(real))  # what was read of it is not read again
        self._changed = changed

    def instance(self, name: str, cloud: str | None = None) -> InstanceType:
        """The facts of a type; those of the changed one are as they were changed."""
        instance = super().instance(name, cloud)
        here = (instance.cloud, instance.name) == (self._changed.cloud, self._changed.name)
        return self._changed if here else instance

    def cheapest(self, query: OfferQuery, count: int) -> tuple[list[Offer], int]:
        """The cheapest offers; none where the changed type alone is asked for."""
        if query.instances == (self._changed.name,):
            return [], 0
        return super().cheapest(query, count)


def load_catalog(
    folder: Path | None = None,
    *,
    imports: Path | None = None,
    without: str = "",
    cny_per_usd: float | None = None,
    live: Mapping[str, Overlay] | None = None,
) -> Catalog:
    """The catalogue in `folder` (it holds `catalog/` and `sparecores/`), or the one that ships.

    With the one that ships come the user's imports and what was refreshed (those in `imports`, where it is
    given, but for the import called `without`); `live` was told just now, by cloud, and counts before all of
    it. A dollar is worth `cny_per_usd` yuan: as given, as ADVISOR_CNY_PER_USD says, else as in the snapshot;
    euros, which have no rate there, as ADVISOR_EUR_PER_USD says. Each file is checked against the manifest's
    SHA-256 when it is read. Raises `DataError` that names the file and the way out."""
    bundle = BundleFiles(folder or DATA_FOLDER)
    own = imports or (own_imports() if folder is None else None)
    catalog = Catalog([bundle], _currencies(bundle, cny_per_usd))
    overlays = _overlays(catalog, own, live or {})
    beside = imported_files(own, but=without) if own else []
    if not (overlays or beside):
        return catalog
    return Catalog([bundle, *beside], catalog.currencies, overlays)


def _overlays(shipped: Catalog, folder: Path | None, live: Mapping[str, Overlay]) -> dict[str, Overlay]:
    kept = overlay_clouds(folder) if folder else []
    if not (kept or live):
        return {}
    overlays = {}
    for cloud in sorted({*kept, *live} & set(shipped.clouds)):
        earlier = shipped.newer(cloud, _kept(folder, cloud)) if folder else NO_OVERLAY
        overlays[cloud] = earlier.under(live.get(cloud, NO_OVERLAY))
    return {cloud: overlay for cloud, overlay in overlays.items() if overlay}


def _kept(folder: Path, cloud: str) -> Overlay:
    """The refreshed prices; where they are damaged none, and one line says so."""
    try:
        return read_overlay(folder, cloud)
    except DataError as error:
        _warn(f"advisor: {error}; the snapshot answers")
        return NO_OVERLAY


@cache
def _warn(line: str) -> None:
    """Tell a line once: on stderr, unless whoever uses the package says otherwise."""
    import logging

    logging.getLogger(__name__).warning(line)


def _currencies(bundle: BundleFiles, cny_per_usd: float | None) -> dict[str, Currency]:
    known = {}
    for row in bundle.table("catalog/currencies.csv").records():
        name, variable = row["currency"], RATE_VARIABLE.format(row["currency"])
        rate = Currency(float(row["per_usd"] or "nan"), date.fromisoformat(row["as_of"]))
        own = cny_per_usd if name == "CNY" else None
        if own is None and name != "USD" and os.environ.get(variable):
            own = parse_positive(os.environ[variable], variable)
        known[name] = rate if own is None else rate._replace(per_usd=own, own=True)
    return known
