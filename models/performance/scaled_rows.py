"""The scaling of each row of a table of machines: most have one GPU and need no file for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.domain import Task
from advisor.records import dataclass
from models.performance.machines import Integers, ResourceTable
from models.performance.networks import Floats, NetworkTable
from models.performance.pipeline import Load
from models.performance.scaling import ALONE, BYTES_PER_GRADIENT, Scaling, bundled_scaling


@dataclass(frozen=True, slots=True)
class ScaledRows:
    """Which of the `scalings` each row has; columns of shape (n,)."""

    scalings: Sequence[Scaling]
    row: Integers

    @property
    def speed_up(self) -> Floats:
        """Times one GPU."""
        return self._column([scaling.speed_up for scaling in self.scalings])

    @property
    def lower(self) -> Floats:
        """Half widths in log rate."""
        return self._column([scaling.widths.lower for scaling in self.scalings])

    @property
    def upper(self) -> Floats:
        """Half widths in log rate."""
        return self._column([scaling.widths.upper for scaling in self.scalings])

    @property
    def calibrated(self) -> Floats:
        """1 where held-out residuals back the scaling."""
        return self._column([float(scaling.widths.calibrated) for scaling in self.scalings])

    def each(self) -> list[Scaling]:
        """One record a row."""
        return [self.scalings[place] for place in self.row.tolist()]

    def _column(self, values: Sequence[float]) -> Floats:
        return np.array(values, dtype=float)[self.row]


def scaled_rows(
    loads: Sequence[Load],
    which: Integers,
    machines: ResourceTable,
    confidence: float,
    steps_per_second: Floats,
    networks: NetworkTable,
) -> ScaledRows:
    """The scaling of `machines` (n rows) under `loads[which]`; one GPU alone makes
    `steps_per_second` (n,), infinitely many where the task has no step."""
    if not (machines.gpu_count > 1).any():
        return ScaledRows((ALONE,), np.zeros(len(machines), dtype=np.intp))
    keys = np.column_stack([which, machines.gpu, machines.gpu_count.astype(np.intp)])
    distinct, row = np.unique(keys, axis=0, return_inverse=True)
    model = bundled_scaling()
    # Loads differ mostly in their batch, of which scaling knows nothing.
    existing: dict[tuple[Task, int, int], Scaling] = {}
    scalings = []
    for load, gpu, count in distinct.tolist():
        task = loads[load].workload.task
        if (task, gpu, count) not in existing:
            card = machines.gpus[gpu] if gpu >= 0 else None
            existing[task, gpu, count] = model.of(task, card, count, confidence)
        scalings.append(existing[task, gpu, count])
    gigabytes = [
        BYTES_PER_GRADIENT * networks[load.workload.network].parameters / 1e9 for load in loads
    ]
    paces = (np.array(gigabytes)[which] * steps_per_second).tolist()
    of_rows = np.asarray(row).reshape(-1).tolist()
    paced = [scalings[place].with_pace(pace) for place, pace in zip(of_rows, paces, strict=True)]
    return ScaledRows(paced, np.arange(len(paced)))
