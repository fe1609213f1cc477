"""What the fields of a question offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from advisor.answers.context import Context
from advisor.catalog import Catalog
from advisor.domain import Market, MemoryFormat, Precision, Stack, Task, Tf32
from advisor.questions.datasets import DATASETS
from advisor.questions.requests import DEFAULT_REGION
from advisor.render.i18n.catalogue import Texts
from models.zoo.networks import NETWORKS

# A page does not carry thousands of names.
_MOST_OFFERED = 200
# The clouds that ship; what somebody imported comes after them.
CLOUDS = ("aws", "gcp", "azure", "alibaba")


def choices_of(context: Context, asked: Mapping[str, str], t: Texts) -> dict[str, Any]:
    """Values and labels of the fields, in the page's language."""
    cloud = asked.get("cloud", "aws")
    return {
        "task": [(str(one), t(f"task.{one}")) for one in Task],
        "model": [(one, one) for one in _offered(context)],
        "precision": [(str(one), str(one)) for one in Precision],
        **{name: [("", t(f"usual.{name}")), *_named(one)] for name, one in _LEFT_OPEN.items()},
        "cloud": [*((one, one) for one in _clouds(context.catalog)), ("any", t("cloud.any"))],
        "market": [(str(one), t(f"market.{one}")) for one in Market],
        "region_hint": DEFAULT_REGION.get(cloud, t("region.all")),
        "regions": _regions(context.catalog, cloud),
        "gpus": sorted(context.catalog.rented_gpus),
    }


# Where nothing is chosen, the usual holds.
_LEFT_OPEN: Mapping[str, Iterable[str]] = {
    "dataset": DATASETS,
    "stack": Stack,
    "memory_format": MemoryFormat,
    "tf32": Tf32,
}


def _offered(context: Context) -> list[str]:
    """What trials can run, and what most GPUs were measured with: others are typed."""
    cells = Counter(cell.partition("/")[0] for cell in context.model.step_times.cells)
    names = context.model.table.names
    by_cells = sorted(names, key=lambda name: (name not in NETWORKS, -cells[name]))
    return sorted(by_cells[:_MOST_OFFERED])


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(one), str(one)) for one in names]


def _clouds(catalog: Catalog) -> list[str]:
    known = list(catalog.clouds)
    return [one for one in CLOUDS if one in known] + [one for one in known if one not in CLOUDS]


def _regions(catalog: Catalog, cloud: str) -> list[str]:
    """Of one cloud; with any cloud or an unknown one nobody is helped by hundreds."""
    return sorted(catalog.regions(cloud)) if cloud in catalog.clouds else []
