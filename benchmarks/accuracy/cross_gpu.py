"""Suite `cross_gpu`: training steps from one measured instance to another (PROFET on AWS).

The main figure sees the anchor's step and its profile of operations, nothing of the network on the
target. Variants go without the profile, or correct with one to three trials on the target.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.accuracy.cross_gpu_baselines import baseline_seconds
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.transfer_runs import Run, Runs, joined_rows, transfer_runs
from models.performance.networks import Floats
from models.performance.transfer.few_trials import fit_error_covariance

TRIALS = (1, 2, 3)


def run(train: Path, score: Path) -> SuiteResult:
    """Errors of predicted step seconds by ordered pair of instances."""
    plain = transfer_runs(train, score, profiled=False)
    try:
        profiled = transfer_runs(train, score, profiled=True)
    except NothingToScore:
        profiled = Runs((), ("no profiles: the figures are those without a profile",))
    variants = [_zero_shot("without_profile", plain.runs)]
    main = variants[0]
    if profiled.runs:
        main = _zero_shot("zero_shot", profiled.runs)
        variants += [_after_trials(profiled.runs, count) for count in TRIALS]
    scored = profiled.runs or plain.runs
    return SuiteResult(
        suite="cross_gpu",
        main=main,
        variants=variants,
        baselines=_baselines(scored),
        extra={
            "by_pair": _rounded(main),
            "by_network": _rounded(_zero_shot("network", scored, by_network=True)),
        },
        skipped=(*profiled.skipped, *plain.skipped),
    )


def _zero_shot(name: str, runs: tuple[Run, ...], *, by_network: bool = False) -> Figures:
    predicted, true, pairs = joined_rows(runs, [np.exp(run.answer.log_seconds) for run in runs])
    networks = [run.network for run in runs for _ in run.true_seconds]
    return figures(name, predicted, true, networks if by_network else pairs)


def _after_trials(runs: tuple[Run, ...], count: int) -> Figures:
    """Errors on the workloads that were not tried; networks with too few workloads drop out."""
    predicted, true, pairs = [], [], []
    for one in runs:
        if len(one.cells) <= count or one.held_out is None:
            continue
        seconds, rest = corrected_seconds(one, count)
        predicted.append(seconds[rest])
        true.append(one.true_seconds[rest])
        pairs += [one.pair_name] * len(rest)
    name = f"after_{count}_trials"
    if not predicted:
        raise NothingToScore(f"no network has more than {count} workloads")
    return figures(name, np.concatenate(predicted), np.concatenate(true), pairs)


def corrected_seconds(run: Run, count: int) -> tuple[Floats, list[int]]:
    """Step seconds after `count` trials chosen without seeing any, and the untried rows."""
    if run.held_out is None:
        raise ValueError("trials need held-out rows")
    errors = fit_error_covariance(run.held_out)
    doubt = run.answer.doubt
    tried = errors.choose(run.cells, doubt, count)
    seen = np.log(run.true_seconds[tried]) - run.answer.log_seconds[tried]
    shift, _ = errors.correction(run.cells, doubt, tried, seen)
    rest = [row for row in range(len(run.cells)) if row not in tried]
    return np.exp(run.answer.log_seconds + shift), rest


def _baselines(runs: tuple[Run, ...]) -> list[Figures]:
    answers = [baseline_seconds(run) for run in runs]
    return [
        figures(name, *joined_rows(runs, [answer[name] for answer in answers]))
        for name in answers[0]
    ]


def _rounded(result: Figures) -> dict[str, float]:
    return {name: round(value, 2) for name, value in result.groups.items()}
