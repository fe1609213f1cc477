"""Predictions of many workloads at once, with the error of each.

Each error moves a stage's rate to that error's bound, and the stages are joined again. The resulting changes
of the joined rate add in squares, as independent errors do. Derivatives would not do where two stages are
close: a stage that does not bind at its median may bind at its lower bound, and a bigger machine must not
get a wider interval because of that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

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

# Log standard deviations of errors that no held-out residual describes (internals/model.md); those of
# CPUs and cores come from `python -m benchmarks.vcpu_truth`.
_CPU_UNKNOWN_SIGMA = 0.30
_PER_DOUBLING_OF_VCPUS_SIGMA = 0.05
_COPY_ASSUMED_SIGMA = 0.30
# Of the exponent that joins a real GPU with its host, since data loaders differ.
_EXPONENT_SIGMA = PIPELINE_PRIORS["join/queue"][1]
_OTHER_FORMAT_SIGMA = 0.40
# Users have their own tokenisers and tensor formats; this number is a judgement.
_READING_SIGMA = 0.40

_ACCELERATOR, _HOST, _STORAGE, _TRANSFER = 0, 1, 2, 3
# A disk's rate lies between its `low` and `high` in 9 of 10 cases: 1 in 20 lies beyond each of them.
_QUANTILE_OF_90 = gaussian_multiplier(0.95)
# Smaller weights of stages are raised to this, so that their logarithms are finite.
_LEAST_WEIGHT = 1e-12


class Estimates(Columns, frozen=True):
    """Samples per second with a one-sided bound on either side, columns of shape (n,).

    `stage_rates` and `weights` (n, 4) are in the order of `STAGES`; where a request lacks a stage, its rate
    is infinite and its weight 0. The stage of the largest weight is the bottleneck."""

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


class Alone(NamedTuple):
    """Rates of the network alone, on GPUs or CPUs, as columns (n,): samples per second (infinite without a
    network), half widths of their logarithms, whether residuals back those, and the log of the hardware's
    peak rate over the rate."""

    samples_per_second: Floats
    lower: Floats
    upper: Floats
    calibrated: Floats
    room: Floats


class StageErrors(Struct, frozen=True):
    """Causes of errors in the rates of each request's stages, as columns of shape (n,).

    `several` (4, n) is the effect of using several GPUs (`ScaledRows.columns`). `other_format`: a CPU
    computes in a format that was not measured. `other_architecture`: the CPU has another instruction set
    than the measured one."""

    alone: Alone
    several: Floats
    other_format: Booleans
    copy_assumed: Booleans
    other_architecture: Booleans


class Spread(Struct, frozen=True):
    """Errors of n requests at one confidence, without those of disks.

    `shifts` (stages, 1 + 2m, n) are moves of the stages' log rates: none, m errors down and the same m up.
    `by_group` (groups, 3) holds the half widths of `TRIAL_GROUPS` and whether residuals back them;
    `calibrated` (n,) says whether residuals back the accelerator's. `quantile` is the standard normal
    quantile of the confidence; `log_most` (n,) is the log of a rate that none exceeds."""

    shifts: Floats
    by_group: Floats
    calibrated: Booleans
    quantile: float
    log_most: Floats

    def take(self, rows: NDArray[np.intp]) -> Spread:
        """The errors of some of the requests, by their numbers."""
        log_most, calibrated = self.log_most[rows], self.calibrated[rows]
        return replace(self, shifts=self.shifts[:, :, rows], calibrated=calibrated, log_most=log_most)

    def beside(self, other: Spread) -> Spread:
        """The errors of these requests, followed by those of `other`, which has the same confidence."""
        return replace(
            self,
            shifts=np.concatenate([self.shifts, other.shifts], axis=2),
            calibrated=np.concatenate([self.calibrated, other.calibrated]),
            log_most=np.concatenate([self.log_most, other.log_most]),
        )


def spread_of(columns: PipelineColumns, errors: StageErrors, pipeline: Pipeline, confidence: float) -> Spread:
    """The errors of stages and of whole trials; `estimates` adds those of disks."""
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
    # One call for all moves, the first of which is none, since few rows take as long as many.
    logs, each = join_logs(columns, logs_by_stage(rates)[:, None] + shifts, pipeline.parameters)
    weights = each[:, 0]
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
    """The moves of the stages, plus one for disks whose rate is only known to lie from `disk_low` to
    `disk_high`. The page cache's part of the reads is not affected."""
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
    """The effect (n,) of the exponent's error on the joined log rate. d log R / d log exponent is the
    entropy of the stages' weights divided by the exponent: largest where two stages are equally fast."""
    beside_gpu = columns.batches_ahead > 0
    if not beside_gpu.any():
        return np.zeros(len(beside_gpu))
    gamma = exponents(columns.training, columns.batches_ahead, pipeline.parameters)
    entropy = -(weights * np.log(np.maximum(weights, _LEAST_WEIGHT))).sum(axis=0)
    width = _EXPONENT_SIGMA * spread.quantile
    return np.asarray(beside_gpu * width * entropy / gamma)


def _shifts(columns: PipelineColumns, errors: StageErrors, pipeline: Pipeline, z: float) -> Floats:
    """Each error as one move down and one up in log rate (`Spread.shifts`): the cores' error, the
    accelerator's where it is not the cores, and the copies'.

    Several errors of one stage are added before stages are joined: one by one they could hide behind another
    stage that is nearly as slow, and a slower disk would get a narrower interval."""
    cores = z * _core_sigma(columns, errors, pipeline)
    # An error in the gain of second threads moves the host's log rate by their share of the useful cores.
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
    """Log standard deviation of a core's speed and of scaling over cores together, shape (n,)."""
    reference, other = pipeline.reference, errors.other_architecture
    cpu = np.where(np.isnan(columns.score), _CPU_UNKNOWN_SIGMA, reference.sigma)
    cpu = np.where(np.abs(columns.score / reference.score - 1) < SAME_SCORE, 0.0, cpu)
    cpu = np.where(other, np.maximum(cpu, OTHER_ARCHITECTURE_SIGMA), cpu)
    carried = _with_scaling(cpu, np.array(pipeline.largest_vcpus), columns)
    if not (pipeline.core_trials and columns.cpu.any()):
        return carried
    # Index 0 is the reference CPU, and any CPU whose speed is inferred from its mark.
    largest = np.array([1.0, *(max(1.0, trials.largest_vcpus) for trials in pipeline.core_trials)])
    sigma = np.array([np.inf, *(trials.speed_sigma for trials in pipeline.core_trials)])
    own = _with_scaling(sigma[columns.cpu], largest[columns.cpu], columns)
    # A CPU with trials is never less certain than one without, even on more vCPUs than its trials had.
    return np.minimum(carried, own)


def _with_scaling(sigma: Floats, largest_vcpus: Floats, columns: PipelineColumns) -> Floats:
    """`sigma` of a core's speed, widened for data that is no image and for more vCPUs than were measured."""
    cpu = np.hypot(sigma, _READING_SIGMA * (columns.reading_seconds > 0))
    doublings = np.maximum(0.0, np.log2(columns.vcpus / largest_vcpus))
    return np.asarray(np.hypot(cpu, _PER_DOUBLING_OF_VCPUS_SIGMA * doublings))
