"""Opening the bundled snapshot, with what the user imported beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from advisor.catalog.catalog import Catalog
from advisor.catalog.files import DATA_FOLDER, BundleFiles, Files
from advisor.catalog.prices import Currency
from advisor.places import user_folder
from advisor.units import parse_positive

CNY_VARIABLE = "ADVISOR_CNY_PER_USD"


def load_catalog(
    folder: Path | None = None, *, imports: Path | None = None, cny_per_usd: float | None = None
) -> Catalog:
    """The catalogue in `folder` (it holds `catalog/` and `sparecores/`), or the one that ships.

    With the one that ships come the user's imports (those in `imports`, where it is given). A
    dollar is worth `cny_per_usd` yuan: as given, as ADVISOR_CNY_PER_USD says, else as in the
    snapshot. Each file is checked against the manifest's SHA-256 when it is read. Raises
    `DataError` that names the file and the way out.
    """
    bundle = BundleFiles(folder or DATA_FOLDER)
    extra = imports or (own_imports() if folder is None else None)
    return Catalog([bundle, *_beside(extra)], _currencies(bundle, cny_per_usd))


def own_imports() -> Path:
    """The folder of the user's own imports."""
    return user_folder() / "catalog"


def _beside(folder: Path | None) -> Sequence[Files]:
    if folder is None or not folder.is_dir():
        return []
    from advisor.catalog.imported import imported_files  # few have imported anything

    return imported_files(folder)


def _currencies(bundle: Files, cny_per_usd: float | None) -> dict[str, Currency]:
    rows = bundle.table("catalog/currencies.csv").records()
    known = {
        row["currency"]: Currency(float(row["per_usd"]), date.fromisoformat(row["as_of"]))
        for row in rows
    }
    told = os.environ.get(CNY_VARIABLE)
    if cny_per_usd is None and told:
        cny_per_usd = parse_positive(told, CNY_VARIABLE)
    if cny_per_usd is not None:
        known["CNY"] = known["CNY"]._replace(per_usd=cny_per_usd, own=True)
    return known
