"""Fits host, storage, join and CPU parameters on the trials of sweeps.

A maximum a posteriori fit of the physical form on log rates, then a small regression on what
it leaves, kept only where it helps on trials that neither was fitted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.domain import Measurement, Task
from models.performance.features import PipelineColumns, PipelineRequest, pipeline_columns
from models.performance.joining import GAMMA_RANGE
from models.performance.networks import Floats, NetworkTable
from models.performance.physical_form import PhysicalForm
from models.performance.pipeline import (
    ALL_TRIALS,
    Pipeline,
    ReferenceCpu,
    log_core_rate,
    trial_group,
)
from models.performance.remainder import REMAINDER_NAMES, Remainder, remainder_features
from models.performance.stages import STAGES
from models.performance.usable import known_accelerator_rate, measured_cpu_rate

FOLDS = 5
# Scatter of a trial's rate on a shared machine; residuals are counted in it.
_TRIAL_SIGMA = 0.06
# The regression on the rest must lower the held-out error this far to be kept: on a few dozen
# trials a smaller gain is chance, and what is kept bends the physical form.
_WORTH_KEEPING = 0.85
_ALPHAS = tuple(10.0**power for power in range(-1, 5))
# Columns of the remainder that are no resource, whose sign is therefore free.
_NO_RESOURCE = [REMAINDER_NAMES.index(name) for name in ("log_batch", "on_cpu")]


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials as columns with what was observed, all of shape (n,).

    `accelerator` is nan where the network ran on the CPU; `cpu_alone` is its own measured
    log rate there, nan elsewhere.
    """

    columns: PipelineColumns
    cells: tuple[tuple[str, Task], ...]
    accelerator: Floats
    log_rate: Floats
    cpu_alone: Floats

    def take(self, chosen: NDArray[np.bool_]) -> Trials:
        """The trials where `chosen` (n,) is true."""
        values = (getattr(self.columns, name)[chosen] for name in PipelineColumns.__slots__)
        return Trials(
            PipelineColumns(*values),
            tuple(cell for cell, keep in zip(self.cells, chosen, strict=True) if keep),
            self.accelerator[chosen],
            self.log_rate[chosen],
            self.cpu_alone[chosen],
        )


def trials_of(measurements: Sequence[Measurement], networks: NetworkTable) -> Trials:
    """Columns of usable measurements, see `usable.sort_out`."""
    rows = [_request(measurement) for measurement in measurements]
    nan = float("nan")
    return Trials(
        columns=pipeline_columns(rows, networks),
        cells=tuple((row.workload.network, row.workload.task) for row in rows),
        accelerator=np.array([known_accelerator_rate(m) or nan for m in measurements]),
        log_rate=np.log([m.throughput_samples_per_second or nan for m in measurements]),
        cpu_alone=np.log([measured_cpu_rate(m) or nan for m in measurements]),
    )


def _request(measurement: Measurement) -> PipelineRequest:
    trial = measurement.trial
    on_cpu = trial.accelerator == "cpu" and trial.workload.task is not Task.PREPROCESSING
    return PipelineRequest(trial.workload, trial.resources, on_cpu, trial.cache)


def fit_pipeline(
    trials: Trials, networks: NetworkTable, reference: ReferenceCpu, *, remainder: bool
) -> Pipeline:
    """The physical parameters and, when asked, the regression on the rest; no residuals."""
    physical = _fit_physical(trials, networks, reference)
    if not remainder:
        return physical
    return replace(physical, remainder=_fit_remainder(trials, physical, networks))


def log_residuals(trials: Trials, pipeline: Pipeline, networks: NetworkTable) -> Floats:
    """log(observed / predicted) of each trial."""
    joined, _ = joined_rates(trials, pipeline, networks)
    residuals: Floats = trials.log_rate - np.log(joined)
    return residuals


def held_out_residuals(
    trials: Trials, networks: NetworkTable, reference: ReferenceCpu
) -> tuple[Floats, Floats]:
    """Each trial's residual under the fit on the other folds' trials, shape (n,): of the physical
    form alone, and with the regression on what it leaves.

    Folds are dealt out in an order shuffled with a fixed seed; rows are whole trials, so no
    repeat of a trial is on both sides.
    """
    count = len(trials.log_rate)
    fold = np.random.default_rng(0).permutation(count) % FOLDS
    plain, learned = np.empty(count), np.empty(count)
    for number in range(min(FOLDS, count)):
        held = fold == number
        rest, asked = trials.take(~held), trials.take(held)
        physical = fit_pipeline(rest, networks, reference, remainder=False)
        plain[held] = log_residuals(asked, physical, networks)
        whole = replace(physical, remainder=_fit_remainder(rest, physical, networks))
        learned[held] = log_residuals(asked, whole, networks)
    return plain, learned


def fit_and_calibrate(
    trials: Trials, networks: NetworkTable, reference: ReferenceCpu
) -> tuple[Pipeline, Floats]:
    """The better of the forms with and without the regression, and its held-out residuals."""
    plain, learned = held_out_residuals(trials, networks, reference)
    keep = bool(np.median(np.abs(learned)) < _WORTH_KEEPING * np.median(np.abs(plain)))
    residuals = learned if keep else plain
    pipeline = fit_pipeline(trials, networks, reference, remainder=keep)
    calibrated = _by_stage(residuals, joined_rates(trials, pipeline, networks)[1])
    return replace(pipeline, residuals=calibrated), residuals


def _by_stage(residuals: Floats, weights: Floats) -> dict[str, tuple[float, ...]]:
    """Sorted residuals of the trials that each stage bound, and of all."""
    rounded, bound = np.round(residuals, 4), weights.argmax(axis=1)
    groups = {trial_group(stage): rounded[bound == i] for i, stage in enumerate(STAGES)}
    groups[ALL_TRIALS] = rounded
    return {name: tuple(np.sort(values).tolist()) for name, values in groups.items()}


def joined_rates(
    trials: Trials, pipeline: Pipeline, networks: NetworkTable
) -> tuple[Floats, Floats]:
    """Predicted rates (n,) and stage weights (n, 4)."""
    accelerator = _accelerator(trials, pipeline, networks)
    return pipeline.join(trials.columns, pipeline.stage_rates(trials.columns, accelerator))


def _fit_physical(trials: Trials, networks: NetworkTable, reference: ReferenceCpu) -> Pipeline:
    form = form_of(trials, reference)
    fitted = form.pipeline(fit_units(form, trials, networks))
    rounded = {name: round(value, 6) for name, value in fitted.parameters.items()}
    return replace(fitted, parameters=rounded)


def form_of(trials: Trials, reference: ReferenceCpu) -> PhysicalForm:
    """The physical form with all parameters that these trials touch."""
    on_cpu = [
        f"{network}/{task}"
        for (network, task), cpu in zip(trials.cells, trials.columns.on_cpu, strict=True)
        if cpu
    ]
    return PhysicalForm.of(on_cpu, float(trials.columns.vcpus.max()), reference)


def fit_units(form: PhysicalForm, trials: Trials, networks: NetworkTable) -> Floats:
    """The likeliest parameters (p,), in standard deviations from their priors' means."""
    from scipy.optimize import least_squares

    def residuals(units: Floats) -> Floats:
        fitted = form.pipeline(units)
        data = log_residuals(trials, fitted, networks) / _TRIAL_SIGMA
        alone = _alone_residuals(trials, fitted, networks) / _TRIAL_SIGMA
        return np.concatenate([_soft(data), _soft(alone), units])

    lower, upper = np.full(len(form.names), -8.0), np.full(len(form.names), 8.0)
    at = form.names.index("join/gamma")
    lower[at], upper[at] = (np.log(GAMMA_RANGE) - form.means[at]) / form.sigmas[at]
    start = np.zeros(len(form.names))
    units: Floats = least_squares(residuals, start, bounds=(lower, upper), max_nfev=50).x
    return units


def _soft(residuals: Floats) -> Floats:
    """Residuals whose squares are the soft-L1 loss, so that one bad trial bends little."""
    soft: Floats = np.sign(residuals) * np.sqrt(8 * (np.sqrt(1 + residuals**2 / 4) - 1))
    return soft


def _alone_residuals(trials: Trials, pipeline: Pipeline, networks: NetworkTable) -> Floats:
    seen = np.isfinite(trials.cpu_alone)
    predicted = np.log(_accelerator(trials, pipeline, networks)[seen])
    residuals: Floats = trials.cpu_alone[seen] - predicted
    return residuals


def _accelerator(trials: Trials, pipeline: Pipeline, networks: NetworkTable) -> Floats:
    cells = {c for c, cpu in zip(trials.cells, trials.columns.on_cpu, strict=True) if cpu}
    logs = {
        (name, task): log_core_rate(networks[name], task, pipeline.parameters)
        for name, task in cells
    }
    core_rates = np.array([logs.get(cell, 0.0) for cell in trials.cells])
    on_cpu = pipeline.cpu_rates(trials.columns, core_rates)
    return np.where(trials.columns.on_cpu > 0, on_cpu, trials.accelerator)


def _fit_remainder(trials: Trials, physical: Pipeline, networks: NetworkTable) -> Remainder:
    """A ridge regression in which more of a resource never lowers the rate."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    features = remainder_features(trials.columns)
    means, scales = features.mean(axis=0), features.std(axis=0)
    varied = scales > 1e-9
    scaled = np.where(varied, (features - means) / np.where(varied, scales, 1.0), 0.0)
    # All coefficients are held positive; what is no resource comes with its negative beside it.
    signed = np.column_stack([scaled, -scaled[:, _NO_RESOURCE]])
    folds = min(FOLDS, len(signed) // 2)  # R squared of a single trial is no number
    ridge = GridSearchCV(Ridge(positive=True), {"alpha": _ALPHAS}, cv=folds)
    ridge.fit(signed, log_residuals(trials, physical, networks))
    found = ridge.best_estimator_.coef_
    coefficients = found[: len(means)].copy()
    coefficients[_NO_RESOURCE] -= found[len(means) :]
    coefficients = np.where(varied, coefficients / np.where(varied, scales, 1.0), 0.0)
    return Remainder(
        lows=tuple(features.min(axis=0).tolist()),
        highs=tuple(features.max(axis=0).tolist()),
        coefficients=tuple(coefficients.tolist()),
        intercept=float(ridge.best_estimator_.intercept_ - coefficients @ means),
    )
