"""Opening the bundled snapshot."""

from __future__ import annotations

from pathlib import Path

from advisor.catalog.catalog import Catalog
from advisor.catalog.files import DATA_FOLDER, BundleFiles


def load_catalog(folder: Path | None = None) -> Catalog:
    """The catalogue in `folder` (it holds `catalog/` and `sparecores/`), or the one that ships.

    Every file is checked against the manifest's SHA-256 now, and parsed when it is asked for.
    Raises `DataError` that names the file and the way out.
    """
    return Catalog(BundleFiles(folder or DATA_FOLDER))
