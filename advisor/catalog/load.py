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
from advisor.catalog.overlay import (
    NO_OVERLAY,
    Overlay,
    imported_files,
    overlay_clouds,
    own_imports,
    read_overlay,
)
from advisor.catalog.prices import RATE_VARIABLE, Currency, OfferQuery
from advisor.domain import InstanceType, Offer
from advisor.errors import DataError
from advisor.quantities import parse_positive


def with_host(
    instance: InstanceType, vcpus: int | None = None, memory_mib: float | None = None
) -> InstanceType:
    """The type with other vCPUs or RAM; None keeps the type's.

    Cores follow the vCPUs at the same threads per core, rounded up. GPUs, disks and links do not change."""
    vcpus = instance.vcpus if vcpus is None else vcpus
    cores = math.ceil(vcpus * instance.physical_cores / instance.vcpus)
    mib = instance.memory_mib if memory_mib is None else round(memory_mib)
    return replace(instance, vcpus=vcpus, physical_cores=cores, memory_mib=mib)


class WhatIfCatalog(Catalog):
    """The catalogue `real` with one type replaced by `changed`, which has no price: nobody sells it."""

    def __init__(self, real: Catalog, changed: InstanceType) -> None:
        vars(self).update(vars(real))  # reuses every table that `real` has read
        self._changed = changed

    def instance(self, name: str, cloud: str | None = None) -> InstanceType:
        """The facts of a type; for the changed type, the changed ones."""
        instance = super().instance(name, cloud)
        here = (instance.cloud, instance.name) == (self._changed.cloud, self._changed.name)
        return self._changed if here else instance

    def cheapest(self, query: OfferQuery, count: int) -> tuple[list[Offer], int]:
        """The cheapest offers; none for a query of the changed type alone."""
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

    The one that ships comes with the user's imports and refreshed prices (those in `imports`, if given,
    except the import called `without`). `live` has prices by cloud that were fetched just now, and replaces
    all of these. A dollar is worth `cny_per_usd` yuan, else what ADVISOR_CNY_PER_USD says, else the
    snapshot's rate; euros have no rate there, only in ADVISOR_EUR_PER_USD. Each file is checked against the
    manifest's SHA-256 when it is read. `DataError` names the file and the way out."""
    bundle = BundleFiles(folder or DATA_FOLDER)
    own = imports or (own_imports() if folder is None else None)
    catalog = Catalog([bundle], _currencies(bundle, cny_per_usd))
    overlays = _overlays(catalog, own, live or {})
    import_files = imported_files(own, but=without) if own else []
    if not (overlays or import_files):
        return catalog
    return Catalog([bundle, *import_files], catalog.currencies, overlays)


def _overlays(shipped: Catalog, folder: Path | None, live: Mapping[str, Overlay]) -> dict[str, Overlay]:
    stored = overlay_clouds(folder) if folder else []
    if not (stored or live):
        return {}
    overlays = {}
    for cloud in sorted({*stored, *live} & set(shipped.clouds)):
        earlier = shipped.not_outdated(cloud, _kept_overlay(folder, cloud)) if folder else NO_OVERLAY
        overlays[cloud] = earlier.updated_with(live.get(cloud, NO_OVERLAY))
    return {cloud: overlay for cloud, overlay in overlays.items() if overlay}


def _kept_overlay(folder: Path, cloud: str) -> Overlay:
    """The refreshed prices of a cloud; if they are damaged, none, with a warning."""
    try:
        return read_overlay(folder, cloud)
    except DataError as error:
        _warn(f"advisor: {error}; the snapshot answers")
        return NO_OVERLAY


@cache
def _warn(line: str) -> None:
    """Log a line once: it goes to stderr, unless the importing program configures logging otherwise."""
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
