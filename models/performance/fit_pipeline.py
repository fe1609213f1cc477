"""Fits host, storage and join parameters on the trials of sweeps.

A maximum a posteriori fit of the physical form on log rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import MIB, Measurement, Precision, Stage, Task
from advisor.models.bayes import Floats, Rows, half_widths, held_out
from advisor.models.performance.join import GAMMA_RANGE
from advisor.models.performance.machines import SPEED, CoreTrials, Integers, ReferenceCpu
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.on_cpu import published_on_cpu, speed_of
from advisor.models.performance.pipeline import (
    ALL_TRIALS,
    PIPELINE_PRIORS,
    STAGES,
    WHOLE_EPOCH,
    CpuStep,
    Pipeline,
    PipelineColumns,
    PipelineRequest,
    pipeline_columns,
    trial_group,
)
from advisor.models.performance.usable import measured_cpu_rate, stated_accelerator_rate

FOLDS = 5
# Scatter of a trial's rate on a shared machine; residuals are counted in it.
_TRIAL_SIGMA = 0.06
# In standard deviations of a prior.
_SLOPE_STEP = 1e-3
# Decoders share little, and the prior knows; a pipeline behind a lock or one reader shares much.
_STRAYING = ("host/contention",)
# What a network that nobody measured on this CPU may differ by from what step times tell.
_CPU_NETWORK_SIGMA = 0.5
# Of a user's own machine: it may be busy, throttled, or another one than its name says.
_OWN_SPEED_SIGMA = 1.0
# How long a worker reads before it counts, where the page cache has to find its level.
_SETTLING_SECONDS = 3.0
# The CPU that a measurement was made on.
CpuOf = Callable[[Measurement], ReferenceCpu]


class Trials(Struct, frozen=True):
    """Trials as columns with what was observed, all of shape (n,).

    `accelerator` is its rate alone. Where `modelled`, a network on the CPU was not measured: it is what step
    times tell of such cores at their own CPU's mark. `cpus` are those they ran on, the reference one first.
    """

    columns: PipelineColumns
    cells: tuple[tuple[str, Task], ...]
    accelerator: Floats
    log_rate: Floats
    modelled: NDArray[np.bool_]
    cpus: tuple[ReferenceCpu, ...]

    def take(self, chosen: NDArray[np.bool_]) -> Trials:
        """The trials where `chosen` (n,) is true."""
        return Trials(
            self.columns.take(chosen),
            tuple(cell for cell, keep in zip(self.cells, chosen, strict=True) if keep),
            self.accelerator[chosen],
            self.log_rate[chosen],
            self.modelled[chosen],
            self.cpus,
        )


class PhysicalForm(Struct, frozen=True):
    """Parameters `names` (p,) with their priors; each network that a CPU computes and nobody
    measured there has one of its own."""

    names: tuple[str, ...]
    means: Floats
    sigmas: Floats
    cpus: tuple[ReferenceCpu, ...]
    largest_vcpus: float

    @classmethod
    def of(cls, trials: Trials) -> PhysicalForm:
        """The form with all parameters that these trials touch: each network that is modelled and
        each CPU but the reference one has its own."""
        priors = dict(PIPELINE_PRIORS)
        for (network, task), entry in zip(trials.cells, trials.modelled, strict=True):
            if entry:
                priors[_own(f"{network}/{task}")] = (0.0, _CPU_NETWORK_SIGMA)
        reference, *others = trials.cpus
        for number, cpu in enumerate(others, 1):
            priors |= reference.priors_of(cpu, number)
        means, sigmas = (np.array(column) for column in zip(*priors.values(), strict=True))
        on_reference = trials.columns.vcpus[trials.columns.cpu == 0]
        return cls(tuple(priors), means, sigmas, trials.cpus, float(on_reference.max(initial=0.0)))

    def pipeline(self, units: Floats) -> Pipeline:
        """The form with parameters `units` (p,) standard deviations from their priors' means."""
        values = (self.means + self.sigmas * units).tolist()
        return Pipeline(
            parameters=dict(zip(self.names, values, strict=True)),
            reference=self.cpus[0],
            largest_vcpus=self.largest_vcpus,
            residuals={},
            other_cpus=self.cpus[1:],
        )


def cpus_of(measurements: Sequence[Measurement], cpu_of: CpuOf) -> tuple[ReferenceCpu, ...]:
    """Those the measurements were made on, the one of the earliest of them first: more rows of another CPU
    must not change what all others are told by."""
    first: dict[ReferenceCpu, str] = {}
    for row in measurements:
        cpu = cpu_of(row)
        first[cpu] = min(first.get(cpu, row.started_at), row.started_at)
    return tuple(sorted(first, key=lambda cpu: (first[cpu], cpu.model)))


def trials_beside(
    shipped: Sequence[Measurement], own: Sequence[Measurement], networks: NetworkTable, cpu_of: CpuOf
) -> Trials:
    """Columns of usable measurements: those that ship, then a user's own. Each CPU of the latter has a speed
    of its own, also where it is called as one that ships: what a busy machine does is true of it alone."""
    if not shipped:
        return trials_of(own, networks, cpu_of)
    mine = set(map(id, own))

    def named(measurement: Measurement) -> ReferenceCpu:
        cpu = cpu_of(measurement)
        return replace(cpu, sigma=max(cpu.sigma, _OWN_SPEED_SIGMA)) if id(measurement) in mine else cpu

    cpus = (*cpus_of(shipped, cpu_of), *cpus_of(own, named))
    return trials_of([*shipped, *own], networks, named, cpus)


def trials_of(
    measurements: Sequence[Measurement],
    networks: NetworkTable,
    cpu_of: CpuOf,
    cpus: tuple[ReferenceCpu, ...] = (),
) -> Trials:
    """Columns of usable measurements, see `usable.sort_out`. `cpus` are those that may have
    something of their own (none named: all that they were made on)."""
    cpus = cpus or cpus_of(measurements, cpu_of)
    made_on = [cpu_of(measurement) for measurement in measurements]
    numbers = {cpu: number for number, cpu in enumerate(cpus)}
    rows = [replace(PipelineRequest.of(row.trial), epochs=_epochs_of(row)) for row in measurements]
    existing = [stated_accelerator_rate(measurement) for measurement in measurements]
    columns = pipeline_columns(rows, networks)
    copied = np.array([_copied_bytes(measurement) for measurement in measurements])
    measured = np.where(np.isnan(copied), columns.copy_bytes_per_second, copied)
    return Trials(
        columns=replace(
            columns,
            copy_bytes_per_second=measured,
            score=np.array([cpu.score for cpu in made_on]),
            cpu=np.array([numbers.get(cpu, 0) for cpu in made_on], dtype=np.intp),
        ),
        cells=tuple((row.workload.network, row.workload.task) for row in rows),
        accelerator=np.array(
            [
                modelled_on_cpu(row, networks) if rate is None else rate
                for row, rate in zip(rows, existing, strict=True)
            ]
        ),
        log_rate=np.log([m.throughput_samples_per_second or np.nan for m in measurements]),
        modelled=np.array([rate is None for rate in existing], dtype=bool),
        cpus=cpus,
    )


def _epochs_of(measurement: Measurement) -> tuple[float, float]:
    """Where the trial's reads that count began and ended, since its worker had read the data set once."""
    trial, rate = measurement.trial, measurement.throughput_samples_per_second
    if rate is None:
        return WHOLE_EPOCH
    steps = len(measurement.warmup_step_seconds) + len(measurement.step_seconds)
    settled = _SETTLING_SECONDS * rate if trial.overflows_memory else 0.0
    samples = trial.workload.dataset.samples
    return settled / samples, (settled + steps * trial.samples_per_step) / samples


def modelled_on_cpu(request: PipelineRequest, networks: NetworkTable) -> float:
    """The rate that step times give the network alone on such cores, at their own CPU's mark."""
    workload = request.workload
    return published_on_cpu(workload, networks.of(workload), request.resources)


def cpu_steps_of(
    measurements: Sequence[Measurement], networks: NetworkTable, trials: Trials
) -> tuple[CpuStep, ...]:
    """Median fp32 step seconds on each CPU of networks whose operations are known."""
    result: dict[tuple[str, str | None, Task, int, float, int], list[float]] = {}
    for measurement, cpu in zip(measurements, trials.columns.cpu.tolist(), strict=True):
        rate, workload = measured_cpu_rate(measurement), measurement.trial.workload
        if rate is None or workload.precision is not Precision.FP32:
            continue
        if workload.task in networks.of(workload).kernels:
            resources = measurement.trial.resources
            cores = min(resources.vcpus, resources.physical_cores)
            batch_size = workload.batch_size
            key = (workload.network, workload.input, workload.task, batch_size, cores, cpu)
            result.setdefault(key, []).append(workload.batch_size / rate)
    keys = sorted(result, key=str)
    return tuple(CpuStep(*key[:-1], float(f"{np.median(result[key]):.6g}"), key[-1]) for key in keys)


def _copied_bytes(measurement: Measurement) -> float:
    """Bytes per second over the bus to the GPU, where the trial measured them; else nan."""
    runs = measurement.environment.get("stage_runs", {})
    copies = runs.get(Stage.TRANSFER.value)
    return float(copies["mib_per_second"]) * MIB if copies else np.nan


def fit_pipeline(trials: Trials) -> Pipeline:
    """The physical parameters; no residuals."""
    form = PhysicalForm.of(trials)
    fitted = form.pipeline(fit_units(form, trials))
    rounded = {name: round(value, 6) for name, value in fitted.parameters.items()}
    return replace(fitted, parameters=rounded)


def log_residuals(trials: Trials, pipeline: Pipeline) -> Floats:
    """log(observed / predicted) of each trial."""
    joined, _ = joined_rates(trials, pipeline)
    residuals: Floats = trials.log_rate - np.log(joined)
    return residuals


def folds_of(groups: Sequence[str]) -> Integers:
    """The fold of each row (n,): groups are dealt out in an order shuffled with a fixed seed, so that no
    group is on both sides."""
    names = sorted(set(groups))
    dealt = np.random.default_rng(0).permutation(len(names)) % FOLDS
    fold_of = dict(zip(names, dealt.tolist(), strict=True))
    return np.array([fold_of[group] for group in groups], dtype=np.intp)


def configuration(measurement: Measurement) -> str:
    """What a trial ran on how many vCPUs: its repeats, and other disks and memory sizes, tell nearly as much
    of it as the trial itself."""
    workload = measurement.trial.workload
    data = workload.dataset
    facts = (workload.network, workload.input, workload.task, workload.batch_size, data.name, data.pixels)
    return repr((*map(str, facts), measurement.trial.resources.vcpus))


def held_out_residuals(trials: Trials, folds: Integers) -> Floats:
    """The residual of each of the last trials under a fit without those of its fold, shape (m,); `folds` (m,)
    are those of the last m trials, all others are always fitted."""
    others = np.zeros(len(trials.log_rate) - len(folds), dtype=bool)

    def residuals_without(out: Rows) -> Floats:
        rows = np.concatenate([others, out])
        return log_residuals(trials.take(rows), fit_pipeline(trials.take(~rows)))

    return held_out(folds, residuals_without)


def fit_and_calibrate(
    trials: Trials, folds: Integers, calibrated: Mapping[str, Sequence[float]] = MappingProxyType({})
) -> tuple[Pipeline, Floats]:
    """The fit on all trials, and the held-out residual of each of the last ones, whose `folds` these are;
    intervals stand on these residuals and on those that are `calibrated` already."""
    residuals = held_out_residuals(trials, folds)
    pipeline = fit_pipeline(trials)
    weights = joined_rates(trials, pipeline)[1]
    own = _by_stage(residuals, weights[len(weights) - len(folds) :])
    fitted = replace(
        pipeline,
        residuals={name: tuple(sorted([*values, *calibrated.get(name, ())])) for name, values in own.items()},
        core_trials=_core_trials(trials, pipeline, weights),
    )
    return fitted, residuals


def _core_trials(trials: Trials, pipeline: Pipeline, weights: Floats) -> tuple[CoreTrials, ...]:
    """The evidence of the trials about each CPU but the reference one."""
    if not pipeline.other_cpus:
        return ()
    bound, columns = weights.argmax(axis=1), trials.columns
    on_network = (columns.on_cpu > 0) & (bound == STAGES.index(Stage.ACCELERATOR))
    by_cores = (bound == STAGES.index(Stage.HOST)) | on_network
    sigmas = _posterior_sigmas(trials, pipeline)
    fitted = []
    for number in range(1, len(trials.cpus)):
        vcpus = columns.vcpus[by_cores & (columns.cpu == number)]
        sigma = round(sigmas[f"{SPEED}/{number}"], 6)
        fitted.append(CoreTrials(len(vcpus), float(vcpus.max(initial=0.0)), sigma))
    return tuple(fitted)


def _posterior_sigmas(trials: Trials, pipeline: Pipeline) -> dict[str, float]:
    """The standard deviation that is left of each parameter (Laplace's approximation)."""
    form = PhysicalForm.of(trials)
    standardised = (np.array([pipeline.parameters[name] for name in form.names]) - form.means) / form.sigmas
    slopes = []
    for move in _SLOPE_STEP * np.eye(len(standardised)):
        up, down = (log_residuals(trials, form.pipeline(standardised + m)) for m in (move, -move))
        slopes.append((up - down) / (2 * _SLOPE_STEP * _TRIAL_SIGMA))
    # In units of the priors' standard deviations, whose own precision is 1.
    precision = np.eye(len(standardised)) + np.array(slopes) @ np.array(slopes).T
    left = form.sigmas * np.sqrt(np.diag(np.linalg.inv(precision)))
    return dict(zip(form.names, left.tolist(), strict=True))


def _by_stage(residuals: Floats, weights: Floats) -> dict[str, tuple[float, ...]]:
    """Sorted residuals of the trials that each stage bound, and of all."""
    rounded, bound = np.round(residuals, 4), weights.argmax(axis=1)
    groups = {trial_group(stage): rounded[bound == i] for i, stage in enumerate(STAGES)}
    groups[ALL_TRIALS] = rounded
    return {name: tuple(np.sort(values).tolist()) for name, values in groups.items()}


def joined_rates(trials: Trials, pipeline: Pipeline) -> tuple[Floats, Floats]:
    """Predicted rates (n,) and stage weights (n, 4)."""
    accelerator = _accelerator(trials, pipeline)
    return pipeline.join(trials.columns, pipeline.stage_rates(trials.columns, accelerator))


def fit_units(form: PhysicalForm, trials: Trials) -> Floats:
    """The likeliest parameters (p,), in standard deviations from their priors' means."""
    from scipy.optimize import least_squares

    def residuals(units: Floats) -> Floats:
        fitted = form.pipeline(units)
        data = log_residuals(trials, fitted) / _TRIAL_SIGMA
        own = np.where(strays, _heavy_tailed(units), units)
        return np.concatenate([_soft(data), own])

    strays = np.array([name in _STRAYING for name in form.names])
    lower, upper = np.full(len(form.names), -8.0), np.full(len(form.names), 8.0)
    gamma = form.names.index("join/gamma")
    lower[gamma], upper[gamma] = (np.log(GAMMA_RANGE) - form.means[gamma]) / form.sigmas[gamma]
    start = np.zeros(len(form.names))
    units: Floats = least_squares(residuals, start, bounds=(lower, upper), max_nfev=50).x
    return units


def _soft(residuals: Floats) -> Floats:
    """Residuals whose squares are the soft-L1 loss, so that one bad trial bends little."""
    soft: Floats = np.sign(residuals) * np.sqrt(8 * (np.sqrt(1 + residuals**2 / 4) - 1))
    return soft


def _heavy_tailed(units: Floats) -> Floats:
    """Residuals whose squares are the loss of Student's t of two degrees of freedom."""
    heavy: Floats = np.sign(units) * np.sqrt(2 * np.log1p(units**2 / 2))
    return heavy


def _accelerator(trials: Trials, pipeline: Pipeline) -> Floats:
    if not trials.modelled.any():
        return trials.accelerator
    speed = speed_of(trials.columns.score, pipeline)
    own = [pipeline.parameters.get(_own(f"{name}/{task}"), 0.0) for name, task in trials.cells]
    return np.asarray(trials.accelerator * np.where(trials.modelled, speed * np.exp(own), 1.0))


def _own(key: str) -> str:
    """The parameter that says what a network ("resnet50/training") differs by on this CPU."""
    return f"cpu/own/{key}"


def residuals_of(
    pipeline: Pipeline, measurements: Sequence[Measurement], networks: NetworkTable, cpu_of: CpuOf
) -> Floats:
    """log(observed / predicted) of usable measurements (see `usable.sort_out`), shape (n,), each on the CPU
    of the pipeline that is called as its own: a user's own before one that ships."""
    named = {cpu.model: cpu for cpu in pipeline.cpus}

    def known(measurement: Measurement) -> ReferenceCpu:
        cpu = cpu_of(measurement)
        return named.get(cpu.model, cpu)

    return log_residuals(trials_of(measurements, networks, known, pipeline.cpus), pipeline)


def unseen_residuals(
    fitted_on: Sequence[Measurement],
    scored: Sequence[Measurement],
    networks: NetworkTable,
    cpu_of: CpuOf,
    shipped: Sequence[Measurement] = (),
) -> Floats:
    """log(observed / predicted) of each `scored` measurement, shape (n,), under a fit on those
    `fitted_on` that are of other trials, beside those that ship: a measurement of the same trial on another
    day tells as much as the measurement itself.

    Trials are dealt to the same folds whatever was fitted on, so that two fits are scored alike.
    All measurements are usable ones.
    """
    names = [row.trial.trial_id for row in scored]

    def residuals_without(out: Rows) -> Floats:
        chosen = [row for row, is_out in zip(scored, out, strict=True) if is_out]
        held = {row.trial.trial_id for row in chosen}
        rest = [row for row in fitted_on if row.trial.trial_id not in held]
        fitted = fit_pipeline(trials_beside(shipped, rest, networks, cpu_of))
        return residuals_of(fitted, chosen, networks, cpu_of)

    return held_out(folds_of(names), residuals_without)


def outside_interval(residuals: Floats, pipeline: Pipeline, confidence: float) -> int:
    """The number of these log(observed / predicted) outside the model's interval; 2 (1 - `confidence`) of
    them are expected there by chance."""
    widths = half_widths(pipeline.residuals, (ALL_TRIALS,), confidence)
    return int(np.sum((residuals < -widths.lower) | (residuals > widths.upper)))
