"""Fits how fast hosts decode and how that combines with a real GPU, as a scikit-learn estimator.

The runs are from tf_cnn_benchmarks (infra/build/performance_sources/stalls.csv), which prepares one batch per
GPU while the GPU computes. They are the only runs with real GPUs, so they determine how a GPU and its host
combine. The fitted numbers are copied into the priors of a sweep's fit (`PIPELINE_PRIORS`), and a test checks
that they agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
)

from advisor.domain import IMAGENET
from advisor.infra.build.performance_sources.stalls import STALL_COLUMNS
from advisor.models.bayes import Floats
from advisor.models.performance.frames import checked_frame
from advisor.models.performance.pipeline import (
    PIPELINE_PRIORS,
    PipelineColumns,
    host_rate,
    join_logs,
    logs_by_stage,
)

# Priors: a queue's exponent is unknown, tasks behave alike, and several GPUs lose a few per cent.
STALL_PRIORS: Mapping[str, tuple[float, float]] = {
    "join/queue": (0.0, 0.5),
    "join/training": (0.0, 0.5),
    "join/several_gpus": (0.03, 0.05),
}
# Relative scatter of a rate; residuals are in units of it.
_SIGMA = 0.05
# Rows that real data hardly slows down say less about how stages combine, so they weigh less.
_STALLED_BELOW = 0.95
_UNSTALLED_WEIGHT = 0.5
# A wide prior on a host's log speed: nothing is known before it decodes.
_SPEED_SIGMA = 3.0
RUN_COLUMNS = {name: column for name, column in STALL_COLUMNS.items() if name != "real_samples_per_second"}


class DecodeRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Samples per second of training and inference on real images.

    `X` is a frame with `RUN_COLUMNS`, `y` samples per second on real data. `decoding` has the parameters of
    decoding (None: the priors). `parameters_` has all parameters, `sigmas_` the remaining standard deviations
    of those in `STALL_PRIORS`, and `speeds_` the log speed of each host in reference cores; a host has a
    separate speed for each kind of augmentation."""

    def __init__(self, *, decoding: Mapping[str, float] | None = None) -> None:
        self.decoding = decoding

    def fit(self, X: pd.DataFrame, y: Any, sample_weight: Any = None) -> Self:
        """Fit the combination of stages and the speed of each host."""
        X, real = self._checked(X), check_array(y, ensure_2d=False, dtype=float)
        check_consistent_length(X, real)
        alone = self._decoded(X)
        hosts, numbers = np.unique(_hosts(X), return_inverse=True)
        # A host decodes at least as fast as its fastest run on real data.
        fastest = [np.log((real / alone)[numbers == number].max()) for number in range(len(hosts))]
        means = np.array([*(mean for mean, _ in STALL_PRIORS.values()), *fastest])
        scales = np.array([*(sigma for _, sigma in STALL_PRIORS.values()), *[_SPEED_SIGMA] * len(hosts)])
        stalled = real < _STALLED_BELOW * X["synthetic_samples_per_second"].to_numpy()
        weights = _check_sample_weight(sample_weight, X, dtype=float)
        weights = np.sqrt(weights) * np.where(stalled, 1.0, _UNSTALLED_WEIGHT) / _SIGMA
        before, count = self._known(), len(STALL_PRIORS)

        def residuals(units: Floats) -> Floats:
            values = means + scales * units
            parameters = {**before, **dict(zip(STALL_PRIORS, values[:count].tolist(), strict=True))}
            logs = _joined_logs(X, alone * np.exp(values[count:][numbers]), parameters)
            errors = (np.log(real) - logs) * weights
            soft = np.sign(errors) * np.sqrt(8 * (np.sqrt(1 + errors**2 / 4) - 1))
            return np.concatenate([soft, units])

        best = least_squares(residuals, np.zeros(len(means)), bounds=(-6, 6))
        spread = scales * np.sqrt(np.diag(np.linalg.inv(best.jac.T @ best.jac)))
        values = (means + scales * best.x).tolist()
        self.parameters_ = {**before, **dict(zip(STALL_PRIORS, values, strict=False))}
        self.sigmas_ = dict(zip(STALL_PRIORS, spread.tolist(), strict=False))
        self.speeds_ = dict(zip(hosts.tolist(), values[count:], strict=True))
        return self

    def predict(self, X: pd.DataFrame, return_std: bool = False) -> Any:
        """Samples per second (n,), nan for an unknown host; with `return_std` also their standard
        deviations."""
        check_is_fitted(self, "parameters_")
        X = self._checked(X)
        speeds = np.array([self.speeds_.get(host, np.nan) for host in _hosts(X).tolist()])
        rates = np.exp(_joined_logs(X, self._decoded(X) * np.exp(speeds), self.parameters_))
        return (rates, _SIGMA * rates) if return_std else rates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.target_tags.positive_only = True, True
        tags.no_validation = True
        return tags

    def _known(self) -> Mapping[str, float]:
        return self.decoding or {name: mean for name, (mean, _) in PIPELINE_PRIORS.items()}

    def _decoded(self, X: pd.DataFrame) -> Floats:
        """Samples per second (n,) that a core of the reference machine decodes."""
        return host_rate(runs_columns(X), self._known(), 1.0)

    def _checked(self, X: pd.DataFrame) -> pd.DataFrame:
        checked = checked_frame(X, RUN_COLUMNS)
        self.feature_names_in_ = np.array(checked.columns, dtype=object)
        self.n_features_in_ = len(checked.columns)
        return checked


def _hosts(X: pd.DataFrame) -> Any:
    return (X["host"] + "/" + X["augmentation"]).to_numpy(dtype=str)


def _joined_logs(X: pd.DataFrame, decoding: Floats, parameters: Mapping[str, float]) -> Floats:
    """Log samples per second (n,) of GPUs on hosts with the given decoding rates."""
    none = np.full(len(X), np.inf)
    stages = np.column_stack([X["synthetic_samples_per_second"], decoding, none, none])
    return join_logs(runs_columns(X), logs_by_stage(stages), parameters)[0]


def runs_columns(X: pd.DataFrame) -> PipelineColumns:
    """The runs as pipeline columns, with one core per host."""
    ones, width = np.ones(len(X)), X["input_width"].to_numpy()
    return PipelineColumns(
        cores=ones,
        second_threads=0 * ones,
        vcpus=ones,
        score=np.nan * ones,
        stored_bytes=IMAGENET.bytes_per_sample * ones,
        missed_bytes=IMAGENET.bytes_per_sample * ones,
        files=ones,
        reading_seconds=0 * ones,
        encoded_bytes=IMAGENET.bytes_per_sample * ones,
        decoded_pixels=IMAGENET.pixels * ones,
        resampled_pixels=0 * ones,
        output_pixels=width**2,
        holds_pixels=0 * ones,
        batch_size=X["batch_size"].to_numpy(),
        cached_share=ones,
        disk_bytes_per_second=np.inf * ones,
        disk_operations_per_second=np.inf * ones,
        disk_low=ones,
        disk_high=ones,
        copy_bytes_per_second=np.inf * ones,
        input_bytes=12 * width**2,
        on_cpu=0 * ones,
        training=np.array([task == "training" for task in X["task"]], dtype=float),
        gpu_count=X["gpus"].to_numpy(),
        batches_ahead=ones,
        workers=ones,
        cpu=np.zeros(len(X), dtype=np.intp),
    )
