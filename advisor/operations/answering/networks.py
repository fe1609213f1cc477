"""The networks that can be asked for, and what is known of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.domain import Provenance, Task
from models.zoo.networks import NETWORKS, NetworkInfo
from models.zoo.sizes import Size, known_size

if TYPE_CHECKING:
    from models.performance import PerformanceModel

SCHEMA = "advisor.networks/1"
_BEST_FIRST = tuple(Provenance)


def networks_document(model: PerformanceModel | None) -> dict[str, Any]:
    """`advisor.networks/1`; without a performance model no rate is told."""
    rows = [_row(info, known_size(info.name), model) for info in NETWORKS.values()]
    return {"schema": SCHEMA, "networks": rows}


def _row(info: NetworkInfo, size: Size, model: PerformanceModel | None) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "kind": str(info.kind),
        "tasks": [str(task) for task in info.tasks],
        "input_shape": list(info.input_shape),
        "unit": info.unit,
        "samples_per_row": info.samples_per_row,
        "parameters": size.parameters,
        "gmacs_per_sample": size.macs_per_sample / 1e9,
        "rates": {str(task): _rates(info.name, task, model) for task in _computed(info)},
        "needs": info.needs,
    }


def _computed(info: NetworkInfo) -> list[Task]:
    return [task for task in info.tasks if task is not Task.PREPROCESSING]


def _rates(name: str, task: Task, model: PerformanceModel | None) -> str | None:
    """The best provenance that any GPU's rate has; None where no rate can be told."""
    if model is None or name not in model.networks:
        return None
    cells = model.gpu_rates.anchors.items()
    known = {anchor.provenance for cell, anchor in cells if cell.startswith(f"{name}/{task}/")}
    return str(next((one for one in _BEST_FIRST if one in known), Provenance.MODELLED))
