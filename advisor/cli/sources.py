"""What an answer stands on, for its first line and its JSON."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.report.document import Sources
from models.performance import PerformanceModel


def sources_of(model: PerformanceModel, catalog: Catalog) -> Sources:
    """The identities of the performance model and of the catalogue."""
    return Sources(
        model_id=model.id,
        trained_on=model.trained_on,
        error_percent=model.error_percent,
        catalog_as_of=catalog.as_of.isoformat(),
        catalog_sources=tuple(catalog.sources),
    )
