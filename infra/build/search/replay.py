"""Searches played on measured tables: which trials it would have run, and what that was worth."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from advisor.infra.build.search.engine import Problem, propose
from advisor.infra.build.search.kernel import Floats

# Of the price: what one more trial must be expected to save.
WORTH_A_TRIAL = 0.005
# An expectation that stands on fewer trials that worked is none.
_FEWEST_WORKED = 4


class Step(Struct, frozen=True):
    """One trial: its log cost (None: it failed), what it was expected to save as a share of the
    price (None: unknown), and the regret of the best so far, as a share (inf: none worked)."""

    index: int
    log_cost: float | None
    expected_saving: float | None
    regret: float


class Replay(Struct, frozen=True):
    """The trials in order, and why there is no further one."""

    steps: tuple[Step, ...]
    stopped: str


def replay(problem: Problem, outcome: Floats, *, trials: int, seed: int = 0, stops: bool = True) -> Replay:
    """Play a search on measured log costs (n,), nan where the configuration fails.

    At most `trials`; where it `stops`, by its own rule earlier: the next trial is expected to
    save less than 0.5 % of the price.
    """
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
    """Whether a further trial is not worth it."""
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
