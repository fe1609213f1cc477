"""What the fields of a question offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.catalog import Catalog
from advisor.domain import Market, Precision, Task
from advisor.operations.answering.ground import Ground
from advisor.operations.questions.requests import DEFAULT_REGION
from advisor.report.speaking.words import Words

# The clouds that ship; what somebody imported comes after them.
CLOUDS = ("aws", "gcp", "azure", "alibaba")


def choices_of(ground: Ground, asked: Mapping[str, str], t: Words) -> dict[str, Any]:
    """Values and labels of the fields, in the page's language."""
    cloud = asked.get("cloud", "aws")
    return {
        "task": [(str(one), t(f"task.{one}")) for one in Task],
        "model": [(one, one) for one in ground.model.networks],
        "precision": [(str(one), str(one)) for one in Precision],
        "cloud": [*((one, one) for one in _clouds(ground.catalog)), ("any", t("cloud.any"))],
        "market": [(str(one), t(f"market.{one}")) for one in Market],
        "region_hint": DEFAULT_REGION.get(cloud, t("region.all")),
        "regions": _regions(ground.catalog, cloud),
        "gpus": sorted(ground.catalog.cards),
    }


def _clouds(catalog: Catalog) -> list[str]:
    known = list(catalog.clouds)
    return [one for one in CLOUDS if one in known] + [one for one in known if one not in CLOUDS]


def _regions(catalog: Catalog, cloud: str) -> list[str]:
    """Of one cloud; with any cloud or an unknown one nobody is helped by hundreds."""
    return sorted(catalog.regions(cloud)) if cloud in catalog.clouds else []
