"""Suite `search`: how near the cheapest configuration is found in a few trials.

Tables of what cloud configurations cost; leave one workload out: the search knows the tables of
the other workloads under --train, and of the scored one only what it tries. Regret is the price of
the best configuration tried over the cheapest one's, less one; where nothing tried worked, that of
the dearest one. Runs of all workloads count alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from advisor.infra.build.search import Table, replay
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult
from benchmarks.accuracy.search_baselines import Floats, gp_ei_trials, random_trials
from benchmarks.accuracy.search_tables import search_tables

TRIALS = 10
_AFTER = (3, 6, 10)
_WITHIN = 0.05
_SEEDS = 5
_VARIANT_SEEDS = 2
_RANDOM_SEEDS = 100


class Played(Struct, frozen=True):
    """One run of a method: `regrets` (TRIALS,) after each trial, as shares."""

    source: str
    workload: str
    regrets: Floats


def run(train: Path, score: Path) -> SuiteResult:
    """Regret in percent after ten trials; shares within 5 % after 3, 6 and 10 in `extra`."""
    notes: list[str] = []
    cases = list(_cases(train, score, notes))
    if not cases:
        raise NothingToScore("no table of configurations under cloudconfig/")
    ours = [_ours(case, 0, case.history) for case in cases]
    half = [_ours(case, seed, _half(case, seed)) for case in cases for seed in range(_VARIANT_SEEDS)]
    alone = [_ours(case, seed, ()) for case in cases for seed in range(_VARIANT_SEEDS)]
    gp_ei = [_baseline(case, gp_ei_trials, seed) for case in cases for seed in range(_SEEDS)]
    chance = [_baseline(case, random_trials, seed) for case in cases for seed in range(_RANDOM_SEEDS)]
    named = {
        "search": ours,
        "search_half_of_history": half,
        "search_without_history": alone,
        "gp_ei": gp_ei,
        "random": chance,
    }
    return SuiteResult(
        suite="search",
        main=_figures("search", ours),
        variants=[_figures(name, named[name]) for name in list(named)[1:3]],
        baselines=[_figures(name, named[name]) for name in list(named)[3:]],
        extra={
            "trials": TRIALS,
            "within_5_percent": {name: _hits(runs) for name, runs in named.items()},
            "by_source": {
                source: {name: _of_source(runs, source) for name, runs in named.items()}
                for source in sorted({case.source for case in cases})
            },
            "own_stop": _own_stop(cases),
        },
        skipped=notes,
    )


class _Case(Struct, frozen=True):
    source: str
    workload: str
    table: Table
    history: tuple[str, ...]

    @property
    def outcome(self) -> Floats:
        return self.table.outcome(self.workload)

    def regret(self, order: Sequence[int]) -> Floats:
        """Regret after each of TRIALS trials (TRIALS,)."""
        costs = self.outcome
        seen = np.full(TRIALS, np.nan)
        seen[: len(order)] = costs[list(order)]
        dearest = np.nanmax(costs)
        best = np.minimum.accumulate(np.nan_to_num(seen, nan=dearest))
        regret: Floats = np.expm1(best - np.nanmin(costs))
        return regret


def _cases(train: Path, score: Path, notes: list[str]) -> Iterator[_Case]:
    same = train.resolve() == score.resolve()
    known = search_tables(train, notes)
    asked = known if same else search_tables(score, notes)
    for source, runs in asked.items():
        scored = {run.workload for run in runs}
        past = [run for run in known.get(source, []) if same or run.workload not in scored]
        table = Table.of(runs if same else [*past, *runs])
        others = tuple(sorted({run.workload for run in past}))
        for workload in sorted(scored):
            if np.isfinite(table.outcome(workload)).any():
                yield _Case(source, workload, table, tuple(o for o in others if o != workload))
            else:
                notes.append(f"{source}: nothing worked for {workload}")


def _half(case: _Case, seed: int) -> tuple[str, ...]:
    """A random half of the other workloads, at least one."""
    count = max(1, len(case.history) // 2)
    order = np.random.default_rng(seed).permutation(len(case.history))
    return tuple(case.history[place] for place in order[:count])


def _ours(case: _Case, seed: int, history: Sequence[str]) -> Played:
    problem = case.table.problem(case.workload, history)
    done = replay(problem, case.outcome, trials=TRIALS, seed=seed, stops=False)
    return Played(case.source, case.workload, case.regret([step.index for step in done.steps]))


def _baseline(case: _Case, method: Callable[..., list[int]], seed: int) -> Played:
    problem_available = np.isfinite(case.table.worked[case.table.workloads.index(case.workload)])
    order = method(case.table.features, problem_available, case.outcome, TRIALS, seed)
    return Played(case.source, case.workload, case.regret(order))


def _figures(name: str, runs: Sequence[Played]) -> Figures:
    errors = np.array([100 * one.regrets[-1] for one in runs])
    groups = np.array([f"{one.source}/{one.workload}" for one in runs])
    return Figures(
        name=name,
        n=len(errors),
        mape_percent=float(errors.mean()),
        median_percent=float(np.median(errors)),
        p90_percent=float(np.quantile(errors, 0.9)),
        groups={str(group): float(errors[groups == group].mean()) for group in np.unique(groups)},
    )


def _hits(runs: Sequence[Played]) -> dict[str, float]:
    """Percent of the runs within 5 % of the cheapest, by trials."""
    regrets = np.array([one.regrets for one in runs])
    return {str(after): round(100 * float((regrets[:, after - 1] <= _WITHIN).mean()), 1) for after in _AFTER}


def _of_source(runs: Sequence[Played], source: str) -> dict[str, Any]:
    own = [one for one in runs if one.source == source]
    return {
        "runs": len(own),
        "within_5_percent": _hits(own),
        "mean_regret_percent": round(float(np.mean([100 * one.regrets[-1] for one in own])), 2),
    }


def _own_stop(cases: Sequence[_Case]) -> dict[str, float]:
    """Where the search ends by its own rule, with a budget of twice as many trials."""
    counts, regrets = [], []
    for case in cases:
        problem = case.table.problem(case.workload, case.history)
        steps = replay(problem, case.outcome, trials=2 * TRIALS).steps
        counts.append(len(steps))
        regrets.append(steps[-1].regret)
    return {
        "mean_trials": round(float(np.mean(counts)), 2),
        "within_5_percent": round(100 * float(np.mean(np.array(regrets) <= _WITHIN)), 1),
    }
