"""`new_gpu`: rates of known networks on a GPU never measured, from its data sheet.

Rows of tf_cnn_benchmarks (perfmodel/lambda_tf): one GPU, synthetic data. The GPU's rows are all
left out; in the variants also those of cards with the same rates, or of its architecture (then
without the GPUs that have no data sheet too, as nobody knows their architecture).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.data_sheets import read_gpus
from benchmarks.accuracy.figures import Figures, NothingToScore, SuiteResult, figures
from benchmarks.accuracy.lambda_rows import read_lambda
from benchmarks.accuracy.new_gpu_baselines import BASELINES
from models.performance.datasheet.contradictions import contradicts_its_source
from models.performance.datasheet.model import DataSheetModel
from models.performance.datasheet.records import RateRow
from models.performance.networks import Floats

Key = Callable[[RateRow], str]
Predict = Callable[[Sequence[RateRow], Sequence[RateRow]], Floats]
# Central 90 % of a normal distribution.
_QUANTILE = 1.645


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to fit on and to predict; `together` when one directory is both."""

    train: tuple[RateRow, ...]
    score: tuple[RateRow, ...]
    together: bool

    def folds(
        self, key: Key, unlisted: bool = True
    ) -> Iterable[tuple[list[RateRow], list[RateRow]]]:
        """Rows without a key, and the key's rows: one key at a time, or all scored ones at once."""
        keys = sorted({key(row) for row in self.score})
        for left_out in [{one} for one in keys] if self.together else [set(keys)]:
            rest = [
                row for row in self.train if (row.gpu or unlisted) and not _has(row, key, left_out)
            ]
            wrong = contradicts_its_source(rest)
            known = {r.workload for r, bad in zip(rest, wrong, strict=True) if r.gpu and not bad}
            own = [row for row in self.score if key(row) in left_out and row.workload in known]
            if rest and own:
                yield rest, own


def _has(row: RateRow, key: Key, values: set[str]) -> bool:
    return row.gpu is not None and key(row) in values


def by_name(row: RateRow) -> str:
    """A GPU is what has a data sheet of its own."""
    return row.gpu_name


def by_rates(row: RateRow) -> str:
    """Cards with the same rates (A100 as PCIE and SXM4, RTX 6000 and 8000) are one GPU."""
    gpu = row.gpu
    assert gpu is not None
    return f"{gpu.architecture}/{gpu.fp32_tflops:.1f}/{gpu.memory_gb_per_second:.0f}"


def by_architecture(row: RateRow) -> str:
    """All GPUs of an architecture, as the data sheets call it."""
    assert row.gpu is not None
    return f"{row.gpu.vendor} {row.gpu.architecture}"


def run(train: Path, score: Path) -> SuiteResult:
    """Leave GPUs out (the same directory), or predict the scored GPUs without any of theirs."""
    split, wrong, skipped = _read(train, score)
    right = replace(split, score=tuple(row for row in split.score if row not in wrong))
    nvidia = replace(right, score=_nvidia(right.score))
    if not nvidia.score:
        raise NothingToScore("no row of an NVIDIA GPU that has a data sheet")
    outcome = predict_held_out(nvidia, by_name, from_sheets)
    main = outcome.figures("NVIDIA, leave one GPU out")
    with_wrong = replace(split, score=_nvidia(split.score))
    asked = {
        "all vendors": (right, by_name, from_sheets, True),
        "wrong rows scored too": (with_wrong, by_name, from_sheets, True),
        "cards of the same rates out": (nvidia, by_rates, from_sheets, True),
        "leave one architecture out": (nvidia, by_architecture, from_sheets, False),
        "one calibration run": (nvidia, by_name, after_one_run, True),
    }
    compared = {name: (nvidia, by_name, way, True) for name, way in BASELINES.items()}
    return SuiteResult(
        suite="new_gpu",
        main=main,
        variants=[_alike(main, outcome), *_each_figures(asked, skipped)],
        baselines=_each_figures(compared, skipped),
        coverage=_coverage(nvidia),
        extra={"by_gpu": {gpu: round(error, 2) for gpu, error in main.groups.items()}},
        skipped=skipped,
    )


def _each_figures(
    asked: Mapping[str, tuple[Split, Key, Predict, bool]], skipped: list[str]
) -> list[Figures]:
    """Figures of every variant that leaves something to fit on; the others are said."""
    found = []
    for name, (split, key, predict, unlisted) in asked.items():
        try:
            found.append(predict_held_out(split, key, predict, unlisted).figures(name))
        except NothingToScore as reason:
            skipped.append(str(reason))
    return found


def _read(train: Path, score: Path) -> tuple[Split, set[RateRow], list[str]]:
    sheets = read_gpus(train)
    together = train.resolve() == score.resolve()
    fitted = read_lambda(train, sheets)
    scored = fitted if together else read_lambda(score, sheets, also=train)
    listed = tuple(row for row in scored.rows if row.gpu)
    judged = fitted.rows if together else (*scored.rows, *fitted.rows)
    wrong = {row for row, bad in zip(judged, contradicts_its_source(judged), strict=True) if bad}
    split = Split(fitted.rows, listed, together)
    return split, wrong, [*scored.left_out, *_unscored(split, scored.rows, wrong)]


def _unscored(split: Split, scored: Sequence[RateRow], wrong: set[RateRow]) -> Iterable[str]:
    """In words: GPUs without a sheet, workloads never fitted, rows that cannot be right."""
    for name in sorted({row.gpu_name for row in scored if not row.gpu}):
        yield f"no data sheet: {name}"
    known = {row.workload for row in split.train if row.gpu}
    for name in sorted({row.workload for row in split.score} - known):
        yield f"not measured under --train: {name}"
    for row in sorted(wrong & set(split.score), key=lambda row: (row.source, row.workload)):
        yield (
            f"contradicts its machine's other rows, not scored: {row.source} {row.workload} "
            f"({row.samples_per_second:.0f}/s)"
        )


def _nvidia(rows: Iterable[RateRow]) -> tuple[RateRow, ...]:
    return tuple(row for row in rows if row.gpu and row.gpu.vendor.casefold() == "nvidia")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Predicted rates (nan: not scored) of rows, in their order."""

    rows: tuple[RateRow, ...]
    predicted: Floats

    def figures(self, name: str) -> Figures:
        """Errors of the rows that were predicted, grouped by GPU."""
        scored = np.isfinite(self.predicted)
        rows = [row for row, is_scored in zip(self.rows, scored, strict=True) if is_scored]
        if not rows:
            raise NothingToScore(f"{name}: no scored row's network was measured on another GPU")
        true = [row.samples_per_second for row in rows]
        return figures(name, self.predicted[scored], true, [row.gpu_name for row in rows])


def predict_held_out(split: Split, key: Key, predict: Predict, unlisted: bool = True) -> Outcome:
    """Every scored row, predicted from rows that do not share its key."""
    rows, predicted = [], []
    for rest, own in split.folds(key, unlisted):
        rows += own
        predicted.append(predict(rest, own))
    return Outcome(tuple(rows), np.concatenate([np.empty(0), *predicted]))


def from_sheets(rest: Sequence[RateRow], own: Sequence[RateRow]) -> Floats:
    """The product's model, with nothing measured on the GPU."""
    return DataSheetModel().fit(rest).predict(own)


def after_one_run(rest: Sequence[RateRow], own: Sequence[RateRow]) -> Floats:
    """The product's model after the most telling run on each machine; the run is not scored."""
    model = DataSheetModel().fit(rest)
    predicted = model.predict(own)
    for source in sorted({row.source for row in own}):
        places = [i for i, row in enumerate(own) if row.source == source]
        run = model.most_telling([own[i] for i in places])
        measured = own[places[run]].samples_per_second
        predicted[places] = model.after_run(predicted[places], run, measured)
        predicted[places[run]] = np.nan
    return predicted


def _alike(main: Figures, outcome: Outcome) -> Figures:
    """Means over GPUs of each GPU's mean, median and 90th percentile."""
    names = np.array([row.gpu_name for row in outcome.rows])
    true = np.array([row.samples_per_second for row in outcome.rows])
    each = [
        figures(name, outcome.predicted[names == name], true[names == name]) for name in main.groups
    ]
    return Figures(
        name="NVIDIA, every GPU counting alike",
        n=main.n,
        mape_percent=float(np.mean([one.mape_percent for one in each])),
        median_percent=float(np.mean([one.median_percent for one in each])),
        p90_percent=float(np.mean([one.p90_percent for one in each])),
    )


def _coverage(split: Split) -> dict[str, Any]:
    """How often the rate lies in the central 90 % of what the model believes."""
    inside: dict[str, list[bool]] = {}
    widths: list[float] = []
    for rest, own in split.folds(by_name):
        rates, sigmas = DataSheetModel().fit(rest).predict_with_sigma(own)
        for row, rate, sigma in zip(own, rates, sigmas, strict=True):
            miss = abs(np.log(row.samples_per_second / rate))
            inside.setdefault(row.gpu_name, []).append(bool(miss <= _QUANTILE * sigma))
            widths.append(100 * float(np.expm1(_QUANTILE * sigma)))
    shares = {gpu: 100 * float(np.mean(values)) for gpu, values in inside.items()}
    worst = min(shares, key=lambda gpu: shares[gpu])
    every = [value for values in inside.values() for value in values]
    return {
        "central_percent": 90,
        "covered_percent": round(100 * float(np.mean(every)), 1),
        "worst_group": {"group": worst, "covered_percent": round(shares[worst], 1)},
        "median_half_width_percent": round(float(np.median(widths)), 1),
    }
