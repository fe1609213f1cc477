"""How doubts about single stages become an interval of the joined rate.

Each doubt moves one or two stages to their own bound and joins again. The changes of the
joined rate add in squares, as independent doubts do. Moving, instead of weighing with the
derivative, matters where two stages are close: a stage that hides behind another one today
binds at its lower bound, and a bigger machine must not look less sure for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.performance.features import PipelineColumns, PipelineRequest
from models.performance.gpu_rates import GpuRate
from models.performance.intervals import HalfWidths, gaussian_multiplier, half_widths
from models.performance.networks import Floats
from models.performance.pipeline import ALL_TRIALS, Pipeline, trial_group
from models.performance.stages import SECOND_THREAD_SIGMA, STAGES, second_thread_cores
from models.performance.wording import SAME_SCORE, is_same_architecture, is_unmeasured_on_cpu

# Log standard deviations of what no held-out residual describes, see docs/model.md; those of CPUs
# and cores are `python -m benchmarks.vcpu_truth`'s.
_CPU_UNKNOWN_SIGMA = 0.30
_PER_DOUBLING_OF_VCPUS_SIGMA = 0.05
# A mark is no measure across instruction sets: two benchmarks disagree about Arm cores that far.
_OTHER_ARCHITECTURE_SIGMA = 0.42
_COPY_ASSUMED_SIGMA = 0.30
_CPU_NETWORK_UNMEASURED_SIGMA = 0.40

_ACCELERATOR, _HOST, _TRANSFER = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Interval:
    """Half widths of each request in log rate, shape (n,), and whether residuals back them."""

    lower: Floats
    upper: Floats
    calibrated: tuple[bool, ...]


def interval(
    rows: Sequence[PipelineRequest],
    columns: PipelineColumns,
    rates: Floats,
    gpu_rates: Sequence[GpuRate | None],
    pipeline: Pipeline,
    confidence: float,
) -> Interval:
    """The interval around the joined `rates` (n, stages): stages' doubts and whole trials'."""
    median, weights = pipeline.join(columns, rates)
    trials = _trial_widths(weights, pipeline, confidence)
    lower = np.array([trial.lower**2 for trial in trials])
    upper = np.array([trial.upper**2 for trial in trials])
    for down, up in _shifts(rows, columns, rates, gpu_rates, pipeline, confidence):
        lower += np.log(pipeline.join(columns, rates * np.exp(-down))[0] / median) ** 2
        upper += np.log(pipeline.join(columns, rates * np.exp(up))[0] / median) ** 2
    backed = tuple(
        trial.calibrated and (rate is None or rate.widths.calibrated)
        for trial, rate in zip(trials, gpu_rates, strict=True)
    )
    return Interval(np.sqrt(lower), np.sqrt(upper), backed)


def _shifts(
    rows: Sequence[PipelineRequest],
    columns: PipelineColumns,
    rates: Floats,
    gpu_rates: Sequence[GpuRate | None],
    pipeline: Pipeline,
    confidence: float,
) -> Iterator[tuple[Floats, Floats]]:
    """Each doubt as moves of the stages down and up, in log rate, shape (n, stages)."""
    z = gaussian_multiplier(confidence)
    on_cpu = columns.on_cpu > 0
    down, up = np.zeros_like(rates), np.zeros_like(rates)
    down[:, _ACCELERATOR] = [rate.widths.lower if rate else 0.0 for rate in gpu_rates]
    up[:, _ACCELERATOR] = [rate.widths.upper if rate else 0.0 for rate in gpu_rates]
    yield down, up
    cores = np.zeros_like(rates)
    cores[:, _HOST] = z * _core_sigma(rows, columns, pipeline)
    # A network on the CPU runs on the same cores: both are wrong together.
    cores[on_cpu, _ACCELERATOR] = cores[on_cpu, _HOST]
    yield cores, cores
    yield _both(rates, _HOST, z * _second_thread_sigma(columns, pipeline))
    unmeasured = np.array([is_unmeasured_on_cpu(row, pipeline) for row in rows])
    yield _both(rates, _ACCELERATOR, z * _CPU_NETWORK_UNMEASURED_SIGMA * unmeasured)
    assumed = np.array([row.resources.host_to_gpu_gb_per_second is None for row in rows])
    yield _both(rates, _TRANSFER, z * _COPY_ASSUMED_SIGMA * assumed)


def _trial_widths(weights: Floats, pipeline: Pipeline, confidence: float) -> list[HalfWidths]:
    """Of held-out trials that the same stage bound, else of all trials."""
    by_stage = [
        half_widths(pipeline.residuals, (trial_group(stage), ALL_TRIALS), confidence)
        for stage in STAGES
    ]
    return [by_stage[column] for column in weights.argmax(axis=1).tolist()]


def _core_sigma(
    rows: Sequence[PipelineRequest], columns: PipelineColumns, pipeline: Pipeline
) -> Floats:
    """Log standard deviation of a core's speed and of how many cores scale, shape (n,)."""
    reference = pipeline.reference
    cpu = np.where(np.isnan(columns.score), _CPU_UNKNOWN_SIGMA, reference.sigma)
    alike = np.array([is_same_architecture(row.resources, reference) for row in rows])
    same = alike & (np.abs(columns.score / reference.score - 1) < SAME_SCORE)
    cpu = np.where(same, 0.0, np.where(alike, cpu, np.maximum(cpu, _OTHER_ARCHITECTURE_SIGMA)))
    doublings = np.maximum(0.0, np.log2(columns.vcpus / pipeline.largest_vcpus))
    sigma: Floats = np.hypot(cpu, _PER_DOUBLING_OF_VCPUS_SIGMA * doublings)
    return sigma


def _second_thread_sigma(columns: PipelineColumns, pipeline: Pipeline) -> Floats:
    """What the doubt on second threads is to the host's log rate, shape (n,)."""
    added = second_thread_cores(columns, pipeline.parameters)
    sigma: Floats = SECOND_THREAD_SIGMA * added / (columns.cores + added)
    return sigma


def _both(rates: Floats, stage: int, widths: Floats) -> tuple[Floats, Floats]:
    shift = np.zeros_like(rates)
    shift[:, stage] = widths
    return shift, shift
