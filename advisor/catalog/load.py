"""Opening the bundled snapshot, with what the user imported beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.catalog.bundle import DATA_FOLDER, REFRESHED_SUFFIX, BundleFiles, Files
from advisor.catalog.catalog import Catalog
from advisor.catalog.prices import RATE_VARIABLE, Currency
from advisor.errors import DataError
from advisor.places import user_folder
from advisor.quantities import parse_positive

if TYPE_CHECKING:
    from advisor.catalog.refreshed import Refreshed


def load_catalog(
    folder: Path | None = None,
    *,
    imports: Path | None = None,
    cny_per_usd: float | None = None,
    live: Mapping[str, Refreshed] | None = None,
) -> Catalog:
    """The catalogue in `folder` (it holds `catalog/` and `sparecores/`), or the one that ships.

    With the one that ships come the user's imports and what was refreshed (those in `imports`,
    where it is given); `live` was told just now, by cloud, and counts before all of it. A
    dollar is worth `cny_per_usd` yuan: as given, as ADVISOR_CNY_PER_USD says, else as in the
    snapshot; euros, which have no rate there, as ADVISOR_EUR_PER_USD says. Each file is checked
    against the manifest's SHA-256 when it is read. Raises `DataError` that names the file and the
    way out.
    """
    bundle = BundleFiles(folder or DATA_FOLDER)
    extra = imports or (own_imports() if folder is None else None)
    first = _overlaid(bundle, extra, live or {})
    return Catalog([first, *_beside(extra)], _currencies(bundle, cny_per_usd))


def own_imports() -> Path:
    """The folder of the user's own imports and refreshed prices."""
    return user_folder() / "catalog"


def _beside(folder: Path | None) -> Sequence[Files]:
    if folder is None or not folder.is_dir():
        return []
    from advisor.catalog.imported import imported_files  # few have imported anything

    return imported_files(folder)


def _overlaid(bundle: Files, folder: Path | None, live: Mapping[str, Refreshed]) -> Files:
    """The bundle with what was refreshed since: a snapshot of a newer release is better."""
    if not live and not (folder and any(folder.glob(f"*{REFRESHED_SUFFIX}"))):
        return bundle
    from advisor.catalog.overlaid import OverlaidFiles, since  # few have refreshed anything
    from advisor.catalog.refreshed import Refreshed, refreshed_clouds

    files = bundle
    kept = refreshed_clouds(folder) if folder else []
    for cloud in sorted({*kept, *live} & bundle.manifest["clouds"].keys()):
        earlier = since(bundle, cloud, _kept(folder, cloud)) if folder else Refreshed()
        refreshed = earlier.under(live.get(cloud, Refreshed()))
        if refreshed:
            files = OverlaidFiles(files, cloud, refreshed)
    return files


def _kept(folder: Path, cloud: str) -> Refreshed:
    """What was refreshed; where it is damaged nothing, and one line tells that."""
    from advisor.catalog.refreshed import Refreshed, read_refreshed

    try:
        return read_refreshed(folder, cloud)
    except DataError as error:
        _warn(f"advisor: {error}; the snapshot answers")
        return Refreshed()


@cache
def _warn(line: str) -> None:
    """Tell a line once: on stderr, unless whoever uses the package says otherwise."""
    import logging

    logging.getLogger(__name__).warning(line)


def _currencies(bundle: Files, cny_per_usd: float | None) -> dict[str, Currency]:
    rows = bundle.table("catalog/currencies.csv").records()
    known = {}
    for row in rows:
        name, variable = row["currency"], RATE_VARIABLE.format(row["currency"])
        rate = Currency(float(row["per_usd"] or "nan"), date.fromisoformat(row["as_of"]))
        own = cny_per_usd if name == "CNY" else None
        if own is None and name != "USD" and os.environ.get(variable):
            own = parse_positive(os.environ[variable], variable)
        known[name] = rate if own is None else rate._replace(per_usd=own, own=True)
    return known
