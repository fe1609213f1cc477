"""What a change of stack, layout or precision brings, beside what was told of it.

A pair are two rows of one source, network, input, task, card, batch size and software that differ in one
setting; their ratio is the gain. Beside the error of what is told stands that of one who always says the
median gain of the same change (which is known only afterwards)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models.performance.settings import gain_of
from advisor.models.performance.step_times import StepTimes
from benchmarks.truth.asking import RefusalError, ScoredModel
from benchmarks.truth.refits import Without, refits
from benchmarks.truth.rows import Row

SCHEMA = "advisor.truth-gains/1"
# All that rows say of how a step was made.
_FIELDS = set(Row.__struct_fields__) - {"seconds", "memory_mib", "conditions", "counts"}
# By name, which field changes from what to what.
CHANGES = (
    ("compile", "stack", "eager", "compile"),
    ("channels_last", "memory_format", "contiguous", "channels_last"),
    ("16 bits", "precision", "fp32", "amp"),
    ("16 bits", "precision", "fp32", "bf16"),
    ("16 bits", "precision", "fp32", "fp16"),
)


class Pair(NamedTuple):
    """Two rows that differ in one setting, and the factor by which the second one is faster."""

    change: str
    before: Row
    after: Row
    gain: float


class ScoredPair(NamedTuple):
    """A pair beside the gain that was told: logs of the truth, the median and the bounds."""

    pair: Pair
    measured: float
    median: float
    lower: float
    upper: float


def pairs_of(rows: Sequence[Row]) -> list[Pair]:
    """Every pair; of repeated rows the median."""
    found = []
    for change, field, before, after in CHANGES:
        alike: dict[tuple[Any, ...], tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
        others = sorted(_FIELDS - {field})
        for row in rows:
            if row.seconds is not None and getattr(row, field) in (before, after):
                key = tuple(getattr(row, name) for name in others)
                alike[key][getattr(row, field) == after].append(row)
        found += [
            Pair(change, first[0], second[0], _seconds(first) / _seconds(second))
            for first, second in alike.values()
            if first and second
        ]
    return found


def _seconds(rows: Iterable[Row]) -> float:
    return float(np.median([row.seconds for row in rows if row.seconds]))


def gains(
    rows: Sequence[Row | str], without: Without | None = None, confidence: float = 0.9
) -> dict[str, Any]:
    """`advisor.truth-gains/1`: figures by change, and by change and card."""
    pairs, scored_model = pairs_of([row for row in rows if isinstance(row, Row)]), ScoredModel()
    every = [(list(range(len(pairs))), scored_model.model.step_times)]
    folds = refits(scored_model, [pair.before for pair in pairs], without) if without else every
    scored_pairs = [
        scored
        for indices, times in folds
        for scored in _scored_pairs(scored_model, [pairs[index] for index in indices], times, confidence)
    ]
    return {
        "schema": SCHEMA,
        "refit_without": str(without) if without else None,
        "confidence": confidence,
        "pairs": len(pairs),
        "answered": len(scored_pairs),
        "groups": _groups(scored_pairs),
    }


def _scored_pairs(
    scored_model: ScoredModel, pairs: Iterable[Pair], times: StepTimes, confidence: float
) -> list[ScoredPair]:
    found = []
    for pair in pairs:
        try:
            (workload, gpu), (changed, _) = scored_model.cell(pair.before), scored_model.cell(pair.after)
        except RefusalError:
            continue
        facts = scored_model.facts(pair.before)
        assert facts is not None
        gain = gain_of(times, workload, changed, gpu, facts, confidence)
        if gain is None:
            continue
        factor = gain.factor
        logs = (math.log(one) for one in (pair.gain, factor.median, factor.lower, factor.upper))
        found.append(ScoredPair(pair, *logs))
    return found


def _groups(scored_pairs: Sequence[ScoredPair]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[ScoredPair]] = defaultdict(list)
    for one in scored_pairs:
        task, gpu = one.pair.before.task, one.pair.before.gpu
        for group in ("all", task, f"{task} on {gpu}, {one.pair.after.precision}"):
            groups[one.pair.change, group].append(one)
    return [
        {"change": change, "group": group, **_figures(members)}
        for (change, group), members in sorted(groups.items())
    ]


def _figures(scored_pairs: Sequence[ScoredPair]) -> dict[str, float | int]:
    measured, median, lower, upper = np.array([one[1:] for one in scored_pairs]).T
    return {
        "n": len(scored_pairs),
        "median_gain_percent": _percent(np.median(measured)),
        **_errors("", median - measured),
        **_errors("always_the_median_", np.median(measured) - measured),
        "lower_held_percent": _share(lower <= measured),
        "covered_percent": _share((lower <= measured) & (measured <= upper)),
        "half_width_percent": _percent(np.mean(upper - lower) / 2),
    }


def _errors(name: str, logs: NDArray[np.float64]) -> dict[str, float]:
    """Per cent of the ratio that were missed."""
    return {
        f"{name}mean_percent": _percent(np.mean(np.abs(logs))),
        f"{name}median_percent": _percent(np.median(np.abs(logs))),
    }


def _share(of: NDArray[np.bool_]) -> float:
    return round(100 * float(np.mean(of)), 1)


def _percent(log: Any) -> float:
    return round(100 * math.expm1(float(log)), 1)
