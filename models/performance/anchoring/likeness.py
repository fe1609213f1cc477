"""What a network may be like: itself where its operations are known, else any known network.

An unknown network is taken for k times one of the table's networks: k layers for each of theirs
take k times as long everywhere, so that k is a level and cancels. How its seconds grow with the
batch then tells which of them it is like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.domain import Gpu, Task, Workload
from models.performance.gpu_rates import GpuRates, family
from models.performance.networks import Floats, NetworkTable


@dataclass(frozen=True, slots=True)
class Likeness:
    """Networks with weights that add up to 1; a single one where the operations are known."""

    weights: Mapping[str, float]

    @property
    def is_known(self) -> bool:
        """Whether the network's own operations are computed with."""
        return len(self.weights) == 1

    @property
    def shares(self) -> Floats:
        """The weights, shape (m,)."""
        return np.array(list(self.weights.values()))


def likeness_of(network: str, task: Task, table: NetworkTable) -> Likeness:
    """The network itself, or all others where nothing is known of what it computes."""
    if task in table[network].operations:
        return Likeness({network: 1.0})
    return any_of([name for name in table.names if name != network])


def any_of(names: Sequence[str]) -> Likeness:
    """Any of these networks, each family of them as likely as another."""
    families = Counter(map(family, names))
    return Likeness({name: 1 / (families[family(name)] * len(families)) for name in names})


def log_steps(
    rates: GpuRates,
    likeness: Likeness,
    workload: Workload,
    steps: Sequence[tuple[Gpu, float]],
    table: NetworkTable,
) -> Floats:
    """Logs of modelled seconds (m, n) of steps on a GPU at a batch size, for each likeness."""
    by_gpu: dict[Gpu, list[int]] = {}
    for place, (gpu, _) in enumerate(steps):
        by_gpu.setdefault(gpu, []).append(place)
    batches = np.array([batch for _, batch in steps], dtype=float)
    found = np.empty((len(likeness.weights), len(steps)))
    for row, name in enumerate(likeness.weights):
        asked = replace(workload, network=name)
        for gpu, at in by_gpu.items():
            found[row, at] = np.log(rates.step_seconds(asked, gpu, batches[at], table))
    return found
