"""Host, storage and join of a pipeline as a scikit-learn estimator, fitted on the trials of sweeps.

A maximum a posteriori fit of the physical form on log rates. What ships of it are its numbers, a `Pipeline`,
which answers evaluate by NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from msgspec.structs import replace
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
)

from advisor.domain import MIB, Measurement, Precision, Stage, Task
from advisor.models.bayes import Floats, half_widths
from advisor.models.performance.frames import Column, checked_frame
from advisor.models.performance.machines import (
    CONTENTION,
    SECOND_THREAD,
    SPEED,
    CoreTrials,
    Integers,
    ReferenceCpu,
)
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.physical_form import (
    TRIAL_SIGMA,
    PhysicalForm,
    Trials,
    joined_rates,
    modelled_on_cpu,
)
from advisor.models.performance.pipeline import (
    ALL_TRIALS,
    STAGES,
    TRIAL_GROUPS,
    WHOLE_EPOCH,
    CpuStep,
    Pipeline,
    PipelineColumns,
    PipelineRequest,
    pipeline_columns,
    trial_groups,
)
from advisor.models.performance.usable import measured_cpu_rate, stated_accelerator_rate

# Of a user's own machine: it may be busy, throttled, or another one than its name says.
_OWN_SPEED_SIGMA = 1.0
# How long a worker reads before it counts, where the page cache has to find its level.
_SETTLING_SECONDS = 3.0
# The standard deviation is half the width that so much of a Gaussian lies in.
_ONE_SIGMA = 0.8413
# The CPU that a measurement was made on.
CpuOf = Callable[[Measurement], ReferenceCpu]

_NUMBERS = PipelineColumns.__struct_fields__
_OF_A_CPU = {"cpu_sigma": "sigma", "cpu_architecture": "architecture", "cpu_model": "model"}
# A trial: what its columns say in which unit; those of `PipelineColumns` stand beside them.
TRIAL_COLUMNS: Mapping[str, Column] = {
    **{name: Column("float64") for name in _NUMBERS},
    "cpu": Column("int64", meaning="which of the frame's CPUs, 0 for the reference one"),
    "cpu_sigma": Column("float64", "log", "doubt of carrying its CPU's rates to another mark"),
    "cpu_architecture": Column("str"),
    "cpu_model": Column("str"),
    "network": Column("str"),
    "task": Column("str"),
    "accelerator": Column("float64", "samples/s", "the accelerator's own rate"),
    "modelled": Column("bool", meaning="that rate is what step times tell of the CPU's cores"),
    "configuration": Column("str", meaning="trials that tell of each other: one side of a split"),
    "own": Column("bool", meaning="held out in turn; all others are always fitted"),
}


class ThroughputModel(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Samples per second of trials: host, storage and bus, joined with the accelerator's own rate.

    `X` is a frame with `TRIAL_COLUMNS` (`trial_frame` makes it of measurements), `y` what was measured. With
    `calibrate`, intervals stand on what fits without a fold say of its rows, and on `residuals` of other
    rows, sorted by group. `pipeline_` is what ships."""

    def __init__(
        self,
        *,
        calibrate: bool = True,
        folds: int = 5,
        residuals: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.calibrate = calibrate
        self.folds = folds
        self.residuals = residuals

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        """A fitted estimator with this pipeline."""
        model = cls()
        model.pipeline_ = pipeline
        return model

    def fit(self, X: pd.DataFrame, y: Any, sample_weight: Any = None) -> Self:
        """Fit the physical form on all rows."""
        X = self._checked(X)
        trials, logs = trials_of(X), np.log(check_array(y, ensure_2d=False, dtype=float))
        check_consistent_length(X, logs)
        form = PhysicalForm.of(trials)
        weights = _check_sample_weight(sample_weight, X, dtype=float)
        fitted = form.pipeline(form.fitted(trials, logs, weights))
        rounded = {name: round(value, 6) for name, value in fitted.parameters.items()}
        self.pipeline_ = replace(fitted, parameters=rounded)
        if self.calibrate:
            self._calibrate(X, logs, weights, trials)
        return self

    def predict(self, X: pd.DataFrame, return_std: bool = False) -> Any:
        """Samples per second (n,); with `return_std` their standard deviations too."""
        check_is_fitted(self, "pipeline_")
        X = self._checked(X)
        trials = trials_of(X)
        # A CPU that came later is as its mark says.
        own = (f"{name}/{k}" for name in (SPEED, CONTENTION, SECOND_THREAD) for k in range(len(trials.cpus)))
        known = replace(self.pipeline_, parameters={**dict.fromkeys(own, 0.0), **self.pipeline_.parameters})
        rates, weights = joined_rates(trials, known)
        if not return_std:
            return rates
        widths = [half_widths(known.residuals, (group, ALL_TRIALS), _ONE_SIGMA) for group in TRIAL_GROUPS]
        sigmas = np.array([(width.lower + width.upper) / 2 for width in widths])
        sigmas = np.where(np.isfinite(sigmas), sigmas, TRIAL_SIGMA)
        return rates, rates * sigmas[trial_groups(weights, trials.columns)]

    def residuals_of(self, X: pd.DataFrame, y: Any) -> Floats:
        """log(observed / predicted) of each row (n,)."""
        return np.asarray(np.log(np.asarray(y, dtype=float)) - np.log(self.predict(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.target_tags.positive_only = True, True
        tags.no_validation = True
        return tags

    def _checked(self, X: pd.DataFrame) -> pd.DataFrame:
        checked = checked_frame(X, TRIAL_COLUMNS)
        self.feature_names_in_ = np.array(checked.columns, dtype=object)
        self.n_features_in_ = len(checked.columns)
        return checked

    def _calibrate(self, X: pd.DataFrame, logs: Floats, weights: Floats, trials: Trials) -> None:
        """Held-out residuals of cross-validation, in which no configuration is in two folds."""
        own, others = np.flatnonzero(X["own"]), np.flatnonzero(~X["own"])
        self.residuals_ = np.empty(len(own))
        alone = clone(self).set_params(calibrate=False)
        for kept, out in splits(X["configuration"].iloc[own], self.folds):
            rows = np.concatenate([others, own[kept]])
            alone.fit(X.iloc[rows], np.exp(logs[rows]), weights[rows])
            self.residuals_[out] = alone.residuals_of(X.iloc[own[out]], np.exp(logs[own[out]]))
        shares = joined_rates(trials, self.pipeline_)[1]
        by_group = _by_group(self.residuals_, trial_groups(shares, trials.columns)[own])
        beside = self.residuals or {}
        self.pipeline_ = replace(
            self.pipeline_,
            residuals={
                name: tuple(sorted([*each, *beside.get(name, ())])) for name, each in by_group.items()
            },
            core_trials=_core_trials(trials, self.pipeline_, shares),
        )


def trials_of(frame: pd.DataFrame) -> Trials:
    """The columns of a frame; a CPU that none of its rows ran on counts as the reference one."""
    existing = {
        int(row["cpu"]): ReferenceCpu(
            score=row["score"], **{_OF_A_CPU[name]: row[name] for name in _OF_A_CPU}
        )
        for row in frame.drop_duplicates("cpu")[["cpu", "score", *_OF_A_CPU]].to_dict("records")
    }
    first = existing[min(existing)]
    return Trials(
        PipelineColumns(**{name: frame[name].to_numpy() for name in _NUMBERS}),
        tuple(zip(frame["network"], map(Task, frame["task"]), strict=True)),
        frame["accelerator"].to_numpy(),
        frame["modelled"].to_numpy(),
        tuple(existing.get(number, first) for number in range(max(existing) + 1)),
    )


def splits(groups: Any, folds: int = 5) -> list[tuple[Integers, Integers]]:
    """Rows kept and held out in each fold; groups are never split (one group: rows are)."""
    labels = np.asarray(groups, dtype=object)
    distinct = len(set(labels.tolist()))
    if distinct < 2:
        labels, distinct = np.arange(len(labels)), len(labels)
    dealt = GroupKFold(min(folds, distinct), shuffle=True, random_state=0)
    return list(dealt.split(labels, groups=labels))


def trial_frame(
    own: Sequence[Measurement],
    networks: NetworkTable,
    cpu_of: CpuOf,
    *,
    shipped: Sequence[Measurement] = (),
    cpus: Sequence[ReferenceCpu] = (),
) -> pd.DataFrame:
    """Usable measurements (see `usable.sort_out`) as `TRIAL_COLUMNS`, and the measured `rate` in samples/s:
    those that ship, then a user's own.

    `cpus` are those that may have something of their own (none named: all that they were made on). Beside
    what ships each CPU of the user has a speed of its own, also where it is called as one that ships: what a
    busy machine does is true of it alone."""
    rows = [*shipped, *own]
    made_on = [cpu_of(row) for row in rows]
    if shipped:
        mine = made_on[len(shipped) :]
        made_on[len(shipped) :] = [replace(cpu, sigma=max(cpu.sigma, _OWN_SPEED_SIGMA)) for cpu in mine]
    parts = (range(len(shipped)), range(len(shipped), len(rows)))
    cpus = cpus or [cpu for part in parts for cpu in _in_order([(rows[k], made_on[k]) for k in part])]
    numbers = {cpu: number for number, cpu in enumerate(cpus)}
    requests = [replace(PipelineRequest.of(row.trial), epochs=_epochs_of(row)) for row in rows]
    columns = pipeline_columns(requests, networks)
    frame = pd.DataFrame({name: getattr(columns, name) for name in _NUMBERS})
    stated = [stated_accelerator_rate(row) for row in rows]
    # Over the bus to the GPU, where the trial measured it.
    copies = [row.environment.get("stage_runs", {}).get(Stage.TRANSFER.value) for row in rows]
    copied = np.array([float(copy["mib_per_second"]) * MIB if copy else np.nan for copy in copies])
    return frame.assign(
        copy_bytes_per_second=np.where(np.isnan(copied), columns.copy_bytes_per_second, copied),
        score=[cpu.score for cpu in made_on],
        cpu=[numbers.get(cpu, 0) for cpu in made_on],
        cpu_sigma=[cpu.sigma for cpu in made_on],
        cpu_architecture=[cpu.architecture for cpu in made_on],
        cpu_model=[cpu.model for cpu in made_on],
        network=[request.workload.network for request in requests],
        task=[str(request.workload.task) for request in requests],
        accelerator=[
            modelled_on_cpu(request, networks) if rate is None else rate
            for request, rate in zip(requests, stated, strict=True)
        ],
        modelled=[rate is None for rate in stated],
        configuration=[configuration(row) for row in rows],
        own=np.arange(len(rows)) >= len(shipped),
        rate=[row.throughput_samples_per_second or np.nan for row in rows],
    )


def _in_order(made_on: Sequence[tuple[Measurement, ReferenceCpu]]) -> list[ReferenceCpu]:
    """The distinct CPUs, ordered by first measurement, so that new CPUs do not renumber others."""
    first: dict[ReferenceCpu, str] = {}
    for row, cpu in made_on:
        first[cpu] = min(first.get(cpu, row.started_at), row.started_at)
    return sorted(first, key=lambda cpu: (first[cpu], cpu.model))


def configuration(measurement: Measurement) -> str:
    """A trial's workload and vCPUs; trials that differ only in disk or memory share a configuration."""
    workload = measurement.trial.workload
    data = workload.dataset
    facts = (workload.network, workload.input, workload.task, workload.batch_size, data.name, data.pixels)
    return repr((*map(str, facts), measurement.trial.resources.vcpus))


def _epochs_of(measurement: Measurement) -> tuple[float, float]:
    """Where the trial's reads that count began and ended, since its worker had read the data set once."""
    trial, rate = measurement.trial, measurement.throughput_samples_per_second
    if rate is None:
        return WHOLE_EPOCH
    steps = len(measurement.warmup_step_seconds) + len(measurement.step_seconds)
    settled = _SETTLING_SECONDS * rate if trial.overflows_memory else 0.0
    samples = trial.workload.dataset.samples
    return settled / samples, (settled + steps * trial.samples_per_step) / samples


def cpu_steps_of(
    measurements: Sequence[Measurement], networks: NetworkTable, cpus: Sequence[int]
) -> tuple[CpuStep, ...]:
    """Median fp32 step seconds on each CPU of networks with known operations; `cpus` is (n,)."""
    seconds: dict[tuple[str, str | None, Task, int, float, int], list[float]] = {}
    for measurement, cpu in zip(measurements, cpus, strict=True):
        rate, workload = measured_cpu_rate(measurement), measurement.trial.workload
        known = workload.precision is Precision.FP32 and workload.task in networks.of(workload).kernels
        if rate is not None and known:
            resources, batch = measurement.trial.resources, workload.batch_size
            cores = min(resources.vcpus, resources.physical_cores)
            key = (workload.network, workload.input, workload.task, batch, cores, cpu)
            seconds.setdefault(key, []).append(batch / rate)
    keys = sorted(seconds, key=str)
    return tuple(CpuStep(*key[:-1], float(f"{np.median(seconds[key]):.6g}"), key[-1]) for key in keys)


def _core_trials(trials: Trials, pipeline: Pipeline, shares: Floats) -> tuple[CoreTrials, ...]:
    """Evidence of the trials about each further CPU; Laplace's approximation gives the rest."""
    if not pipeline.other_cpus:
        return ()
    form = PhysicalForm.of(trials)
    standardised = (np.array([pipeline.parameters[name] for name in form.names]) - form.means) / form.sigmas
    slopes = form.slopes(trials, standardised) / TRIAL_SIGMA
    # In units of the priors' standard deviations, whose own precision is 1.
    left = np.linalg.inv(np.eye(len(standardised)) + slopes.T @ slopes)
    sigmas = dict(zip(form.names, (form.sigmas * np.sqrt(np.diag(left))).tolist(), strict=True))
    bound, columns = shares.argmax(axis=1), trials.columns
    on_network = (columns.on_cpu > 0) & (bound == STAGES.index(Stage.ACCELERATOR))
    by_cores = (bound == STAGES.index(Stage.HOST)) | on_network
    fitted = []
    for number in range(1, len(trials.cpus)):
        vcpus = columns.vcpus[by_cores & (columns.cpu == number)]
        sigma = round(sigmas[f"{SPEED}/{number}"], 6)
        fitted.append(CoreTrials(len(vcpus), float(vcpus.max(initial=0.0)), sigma))
    return tuple(fitted)


def _by_group(residuals: Floats, groups: Integers) -> dict[str, list[float]]:
    """Residuals by group, and of all trials that do not read partly from the page cache."""
    rounded = np.round(residuals, 4)
    by_group = {name: rounded[groups == i].tolist() for i, name in enumerate(TRIAL_GROUPS)}
    return {**by_group, ALL_TRIALS: rounded[groups < len(STAGES)].tolist()}


def residuals_of(
    pipeline: Pipeline, measurements: Sequence[Measurement], networks: NetworkTable, cpu_of: CpuOf
) -> Floats:
    """log(observed / predicted) of usable measurements (see `usable.sort_out`), shape (n,), each on the CPU
    of the pipeline that is called as its own: a user's own before one that ships."""
    named = {cpu.model: cpu for cpu in pipeline.cpus}

    def known(measurement: Measurement) -> ReferenceCpu:
        cpu = cpu_of(measurement)
        return named.get(cpu.model, cpu)

    rows = trial_frame(measurements, networks, known, cpus=pipeline.cpus)
    return ThroughputModel.of(pipeline).residuals_of(rows, rows["rate"])


def unseen_residuals(
    fitted_on: Sequence[Measurement],
    scored: Sequence[Measurement],
    networks: NetworkTable,
    cpu_of: CpuOf,
    shipped: Sequence[Measurement],
) -> Floats:
    """log(observed / predicted) of each `scored` measurement, shape (n,), under a fit on those `fitted_on`
    that are of other trials, beside those that ship: a measurement of the same trial on another day tells as
    much as the measurement itself.

    Trials are dealt to the same folds whatever was fitted on, so that two fits are scored alike. All
    measurements are usable ones."""
    result = np.empty(len(scored))
    for _, out in splits([row.trial.trial_id for row in scored]):
        chosen = [scored[row] for row in out.tolist()]
        held = {row.trial.trial_id for row in chosen}
        rest = [row for row in fitted_on if row.trial.trial_id not in held]
        rows = trial_frame(rest, networks, cpu_of, shipped=shipped)
        fitted = ThroughputModel(calibrate=False).fit(rows, rows["rate"])
        result[out] = residuals_of(fitted.pipeline_, chosen, networks, cpu_of)
    return result


def outside_interval(residuals: Floats, pipeline: Pipeline, confidence: float) -> int:
    """The number of logs (observed / predicted) outside the interval: 2 (1 - `confidence`) expected."""
    widths = half_widths(pipeline.residuals, (ALL_TRIALS,), confidence)
    return int(np.sum((residuals < -widths.lower) | (residuals > widths.upper)))
