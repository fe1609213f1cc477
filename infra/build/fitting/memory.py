"""Makes advisor/data/performance/memory_model.json: `python -m advisor.infra.build.fitting.memory`.

The memory that CUDA takes besides a step is fitted on peaks that the driver reported, and on timm's training
batches that filled a 24 GB GPU. The error of peaks is measured on all public peaks of image networks in
training; CUDA's part is added to peaks from torch's counters."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from msgspec import to_builtins
from msgspec.structs import replace
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from advisor.domain import Precision, Task, Workload
from advisor.errors import UsageError
from advisor.infra.build.fitting.files import seal
from advisor.infra.build.fitting.observations import (
    PYTORCH,
    is_of_a_single_token,
    measured_conditions,
    observation_frame,
    ranks_of,
)
from advisor.infra.build.performance_sources import peaks
from advisor.infra.build.performance_sources.frames import records_of
from advisor.models.bayes import Floats
from advisor.models.bundled import FOLDER
from advisor.models.performance.memory.peak import BUNDLED, PeakModel, usable_mib
from advisor.models.performance.memory.steps import bundled_profile
from advisor.models.performance.networks import NetworkFacts, bundled_networks

_SOURCES = Path(__file__).parents[1] / "performance_sources"
_SCHEMA = "advisor.memory-model/2"
# timm's results of 2022: from 512, the batch is reduced by a quarter and a third in turn until it fits.
_CARD_MIB, _LARGEST_BATCH = 24576.0, 512
_DIGITS = 4
_FOLDS = 5
_MOST_QUANTILES = 200
# Quantile of a Gaussian at one standard deviation.
_ONE_SIGMA = 0.8413
# Smaller values are raised to this before taking logarithms.
_LEAST_MIB = 1.0


class MemoryRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Peaks of GPU memory in MiB, as the driver reports them: a step's memory plus a constant for CUDA.

    `X` (n, parts) are MiB of a step's parts (one column of all that torch reserves, or the fields of
    `StepMemory`), `y` measured peaks, `groups` (n,) families of networks. Errors come from fits without the
    row's own family, and are multiplied by `margin`, since users' setups differ from the sources' as sources
    differ from each other. `model_` is what is bundled."""

    def __init__(self, *, margin: float = 1.5, trained_on: str = "") -> None:
        self.margin = margin
        self.trained_on = trained_on

    @classmethod
    def of(cls, model: PeakModel) -> Self:
        """An estimator with this model as the result of its fit."""
        made = cls(trained_on=model.trained_on)
        made.model_ = model
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on general data: parts must add up
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the constant on all rows, and the errors on groups held out of the fit."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype="numeric")
        step, peaks = X.sum(axis=1).astype(float), y.astype(float)
        weights = _check_sample_weight(sample_weight, X, dtype=float, allow_all_zero_weights=False)
        context = _context(step, peaks, weights)
        labels = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
        folds = min(_FOLDS, len(np.unique(labels)))
        told = step + context
        if folds > 1:
            for kept, out in GroupKFold(folds).split(step, groups=labels):
                told[out] = step[out] + _context(step[kept], peaks[kept], weights[kept])
        errors = np.log(np.maximum(peaks, _LEAST_MIB) / np.maximum(told, _LEAST_MIB))
        count = min(len(errors), _MOST_QUANTILES)
        ranks = (np.arange(count) + 0.5) / count
        quantiles = np.quantile(errors, ranks, weights=weights, method="inverted_cdf")
        self.model_ = PeakModel(
            context_mib=context, errors=tuple((self.margin * quantiles).tolist()), trained_on=self.trained_on
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Peaks (n,) in MiB; with `return_std` also their standard deviations."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=not hasattr(self, "n_features_in_"))
        peaks: Floats = self.model_.context_mib + X.sum(axis=1)
        if not return_std:
            return peaks
        low, high = self.model_.bounds(_ONE_SIGMA)
        return peaks, np.abs(peaks) * (np.log(high) - np.log(low)) / 2


def _context(step: Floats, peaks: Floats, weights: Floats) -> float:
    """The weighted median of peak minus step, which a few wrong rows do not move."""
    return float(np.quantile(peaks - step, 0.5, weights=weights, method="inverted_cdf"))


class PublicPeak(NamedTuple):
    """A peak and the memory of its step, in MiB. `whole` says whether the peak includes CUDA's part, `images`
    whether it is from training an image network."""

    source: str
    family: str
    step_mib: float
    peak_mib: float
    whole: bool
    images: bool


def public_peaks(frame: pd.DataFrame) -> pd.DataFrame:
    """All usable peaks of a frame with `STEP_COLUMNS`, with the fields of `PublicPeak` as columns."""
    rows = [row for record in records_of(frame) for row in (*_peaks(record), *_limits(record))]
    return pd.DataFrame(rows, columns=PublicPeak._fields)


def _peaks(record: Mapping[str, Any]) -> Iterator[PublicPeak]:
    source, network = record["source"], record["network"]
    asked = record["stack"] in (*PYTORCH, "ngc") and (record["gpu_count"] == 1 or ranks_of(record) > 1)
    if not (asked and record["peak_memory_mib"] > 0) or is_of_a_single_token(source, network, record["task"]):
        return
    facts = _facts(record)
    if facts is None or peaks.reason_against(source, facts.name):
        return
    step, whole = peaks.step_mib(source, facts, _workload(record))
    profile = bundled_profile(facts.name, facts.input)
    images = record["task"] == Task.TRAINING and profile.takes_images
    measured = peaks.measured_mib(source, record["peak_memory_mib"])
    yield PublicPeak(source, facts.family, step, measured, whole, images)


def _limits(record: Mapping[str, Any]) -> Iterator[PublicPeak]:
    """A step halfway between the batch that ran and the next larger one; it is taken to fill the GPU."""
    batch = record["batch_size"]
    filled = record["source"] == "timm" and record["task"] == Task.TRAINING and batch < _LARGEST_BATCH
    if not filled or (facts := _facts(record)) is None or peaks.attends(facts):
        return  # the source does not say whether attention is fused
    next_larger = 4 / 3 if math.log2(batch) % 1 else 3 / 2
    between = replace(_workload(record), batch_size=round(batch * math.sqrt(next_larger)))
    step, _ = peaks.step_mib("timm", facts, between)
    yield PublicPeak("timm", facts.family, step, usable_mib(_CARD_MIB), whole=True, images=False)


def _facts(record: Mapping[str, Any]) -> NetworkFacts | None:
    try:
        facts = bundled_networks().find(record["network"], record["input"] or None)
        bundled_profile(facts.name, facts.input)
    except UsageError:
        return None
    return facts


def _workload(record: Mapping[str, Any]) -> Workload:
    return Workload(
        network=record["network"],
        task=Task(record["task"]),
        batch_size=round(record["batch_size"]),
        precision=Precision(record["precision"]),
        input=record["input"] or None,
        conditions=tuple(measured_conditions(record).items()),
    )


def fit_peaks(rows: pd.DataFrame) -> PeakModel:
    """Fit the model on public peaks; for CUDA's constant, each family has equal weight."""
    whole = rows[rows["whole"]]
    weights = 1 / whole.groupby("family")["family"].transform("size")
    context = _fitted(whole, whole["peak_mib"], weights).context_mib
    trained = rows[rows["images"]]
    return _fitted(trained, trained["peak_mib"] + np.where(trained["whole"], 0.0, context))


def _fitted(
    rows: pd.DataFrame, peak_mib: pd.Series[float], weights: pd.Series[float] | None = None
) -> PeakModel:
    trained_on = f"{len(rows)} public peaks of networks of images in training"
    model = MemoryRegressor(trained_on=trained_on)
    fitted: PeakModel = model.fit(rows[["step_mib"]], peak_mib, weights, rows["family"]).model_
    return fitted


def main() -> None:
    """Fit the model and write the file."""
    model = fit_peaks(public_peaks(observation_frame(_SOURCES)))
    errors = tuple(round(error, _DIGITS) for error in model.errors)
    rounded = replace(model, context_mib=round(model.context_mib), errors=errors)
    (FOLDER / BUNDLED).write_text(json.dumps({"schema": _SCHEMA, **to_builtins(rounded)}) + "\n")
    seal()
    sys.stdout.write(f"{BUNDLED}: {model.context_mib:.0f} MiB beside {model.trained_on}\n")


if __name__ == "__main__":
    main()
