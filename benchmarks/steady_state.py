"""How right, and how early, a run is stopped: `python benchmarks/steady_state.py --json`.

Real series of GPU steps (tests/data/steady_state) get a warm-up, a drift and 5 % outliers. Two
rules stop each of them: ours, and the usual one: three windows whose means agree within 10 %
(as Triton's perf_analyzer does by default), whose mean is then believed. The truth is the median
of the whole series before warm-up and outliers. One JSON document on stdout.
"""

from __future__ import annotations

import csv
import json
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.domain.steps import typical_step_seconds
from sweeps.quality.statistics import measured_enough, steady_part

SERIES = Path(__file__).parents[1] / "tests/data/steady_state/pytorch_gpu_benchmark_ms.csv"
REL_ERROR = 0.02
MIN_STEPS = 6
_SEEDS = 5
_WARMUP_STEPS = (2, 6)
_WARMUP_FACTOR = (1.5, 4.0)
_DRIFT = 0.02
_OUTLIER_SHARE = 0.05
_OUTLIER_FACTOR = (1.5, 4.0)


def read_series(path: Path = SERIES) -> list[list[float]]:
    """Each real series of 50 steps, in milliseconds."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    return [[float(value) for value in row[4:]] for row in rows[1:]]


def disturbed(
    series: Sequence[float], draw: random.Random, length: int
) -> tuple[list[float], float]:
    """The series, repeated to `length`, with warm-up, drift and outliers; and the truth."""
    drift = draw.choice((-1, 1)) * _DRIFT
    clean = [
        series[index % len(series)] * (1 + drift * (index / length - 0.5))
        for index in range(length)
    ]
    warm, factor = draw.randint(*_WARMUP_STEPS), draw.uniform(*_WARMUP_FACTOR)
    steps = [
        value * (factor ** (1 - index / warm) if index < warm else 1.0)
        for index, value in enumerate(clean)
    ]
    for index in range(length):
        if draw.random() < _OUTLIER_SHARE:
            steps[index] *= draw.uniform(*_OUTLIER_FACTOR)
    return steps, statistics.median(clean)


def ours(steps: Sequence[float]) -> tuple[int, float]:
    """Steps taken and typical step, looking after each step from `MIN_STEPS` on."""
    for taken in range(MIN_STEPS, len(steps)):
        if measured_enough(steps[:taken], rel_error=REL_ERROR, min_steps=MIN_STEPS):
            return taken, typical_step_seconds(steady_part(steps[:taken]))
    return len(steps), typical_step_seconds(steady_part(steps))


def three_windows(steps: Sequence[float], window: int) -> tuple[int, float]:
    """Steps taken and mean of the last three windows, once they agree within 10 %."""
    means: list[float] = []
    for start in range(0, len(steps) - window + 1, window):
        means.append(statistics.fmean(steps[start : start + window]))
        last = means[-3:]
        middle = statistics.fmean(last)
        if len(last) == 3 and all(abs(mean - middle) <= 0.1 * middle for mean in last):
            break
    return window * len(means), statistics.fmean(means[-3:])


def compare(window: int, length: int, seeds: int = _SEEDS) -> dict[str, Any]:
    """Both rules over all series: iterations taken, and errors of the step time in percent."""
    cases = [
        disturbed(series, random.Random(f"{seed}:{number}"), length)
        for seed in range(seeds)
        for number, series in enumerate(read_series())
    ]
    rules = {"ours": ours, "three_windows": lambda steps: three_windows(steps, window)}
    return {
        "window": window,
        "length": length,
        "series": len(cases),
        **{
            name: _summary([(*rule(steps), truth) for steps, truth in cases])
            for name, rule in rules.items()
        },
    }


def _summary(outcomes: Sequence[tuple[int, float, float]]) -> dict[str, float]:
    errors = [100 * (found / truth - 1) for _, found, truth in outcomes]
    sizes = sorted(map(abs, errors))
    return {
        "mean_iterations": round(statistics.fmean(taken for taken, _, _ in outcomes), 1),
        "bias_percent": round(statistics.fmean(errors), 2),
        "median_error_percent": round(statistics.median(sizes), 2),
        "p90_error_percent": round(sizes[int(0.9 * len(sizes))], 2),
    }


def main() -> None:
    """Windows of 10 on the series as they are, and of perf_analyzer's 50 on repeated ones."""
    results = [compare(10, 50), compare(50, 300)]
    print(json.dumps({"schema": "advisor.steady-state/1", "results": results}, indent=2))


if __name__ == "__main__":
    main()
