"""Traced steps of a network: how its memory grows with the batch. NumPy and JSON only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from advisor.errors import DataError
from advisor.records import dataclass
from models.performance.bundled import read_bundled

SCHEMA = "advisor.memory/1"
BUNDLED = "memory.json"

Point = tuple[float, float, float]  # batch, MiB after the forward pass, most MiB at once


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """One network as `models.zoo.memory_facts` traced it.

    `weights_mib` are parameters and buffers, `trained_mib` the parameters that get gradients.
    `steps` has for each way to run a step ("training/16bit", "inference/fp32/gradients") points
    with the batch rising; MiB leave out weights, and have gradients and activations. `traced`
    says whether on fake tensors or in a real run.
    """

    name: str
    weights_mib: float
    trained_mib: float
    traced: str
    steps: Mapping[str, tuple[Point, ...]]

    def at(self, step: str, batch_size: float) -> tuple[float, float]:
        """MiB after the forward pass and at the peak of the step, beside the weights.

        Between traced batches along a straight line: the peak is the larger of straight lines
        (gradients at small batches, activations at large ones), so that never says too little.
        Raises KeyError where the step was not traced.
        """
        points = self.steps[step]
        after = next((i for i, (batch, *_) in enumerate(points) if batch >= batch_size), None)
        upper = max(1, len(points) - 1 if after is None else after)
        (low, *small), (high, *large) = points[upper - 1], points[upper]
        share = (batch_size - low) / (high - low)
        forward, peak = (a + share * (b - a) for a, b in zip(small, large, strict=True))
        return max(0.0, forward), max(0.0, forward, peak)


def profile_from(name: str, document: Mapping[str, Any]) -> MemoryProfile:
    """A network's entry of memory.json; KeyError, TypeError or ValueError when it is none."""
    return MemoryProfile(
        name=name,
        weights_mib=float(document["weights_mib"]),
        trained_mib=float(document["trained_mib"]),
        traced=str(document["traced"]),
        steps={
            step: tuple((float(b), float(f), float(p)) for b, f, p in points)
            for step, points in document["steps"].items()
        },
    )


@cache
def bundled_profiles() -> Mapping[str, MemoryProfile]:
    """Every network of the zoo; `DataError` when the file is missing or damaged."""
    try:
        document = json.loads(read_bundled(BUNDLED))
        if document["schema"] != SCHEMA:
            raise DataError(
                f"{BUNDLED} has schema {document['schema']}, not {SCHEMA}; rebuild it with "
                "python -m models.zoo.memory_facts"
            )
        return {name: profile_from(name, one) for name, one in document["networks"].items()}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{BUNDLED} cannot be read ({error}); install the package again") from error
