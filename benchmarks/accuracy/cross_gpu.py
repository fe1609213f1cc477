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
from models.performance.transfer.few_trials import ErrorCovariance, fit_error_covariance

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
        variants += _after_trials(profiled.runs)
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


def _after_trials(runs: tuple[Run, ...]) -> list[Figures]:
    """Errors on the workloads that were not tried; networks with too few workloads drop out."""
    rows: dict[int, list[tuple[Floats, Floats, list[str]]]] = {count: [] for count in TRIALS}
    for one in runs:
        if one.held_out is None:
            continue
        errors = fit_error_covariance(one.held_out)
        for count in (count for count in TRIALS if len(one.cells) > count):
            seconds, rest = corrected_seconds(one, errors, count)
            names = [one.pair_name] * len(rest)
            rows[count].append((seconds[rest], one.true_seconds[rest], names))
    return [
        figures(
            f"after_{count}_trials",
            np.concatenate([predicted for predicted, _, _ in parts]),
            np.concatenate([true for _, true, _ in parts]),
            [name for _, _, names in parts for name in names],
        )
        for count, parts in rows.items()
        if parts
    ]


def corrected_seconds(run: Run, errors: ErrorCovariance, count: int) -> tuple[Floats, list[int]]:
    """Step seconds after `count` trials chosen without seeing any, and the untried rows."""
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
