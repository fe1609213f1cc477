"""Measured tables: what each workload cost in each configuration."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from models.search.encoding import Value, encoded
from models.search.engine import Problem, problem_of
from models.search.kernel import Floats
from models.search.prior import History

Configuration = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One row: `cost` in any unit, the same for all rows of a workload; None where it failed."""

    workload: str
    configuration: Configuration
    cost: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Runs as matrices: workloads (w) by distinct configurations (n).

    `log_cost` (w, n) is the median of repeats, nan where none worked; `worked` (w, n) is 1 where
    half of the repeats or more did, 0 where fewer did, nan where none was run.
    """

    workloads: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    features: Floats
    log_cost: Floats
    worked: Floats

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Table:
        """All runs, workloads in the order of their names."""
        cells: dict[tuple[str, Configuration], list[float | None]] = {}
        for run in runs:
            cells.setdefault((run.workload, run.configuration), []).append(run.cost)
        workloads = sorted({workload for workload, _ in cells})
        configurations = list(dict.fromkeys(configuration for _, configuration in cells))
        place = {entry: number for number, entry in enumerate(configurations)}
        log_cost = np.full((len(workloads), len(configurations)), np.nan)
        worked = log_cost.copy()
        for (workload, configuration), costs in cells.items():
            at = workloads.index(workload), place[configuration]
            good = [cost for cost in costs if cost is not None]
            worked[at] = 2 * len(good) >= len(costs)
            if worked[at]:
                log_cost[at] = math.log(float(np.median(good)))
        features = encoded(configurations)
        return cls(tuple(workloads), tuple(configurations), features, log_cost, worked)

    def problem(self, workload: str, history: Collection[str]) -> Problem:
        """The search for the cheapest configuration of `workload`, knowing those of `history`."""
        numbers = [
            number
            for number, name in enumerate(self.workloads)
            if name in history and name != workload
        ]
        own = self.workloads.index(workload)
        return problem_of(
            self.features,
            np.isfinite(self.worked[own]),
            History(self.log_cost[numbers], self.worked[numbers]),
        )

    def outcome(self, workload: str) -> Floats:
        """Log costs (n,) of a workload; nan where it failed or was not run."""
        outcome: Floats = self.log_cost[self.workloads.index(workload)]
        return outcome
