"""Predictions of many workloads at once, with the error of each.

Each error moves a stage's rate to that error's bound, and the stages are joined again. The resulting changes
of the joined rate add in squares, as independent errors do. Derivatives would not do where two stages are
close: a stage that does not bind at its median may bind at its lower bound, and a bigger machine must not
get a wider interval because of that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models.bayes import Floats, gaussian_multiplier, half_widths
from advisor.models.performance.machines import (
    OTHER_ARCHITECTURE_SIGMA,
    SAME_SCORE,
    SECOND_THREAD_SIGMA,
    Columns,
    Integers,
    ResourceTable,
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


class Alone(Columns, frozen=True):
    """Rates of the network alone, on GPUs or CPUs, as columns (n,): samples per second (infinite without a
    network), half widths of their logarithms, whether residuals back those, and the log of the hardware's
    peak rate over the rate."""

    samples_per_second: Floats
    lower: Floats
    upper: Floats
    calibrated: Floats
    room: Floats


class Spread(Columns, frozen=True):
    """Errors of n requests at one confidence, without those of disks: half widths of the stages' log rates,
    as columns (n,).

    `lower` and `upper` are those of the accelerator, with the cores' where the network runs on them.
    `calibrated` says whether residuals back these; `log_most` is the log of a rate that none exceeds."""

    host: Floats
    lower: Floats
    upper: Floats
    transfer: Floats
    calibrated: Booleans
    log_most: Floats


def spread_of(
    columns: PipelineColumns,
    alone: Alone,
    scaled: Floats,
    machines: ResourceTable,
    other_format: Booleans,
    pipeline: Pipeline,
    confidence: float,
) -> Spread:
    """The errors of stages; `estimates` adds those of disks and of whole trials. `scaled` (4, n) is the
    effect of several GPUs (`scaling.scaled_rows`); `other_format` (n,): a CPU computes in a format that was
    not measured.

    Several errors of one stage are added before stages are joined: one by one they could hide behind another
    stage that is nearly as slow, and a slower disk would get a narrower interval."""
    z = gaussian_multiplier(confidence)
    speed_up, scaled_lower, scaled_upper, scaled_calibrated = scaled
    cores = z * _core_sigma(columns, machines, pipeline)
    # An error in the gain of second threads moves the host's log rate by their share of the useful cores.
    added = second_thread_cores(columns, pipeline.parameters)
    # A network on the CPU runs on the same cores: both are wrong together.
    shared = _added(np.where(columns.on_cpu > 0, cores, 0.0), z * _OTHER_FORMAT_SIGMA * other_format)
    return Spread(
        host=np.hypot(cores, z * (SECOND_THREAD_SIGMA * added / (columns.cores + added))),
        lower=_added(alone.lower, scaled_lower, shared),
        upper=_added(alone.upper, scaled_upper, shared),
        transfer=z * _COPY_ASSUMED_SIGMA * np.isnan(machines.host_to_gpu_gb_per_second),
        calibrated=alone.calibrated * scaled_calibrated > 0,
        log_most=np.log(alone.samples_per_second * speed_up) + alone.room + scaled_upper,
    )


def estimates(
    columns: PipelineColumns, rates: Floats, spread: Spread, pipeline: Pipeline, confidence: float
) -> Estimates:
    """Join the stages' `rates` (n, 4), with the interval around the join."""
    z = gaussian_multiplier(confidence)
    moves = _moves(columns, rates, spread, pipeline, z)
    many = len(moves)
    shifts = np.zeros((len(STAGES), 1 + 2 * many, len(rates)))
    for number, move in enumerate(moves, 1):
        for stage, (lower, upper) in move.items():
            shifts[stage, number], shifts[stage, number + many] = -lower, upper
    # One call for all moves, the first of which is none, since few rows take as long as many.
    shifts += logs_by_stage(rates)[:, None]
    logs, each = join_logs(columns, shifts, pipeline.parameters)
    weights = each[:, 0]
    by_group = [half_widths(pipeline.residuals, (group, ALL_TRIALS), confidence) for group in TRIAL_GROUPS]
    below, above, calibrated = np.array(by_group, dtype=float)[trial_groups(weights.T, columns)].T
    moved = (logs[1:] - logs[0]) ** 2
    log_rate = np.minimum(logs[0], spread.log_most)
    knee = (z * _knee(columns, weights, pipeline)) ** 2
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


# Half widths (n,) down and up of the stages that one error moves.
_Move = dict[int, tuple[Floats, Floats]]


def _moves(
    columns: PipelineColumns, rates: Floats, spread: Spread, pipeline: Pipeline, z: float
) -> list[_Move]:
    """Each error as the moves of the stages that it moves together: the cores', the accelerator's where it
    is not the cores, the copies', and that of disks whose rate is only known to lie from `disk_low` to
    `disk_high`; the page cache's part of the reads is not affected by the last."""
    on_cpu = columns.on_cpu > 0

    def where(rows: Booleans) -> tuple[Floats, Floats]:
        return np.where(rows, spread.lower, 0.0), np.where(rows, spread.upper, 0.0)

    moves: list[_Move] = [
        {_HOST: (spread.host, spread.host), _ACCELERATOR: where(on_cpu)},
        {_ACCELERATOR: where(~on_cpu)},
        {_TRANSFER: (spread.transfer, spread.transfer)},
    ]
    if np.any(columns.disk_low < 1) or np.any(columns.disk_high > 1):
        slow, fast = (
            storage_rate(columns.with_disks_times(factor ** (z / _QUANTILE_OF_90)), pipeline.parameters)
            for factor in (columns.disk_low, columns.disk_high)
        )
        usual = rates[:, _STORAGE]
        moves.append({_STORAGE: (np.log(usual / slow), np.log(fast / usual))})
    return moves


def _knee(columns: PipelineColumns, weights: Floats, pipeline: Pipeline) -> Floats:
    """The effect (n,) of one sigma of the exponent on the joined log rate. d log R / d log exponent is the
    entropy of the stages' weights divided by the exponent: largest where two stages are equally fast."""
    beside_gpu = columns.batches_ahead > 0
    if not beside_gpu.any():
        return np.zeros(len(beside_gpu))
    gamma = exponents(columns.training, columns.batches_ahead, pipeline.parameters)
    entropy = -(weights * np.log(np.maximum(weights, _LEAST_WEIGHT))).sum(axis=0)
    return np.asarray(beside_gpu * _EXPONENT_SIGMA * entropy / gamma)


def _added(*widths: NDArray[Any]) -> Floats:
    return np.asarray(np.sqrt(sum(width**2 for width in widths)))


def _core_sigma(columns: PipelineColumns, machines: ResourceTable, pipeline: Pipeline) -> Floats:
    """Log standard deviation of a core's speed and of scaling over cores together, shape (n,)."""
    reference = pipeline.reference
    architectures = [cpu.architecture if cpu else "" for cpu in machines.cpus]
    other = np.array([name not in ("", reference.architecture) for name in architectures])[machines.cpu]
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
