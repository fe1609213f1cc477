"""Measured tables (the cost of each workload in each configuration), and searches replayed on them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from advisor.infra.build.search.engine import Problem, problem_of, propose
from advisor.infra.build.search.prior import Floats, History

Value = str | float | None
Configuration = tuple[Value, ...]


class Run(Struct, frozen=True):
    """One row: `cost` in any unit that is the same for all rows of a workload; None if the run failed."""

    workload: str
    configuration: Configuration
    cost: float | None


class Table(Struct, frozen=True):
    """Runs as matrices: workloads (w) by distinct configurations (n).

    `log_cost` (w, n) is the median of repeats, nan where none worked; `worked` (w, n) is 1 where at least
    half of the repeats did, 0 where fewer did, nan where none was run."""

    workloads: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    features: Floats
    log_cost: Floats
    worked: Floats

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Table:
        """The table of all runs, with workloads sorted by name."""
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
        """The search for the cheapest configuration of `workload`, given the rows of `history`."""
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


# From this ratio of largest to smallest value on, columns are scaled by their logarithm.
_LOG_FROM = 3.0


def encoded(configurations: Sequence[Sequence[Value]]) -> Floats:
    """Features (n, d) in 0..1 of configurations with the same columns.

    Numeric columns are scaled (their logarithm if all are positive and the largest is three times the
    smallest); columns with words or missing values become one column per value."""
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


# Share of the price that one more trial must be expected to save.
WORTH_A_TRIAL = 0.005
# An expectation from fewer successful trials than this is not used.
_FEWEST_WORKED = 4


class Step(Struct, frozen=True):
    """One trial: its log cost (None: it failed), its expected saving as a share of the price (None: unknown),
    and the relative regret of the best trial so far (inf: none worked)."""

    index: int
    log_cost: float | None
    expected_saving: float | None
    regret: float


class Replay(Struct, frozen=True):
    """The trials in order, and why the search ended."""

    steps: tuple[Step, ...]
    stopped: str


def replay(problem: Problem, outcome: Floats, *, trials: int, seed: int = 0, stops: bool = True) -> Replay:
    """Play a search on measured log costs (n,), nan where the configuration fails.

    Runs at most `trials`; with `stops`, it ends as soon as the next trial is expected to save less than 0.5 %
    of the price."""
    steps = list(_steps(problem, outcome, trials, seed, stops))
    return Replay(tuple(steps), _why(problem, steps, trials))


def _steps(problem: Problem, outcome: Floats, trials: int, seed: int, stops: bool) -> Iterator[Step]:
    done: dict[int, float | None] = {}
    cheapest = float(np.nanmin(np.where(problem.available, outcome, np.nan)))
    best = math.inf
    for _ in range(trials):
        proposal = propose(problem, done, seed=seed)
        if proposal is None or (stops and is_enough(proposal.expected_saving, done)):
            return
        cost = float(outcome[proposal.index])
        existing = None if math.isnan(cost) else cost
        done[proposal.index] = existing
        best = min(best, math.inf if existing is None else existing)
        yield Step(proposal.index, existing, proposal.expected_saving, math.expm1(best - cheapest))


def is_enough(expected_saving: float | None, trials: dict[int, float | None]) -> bool:
    """True if the search should stop, since a further trial is not worth it."""
    worked = sum(cost is not None for cost in trials.values())
    if expected_saving is None or worked < _FEWEST_WORKED:
        return False
    return expected_saving < WORTH_A_TRIAL


def _why(problem: Problem, steps: list[Step], trials: int) -> str:
    if len(steps) == int(problem.available.sum()):
        return "every configuration was tried"
    if len(steps) == trials:
        return f"the budget of {trials} trials is used up"
    return f"a further trial is expected to save less than {100 * WORTH_A_TRIAL:g} % of the price"
