"""Predictions of many workloads at once, with the error of each.

What a stage's rate may be off by moves it to its own bound, and the stages are joined again. The changes of
the joined rate add in squares, as independent errors do. Moving, instead of weighing with the derivative,
matters where two stages are close: a stage that hides behind another one today binds at its lower bound, and
a bigger machine must not have a wider interval for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import Stage
from advisor.models.bayes import Floats, gaussian_multiplier, half_widths
from advisor.models.performance.machines import (
    OTHER_ARCHITECTURE_SIGMA,
    SAME_SCORE,
    SECOND_THREAD_SIGMA,
    Columns,
    Integers,
)
from advisor.models.performance.pipeline import (
    ALL_TRIALS,
    PIPELINE_PRIORS,
    STAGES,
    TRIAL_GROUPS,
    Pipeline,
    PipelineColumns,
    exponents,
    join_logs,
    logs_by_stage,
    second_thread_cores,
    storage_rate,
    trial_groups,
)

Booleans = NDArray[np.bool_]

# Log standard deviations of what no held-out residual describes (internals/model.md); of CPUs
# and cores are `python -m benchmarks.vcpu_truth`'s.
_CPU_UNKNOWN_SIGMA = 0.30
_PER_DOUBLING_OF_VCPUS_SIGMA = 0.05
_COPY_ASSUMED_SIGMA = 0.30
# Of the exponent with which a real GPU and its host join: loaders differ.
_EXPONENT_SIGMA = PIPELINE_PRIORS["join/queue"][1]
_OTHER_FORMAT_SIGMA = 0.40
# Tokenisers and formats of tensors are the user's own; a judgement.
_READING_SIGMA = 0.40

_ACCELERATOR, _HOST, _STORAGE, _TRANSFER = 0, 1, 2, 3
# A disk's rate lies between its `low` and `high` in 9 of 10 cases: 1 in 20 lies beyond either.
_QUANTILE_OF_90 = gaussian_multiplier(0.95)
# A stage that weighs less counts for nothing; its logarithm is finite.
_LEAST_WEIGHT = 1e-12


class Estimates(Columns, frozen=True):
    """Samples per second with a one-sided bound on either side, columns of shape (n,).

    `stage_rates` and `weights` (n, 4) are in the order of `STAGES`, infinite and 0 where a request has no
    such stage; the largest weight is the bottleneck's."""

    lower: Floats
    median: Floats
    upper: Floats
    stage_rates: Floats
    weights: Floats
    calibrated: Booleans

    @property
    def bottleneck(self) -> Integers:
        """Index into `STAGES` of the stage that binds, shape (n,)."""
        return np.asarray(self.weights.argmax(axis=1))

    def bottleneck_names(self) -> list[Stage]:
        """The binding stages by name."""
        return [STAGES[stage] for stage in self.bottleneck.tolist()]


class Alone(NamedTuple):
    """Rates of GPUs, or of networks on CPUs, alone: samples per second (infinite without either), half
    widths of their logarithms, whether residuals back those, and the logs of the room below the
    hardware's peaks, each (n,)."""

    samples_per_second: Floats
    lower: Floats
    upper: Floats
    calibrated: Floats
    room: Floats


class StageErrors(Struct, frozen=True):
    """Causes of errors of each request's stages, as columns of shape (n,).

    `several` (4, n) is what several GPUs make of a rate (`ScaledRows.columns`). `other_format`: a CPU
    computes in another format than was measured. `other_architecture`: the CPU does not run the measured
    one's machine code."""

    alone: Alone
    several: Floats
    other_format: Booleans
    copy_assumed: Booleans
    other_architecture: Booleans


class Spread(Struct, frozen=True):
    """Errors of n requests, whatever their disks, at one confidence.

    `shifts` (stages, 1 + 2m, n) are moves of the stages' log rates: none, m errors down and the same m up;
    `by_group` (groups, 3) holds the half widths of `TRIAL_GROUPS` and whether residuals back them;
    `calibrated` (n,) says whether they back the accelerator; `quantile` is the confidence's standard normal
    one; `log_most` (n,) is what no rate passes."""

    shifts: Floats
    by_group: Floats
    calibrated: Booleans
    quantile: float
    log_most: Floats

    def take(self, rows: NDArray[np.intp]) -> Spread:
        """Those of some requests."""
        log_most, calibrated = self.log_most[rows], self.calibrated[rows]
        return replace(self, shifts=self.shifts[:, :, rows], calibrated=calibrated, log_most=log_most)

    def beside(self, other: Spread) -> Spread:
        """These requests, then those of another one of the same confidence."""
        return replace(
            self,
            shifts=np.concatenate([self.shifts, other.shifts], axis=2),
            calibrated=np.concatenate([self.calibrated, other.calibrated]),
            log_most=np.concatenate([self.log_most, other.log_most]),
        )


def spread_of(columns: PipelineColumns, errors: StageErrors, pipeline: Pipeline, confidence: float) -> Spread:
    """Spread of stages and of whole trials; that of disks comes with the disk."""
    speed_up, _, scaling_upper, scaling_calibrated = errors.several
    alone = errors.alone
    result = [half_widths(pipeline.residuals, (group, ALL_TRIALS), confidence) for group in TRIAL_GROUPS]
    z = gaussian_multiplier(confidence)
    return Spread(
        shifts=_shifts(columns, errors, pipeline, z),
        by_group=np.array(result, dtype=float),
        calibrated=alone.calibrated * scaling_calibrated > 0,
        quantile=z,
        log_most=np.log(alone.samples_per_second * speed_up) + alone.room + scaling_upper,
    )


def estimates(columns: PipelineColumns, rates: Floats, spread: Spread, pipeline: Pipeline) -> Estimates:
    """Join the stages' `rates` (n, 4), with the interval around the join."""
    shifts = _with_disk_moves(columns, rates, spread, pipeline)
    logs, weights = _joined(columns, rates, shifts, pipeline)
    below, above, calibrated = spread.by_group[trial_groups(weights.T, columns)].T
    many = len(logs) // 2
    moved = (logs[1:] - logs[0]) ** 2
    log_rate = np.minimum(logs[0], spread.log_most)
    knee = _knee(columns, weights, spread, pipeline) ** 2
    lower = np.sqrt(below**2 + knee + moved[:many].sum(axis=0))
    upper = np.sqrt(above**2 + knee + moved[many:].sum(axis=0))
    return Estimates(
        lower=np.exp(log_rate - lower),
        median=np.exp(log_rate),
        upper=np.exp(log_rate + np.minimum(upper, spread.log_most - log_rate)),
        stage_rates=rates,
        weights=weights.T,
        calibrated=(calibrated > 0) & spread.calibrated,
    )


def _with_disk_moves(columns: PipelineColumns, rates: Floats, spread: Spread, pipeline: Pipeline) -> Floats:
    """Moves of the stages with those of disks whose rate is known from `disk_low` to `disk_high` only: what
    of the data set lies in the page cache is read as before."""
    if not (np.any(columns.disk_low < 1) or np.any(columns.disk_high > 1)):
        return spread.shifts
    many = spread.shifts.shape[1] // 2
    reach = spread.quantile / _QUANTILE_OF_90
    parts = [spread.shifts[:, : 1 + many], spread.shifts[:, 1 + many :]]
    for number, factor in enumerate((columns.disk_low, columns.disk_high)):
        disks = columns.with_disks_times(factor**reach)
        move = np.zeros((len(STAGES), 1, len(rates)))
        move[_STORAGE, 0] = np.log(storage_rate(disks, pipeline.parameters) / rates[:, _STORAGE])
        parts[number] = np.concatenate([parts[number], move], axis=1)
    return np.concatenate(parts, axis=1)


def _knee(columns: PipelineColumns, weights: Floats, spread: Spread, pipeline: Pipeline) -> Floats:
    """The effect of the exponent's error on the joined log rate, (n,): d log R / d log exponent is the
    entropy of the stages' weights over the exponent, largest where two stages are equally fast."""
    beside_gpu = columns.batches_ahead > 0
    if not beside_gpu.any():
        return np.zeros(len(beside_gpu))
    gamma = exponents(columns.training, columns.batches_ahead, pipeline.parameters)
    entropy = -(weights * np.log(np.maximum(weights, _LEAST_WEIGHT))).sum(axis=0)
    width = _EXPONENT_SIGMA * spread.quantile
    return np.asarray(beside_gpu * width * entropy / gamma)


def _joined(
    columns: PipelineColumns, rates: Floats, shifts: Floats, pipeline: Pipeline
) -> tuple[Floats, Floats]:
    """Joined logarithms (1 + m, n) under shifts (stages, 1 + m, n) of which the first is none, and
    weights (stages, n) of that; all at once, since few rows take as long as many."""
    logs = logs_by_stage(rates)[:, None] + shifts
    joined, weights = join_logs(columns, logs, pipeline.parameters)
    return joined, weights[:, 0]


def _shifts(columns: PipelineColumns, errors: StageErrors, pipeline: Pipeline, z: float) -> Floats:
    """Each error as one move down and one up, in log rate (`Spread.shifts`): of the cores, of the accelerator
    where it does not run on them, and of the copies.

    What one stage may be off by for several reasons is added before it is joined: each reason by itself could
    hide behind another stage that is close, and a slower disk would have a narrower interval."""
    cores = z * _core_sigma(columns, errors, pipeline)
    # What second threads add moves the host's log rate by the part of the cores that they are.
    added = second_thread_cores(columns, pipeline.parameters)
    host = np.hypot(cores, z * (SECOND_THREAD_SIGMA * added / (columns.cores + added)))
    other_format = np.asarray(z * _OTHER_FORMAT_SIGMA * errors.other_format, dtype=float)
    lower = _added(other_format, errors.alone.lower, errors.several[1])
    upper = _added(other_format, errors.alone.upper, errors.several[2])
    on_cpu = columns.on_cpu > 0
    shifts = np.zeros((len(STAGES), 7, len(on_cpu)))
    for sign, first, width in ((-1, 1, lower), (1, 4, upper)):
        shifts[_HOST, first] = sign * host
        # A network on the CPU runs on the same cores: both are wrong together.
        shifts[_ACCELERATOR, first] = np.where(on_cpu, sign * np.hypot(cores, width), 0.0)
        shifts[_ACCELERATOR, first + 1] = np.where(on_cpu, 0.0, sign * width)
        shifts[_TRANSFER, first + 2] = sign * (z * _COPY_ASSUMED_SIGMA * errors.copy_assumed)
    return shifts


def _added(*widths: Floats) -> Floats:
    return np.asarray(np.sqrt(sum(width**2 for width in widths)))


def _core_sigma(columns: PipelineColumns, errors: StageErrors, pipeline: Pipeline) -> Floats:
    """Log standard deviation of a core's speed and of how many cores scale, shape (n,)."""
    reference, other = pipeline.reference, errors.other_architecture
    cpu = np.where(np.isnan(columns.score), _CPU_UNKNOWN_SIGMA, reference.sigma)
    cpu = np.where(np.abs(columns.score / reference.score - 1) < SAME_SCORE, 0.0, cpu)
    cpu = np.where(other, np.maximum(cpu, OTHER_ARCHITECTURE_SIGMA), cpu)
    carried = _with_scaling(cpu, np.array(pipeline.largest_vcpus), columns)
    if not (pipeline.core_trials and columns.cpu.any()):
        return carried
    # The reference CPU, and any that is carried by its mark, have no trials of their own.
    largest = np.array([1.0, *(max(1.0, trials.largest_vcpus) for trials in pipeline.core_trials)])
    sigma = np.array([np.inf, *(trials.speed_sigma for trials in pipeline.core_trials)])
    own = _with_scaling(sigma[columns.cpu], largest[columns.cpu], columns)
    # On more vCPUs than its trials had, no CPU is less sure than one that has none.
    return np.minimum(carried, own)


def _with_scaling(sigma: Floats, largest_vcpus: Floats, columns: PipelineColumns) -> Floats:
    """The doubt on a core's speed with that on its work, and on more vCPUs than were measured."""
    cpu = np.hypot(sigma, _READING_SIGMA * (columns.reading_seconds > 0))
    doublings = np.maximum(0.0, np.log2(columns.vcpus / largest_vcpus))
    return np.asarray(np.hypot(cpu, _PER_DOUBLING_OF_VCPUS_SIGMA * doublings))
