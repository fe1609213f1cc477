"""The GPUs that a question names or implies."""

from __future__ import annotations

from advisor.catalog import Catalog
from advisor.catalog.gpus import sheet_names
from advisor.domain import Gpu
from advisor.questions.fields import wrong
from advisor.questions.values import GpuFilter


def cards_meant(catalog: Catalog, wanted: GpuFilter) -> list[Gpu]:
    """The cards that are meant: named ones in the order asked, else those for rent, smallest
    first."""
    names = sorted(catalog.rented_gpus, key=lambda name: (catalog.cards[name].memory_mib, name))
    if wanted.names:
        names = [card for name in wanted.names for card in sheet_names(name, catalog.cards)]
    meant = [name for name in dict.fromkeys(names) if wanted.allows(catalog.gpus[name])]
    if not meant:
        raise wrong("gpu", "no GPU matches {field}", hint="ask for less")
    return [catalog.cards[name] for name in meant]
