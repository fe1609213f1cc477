"""The observations of GPUs that a fit took from a user's store, as a model's file keeps them.

Rows of names and numbers, with each GPU's data sheet once: what they tell of the posterior that
ships follows from them when the model is loaded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import (
    STEP_SIGMA,
    Gpu,
    MemoryFormat,
    Observation,
    Precision,
    Stack,
    Task,
    Tf32,
    Workload,
)
from advisor.records import replace
from models.performance.probed import ProbedLayer

_HOW = ("precision", "stack", "memory_format", "tf32")
# Batches between these tell next to nothing more, and each costs whoever loads the model.
_MOST_BATCHES = 4
_OF_LAYERS = ("name", "backward", "precision", "seconds")


class GpuObservations(NamedTuple):
    """Steps of networks, and layers that a probe timed, each cell and batch once."""

    steps: tuple[Observation, ...] = ()
    layers: tuple[ProbedLayer, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not (self.steps or self.layers)


def joined_repeats(
    steps: Iterable[Observation], layers: Iterable[ProbedLayer] = ()
) -> GpuObservations:
    """The median of each step and layer that was measured several times, in a fixed order.

    Of a cell that was measured at many batch sizes, some that are spread over all of them.
    """
    cells: dict[Hashable, dict[int, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        workload = step.workload
        cell = (workload.network, workload.input or "", str(workload.task),
                *(str(getattr(workload, name)) for name in _HOW), step.gpu.name)  # fmt: skip
        cells[cell][workload.batch_size].append(step)
    timed: dict[Hashable, list[ProbedLayer]] = defaultdict(list)
    for layer in layers:
        sizes = tuple(sorted(layer.sizes.items()))
        timed[layer.name, layer.backward, layer.precision, layer.gpu.name, sizes].append(layer)
    return GpuObservations(
        tuple(
            _median(batches[size])
            for _, batches in sorted(cells.items(), key=str)
            for size in _spread(sorted(batches))
        ),
        tuple(
            replace(
                timed[key][0], seconds=float(np.median([entry.seconds for entry in timed[key]]))
            )
            for key in sorted(timed, key=str)
        ),
    )


def _spread(sizes: Sequence[int]) -> list[int]:
    if len(sizes) <= _MOST_BATCHES:
        return list(sizes)
    places = np.linspace(0, len(sizes) - 1, _MOST_BATCHES).round().astype(int)
    return [sizes[place] for place in places]


def _median(repeats: Sequence[Observation]) -> Observation:
    """Their middle, as sure as they agree, and never surer than one that was timed with care."""
    logs = np.log([repeat.seconds for repeat in repeats])
    sigma = max(STEP_SIGMA, float(logs.std()) / len(repeats) ** 0.5)
    first = min(repeats, key=lambda repeat: repeat.origin)
    more = f" and {len(repeats) - 1} more" if len(repeats) > 1 else ""
    seconds = float(np.exp(np.median(logs)))
    return replace(first, seconds=seconds, sigma=sigma, origin=f"{first.origin}{more}")


def observations_document(found: GpuObservations) -> dict[str, Any]:
    """JSON-ready values; `observations_from` reads them."""
    gpus = {step.gpu.name: step.gpu for step in found.steps}
    gpus |= {layer.gpu.name: layer.gpu for layer in found.layers}
    return {
        "gpus": {name: _values(gpu) for name, gpu in sorted(gpus.items())},
        "steps": [_step(step) for step in found.steps],
        "layers": [
            {name: getattr(layer, name) for name in _OF_LAYERS}
            | {"sizes": dict(layer.sizes), "gpu": layer.gpu.name}
            for layer in found.layers
        ],
    }


def observations_from(document: Mapping[str, Any]) -> GpuObservations:
    """The observations; KeyError, TypeError or ValueError where they are none."""
    gpus = {name: Gpu(**values) for name, values in document["gpus"].items()}
    steps = [
        Observation(
            workload=Workload(
                network=row["network"],
                input=row["input"],
                task=Task(row["task"]),
                batch_size=row["batch_size"],
                precision=Precision(row["precision"]),
                stack=Stack(row["stack"]),
                memory_format=MemoryFormat(row["memory_format"]),
                tf32=Tf32(row["tf32"]),
            ),
            gpu=gpus[row["gpu"]],
            seconds=row["seconds"],
            sigma=row["sigma"],
            origin=row["origin"],
        )
        for row in document["steps"]
    ]
    layers = [
        ProbedLayer(
            **{name: row[name] for name in _OF_LAYERS}, sizes=row["sizes"], gpu=gpus[row["gpu"]]
        )
        for row in document["layers"]
    ]
    return GpuObservations(tuple(steps), tuple(layers))


def _values(gpu: Gpu) -> dict[str, Any]:
    return {name: getattr(gpu, name) for name in Gpu.__slots__}


def _step(observation: Observation) -> dict[str, Any]:
    workload = observation.workload
    return {
        "network": workload.network,
        "input": workload.input,
        "task": str(workload.task),
        "batch_size": workload.batch_size,
        **{name: str(getattr(workload, name)) for name in _HOW},
        "gpu": observation.gpu.name,
        "seconds": observation.seconds,
        "sigma": observation.sigma,
        "origin": observation.origin,
    }
