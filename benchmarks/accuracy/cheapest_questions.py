"""Questions with known answers: which candidate is the cheapest that reaches a target?

Targets are 0.5, 0.7, 0.9, 0.97 and 1.03 times the true rate of each candidate of a workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.performance.intervals import gaussian_multiplier
from models.performance.networks import Floats
from models.performance.transfer.close_calls import (
    NEVER,
    NONE,
    Decisions,
    Questions,
    decide,
    trial_worth,
    worth_limit,
)

FRACTIONS = (0.5, 0.7, 0.9, 0.97, 1.03)
# `lower` at the product's default confidence, as a margin in deviations.
LOWER = gaussian_multiplier(0.9)
# Trials a question: what calibration on held-out networks may spend, and the hard limit where new
# networks turn out to be closer calls than those.
TRIAL_BUDGET = MOST_TRIALS = 0.15
Judged = list[Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workloads:
    """n workloads and c candidates by price: log rates predicted and true, deviations, (n, c).

    A candidate that was not measured for a workload has NaN everywhere in its row.
    """

    predicted: Floats
    deviations: Floats
    true: Floats
    usd_per_hour: Floats

    def questions(self) -> tuple[Questions, Floats]:
        """All questions about all workloads, and the true log rates, (q, c)."""
        count = self.true.shape[1]
        workload, candidate, fraction = (
            axis.ravel()
            for axis in np.meshgrid(
                np.arange(len(self.true)), np.arange(count), np.log(FRACTIONS), indexing="ij"
            )
        )
        targets = self.true[workload, candidate] + fraction
        asked = np.isfinite(targets)
        workload = workload[asked]
        absent = ~np.isfinite(self.true[workload])
        return (
            Questions(
                log_rates=np.where(absent, -np.inf, self.predicted[workload]),
                deviations=np.where(absent, 0.0, self.deviations[workload]),
                log_targets=targets[asked],
                usd_per_hour=self.usd_per_hour,
            ),
            np.where(absent, -np.inf, self.true[workload]),
        )


# What is asked of one network, and held-out questions about others that calibrate close calls.
Asked = tuple[Workloads, Workloads | None]


def answers(asked: Sequence[Asked]) -> dict[str, dict[str, Any]]:
    """Percentages over all questions by policy: by the median or by `lower`, without and with
    verifying trials."""
    found = {}
    for name, margin in (("median", 0.0), ("lower", LOWER)):
        never = [NEVER] * len(asked)
        found[name] = _percentages(_judged(asked, margin, never))
        limits = [_limit(held_out, margin) for _, held_out in asked]
        found[f"{name}_with_trial"] = _percentages(_within_budget(asked, margin, limits))
    return found


def _limit(held_out: Workloads | None, margin: float) -> float:
    if held_out is None:
        return NEVER
    return worth_limit(*held_out.questions(), margin, TRIAL_BUDGET)


def _within_budget(asked: Sequence[Asked], margin: float, limits: list[float]) -> list[Judged]:
    """Calibration may be wrong about new networks: the trials that were made are counted, and the
    least worth rises as far as it must for them to keep within the budget."""
    worths = [trial_worth(scored.questions()[0], margin).ravel() for scored, _ in asked]
    floors = np.unique(np.concatenate([[0.0], *worths]))
    low, high = 0, len(floors) - 1
    while low < high:
        middle = (low + high) // 2
        judged = _judged(asked, margin, [max(one, float(floors[middle])) for one in limits])
        if np.concatenate([part[3] for part in judged]).mean() <= MOST_TRIALS:
            high = middle
        else:
            low = middle + 1
    return _judged(asked, margin, [max(one, float(floors[low])) for one in limits])


def _judged(asked: Sequence[Asked], margin: float, limits: list[float]) -> list[Judged]:
    judged = []
    for (scored, _), limit in zip(asked, limits, strict=True):
        questions, truth = scored.questions()
        made = decide(questions, margin, limit, truth)
        judged.append(_judge(made, questions, truth, scored.usd_per_hour))
    return judged


def _judge(made: Decisions, questions: Questions, truth: Floats, usd: Floats) -> Judged:
    """Per question exact, met (NaN: nothing chosen), overspend and trials."""
    reaches = truth >= questions.log_targets[:, None]
    best = np.where(reaches.any(axis=1), reaches.argmax(axis=1), NONE)
    chosen, rows = made.chosen, np.arange(len(best))
    exact = (chosen == best).astype(float)
    met = np.where(chosen == NONE, np.nan, reaches[rows, chosen])
    both = (chosen != NONE) & (best != NONE)
    over = np.where(both, np.maximum(usd[chosen] / usd[best] - 1, 0.0), np.nan)
    return [exact, met, over, made.trials.astype(float)]


def _percentages(parts: list[Judged]) -> dict[str, Any]:
    exact, met, over, trials = (np.concatenate([part[k] for part in parts]) for k in range(4))
    return {
        "questions": len(exact),
        "exact_percent": round(100 * float(exact.mean()), 2),
        "met_percent": round(100 * float(np.nanmean(met)), 2),
        "overspend_percent": round(100 * float(np.nanmean(over)), 2),
        "trials_per_question": round(float(trials.mean()), 3),
    }
