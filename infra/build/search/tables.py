"""Measured tables: what each workload cost in each configuration."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from msgspec import Struct

from advisor.infra.build.search.engine import Problem, problem_of
from advisor.infra.build.search.kernel import Floats
from advisor.infra.build.search.prior import History

Value = str | float | None
Configuration = tuple[Value, ...]


class Run(Struct, frozen=True):
    """One row: `cost` in any unit, the same for all rows of a workload; None where it failed."""

    workload: str
    configuration: Configuration
    cost: float | None


class Table(Struct, frozen=True):
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
            number for number, name in enumerate(self.workloads) if name in history and name != workload
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


# From here on the ratio of two values says more than their difference.
_LOG_FROM = 3.0


def encoded(configurations: Sequence[Sequence[Value]]) -> Floats:
    """Features (n, d) in 0..1 of configurations with the same columns.

    Columns of numbers are scaled (their logarithm where all are positive and the largest is
    three times the smallest); words, and columns where some have no value, are one column a word.
    """
    parts = [_column(column) for column in zip(*configurations, strict=True)]
    kept = [part for part in parts if part.shape[1]]
    return np.hstack(kept) if kept else np.zeros((len(configurations), 1))


def _column(values: Sequence[Value]) -> Floats:
    if any(not isinstance(value, (int, float)) for value in values):
        names = sorted({str(value) for value in values if value is not None})
        if len(names) == 1 and None not in values:
            return np.zeros((len(values), 0))
        return np.array([[str(value) == word for word in names] for value in values], dtype=float)
    numbers = np.array(values, dtype=float)
    if numbers.min() > 0 and numbers.max() >= _LOG_FROM * numbers.min():
        numbers = np.log(numbers)
    spread = np.ptp(numbers)
    if spread == 0:
        return np.zeros((len(values), 0))
    scaled: Floats = ((numbers - numbers.min()) / spread)[:, None]
    return scaled
