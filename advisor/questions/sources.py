"""Which performance model and catalogue an answer stands on."""

from __future__ import annotations

from pathlib import Path

from advisor.catalog import Catalog
from advisor.errors import UsageError
from advisor.places import own_model_path
from advisor.render.document import Sources
from models.performance import PerformanceModel, load_model


def model_in_use(file: Path | None) -> PerformanceModel:
    """The named model, or the user's own fit where there is one, or the one that ships."""
    if file is not None and not file.exists():
        raise UsageError(f"no performance model '{file}'; `advisor fit --out {file}` makes one")
    if file is not None and not file.is_file():
        raise UsageError(f"'{file}' is no file; --performance-model takes what `advisor fit` kept")
    own = own_model_path()
    return load_model(file or (own if own.is_file() else None))


def sources_of(model: PerformanceModel, catalog: Catalog) -> Sources:
    """The identities of the performance model and of the catalogue."""
    return Sources(
        model_id=model.id,
        trained_on=model.trained_on,
        error_percent=model.error_percent,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
    )
