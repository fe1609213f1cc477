"""The performance model: throughput with interval and bottleneck, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.domain import Gpu, Prediction, Resources, Task, Workload
from advisor.errors import UsageError, unknown_name
from models.performance import memory
from models.performance.features import PipelineColumns, PipelineRequest, pipeline_columns
from models.performance.gpu_rates import GpuRate, GpuRates
from models.performance.intervals import HalfWidths, gaussian_multiplier, half_widths
from models.performance.networks import Floats, NetworkTable
from models.performance.pipeline import ALL_TRIALS, Pipeline, log_core_rate, trial_group
from models.performance.stages import STAGES
from models.performance.wording import (
    SAME_SCORE,
    is_unmeasured_on_cpu,
    notes_of,
    provenance_of,
)

Request = tuple[Workload, Resources]

# Log standard deviations of what no held-out residual describes, see docs/model.md.
_CPU_TRANSLATION_SIGMA = 0.10  # another CPU by PassMark's single-thread ratio
_CPU_UNKNOWN_SIGMA = 0.30
_PER_DOUBLING_OF_VCPUS_SIGMA = 0.04
_COPY_ASSUMED_SIGMA = 0.30
_CPU_NETWORK_UNMEASURED_SIGMA = 0.40


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceModel:
    """A fitted model. `error_percent` is the held-out median error of the sweeps it learnt from."""

    id: str
    trained_on: str
    error_percent: float
    networks: tuple[str, ...]
    sources: tuple[str, ...]
    gpu_rates: GpuRates
    pipeline: Pipeline
    table: NetworkTable
    accelerator_errors: Mapping[str, float]

    def predict(self, requests: Sequence[Request], *, confidence: float = 0.9) -> list[Prediction]:
        """One prediction a request, in order. A request without a GPU runs on its CPU.

        Raises `UsageError` for an unknown network or a confidence outside 0.5..1.
        """
        if not 0.5 <= confidence < 1:
            raise UsageError(f"confidence must lie between 0.5 and 1, not {confidence}")
        if not requests:
            return []
        rows = [_pipeline_request(workload, resources) for workload, resources in requests]
        for name in {row.workload.network for row in rows}:
            if name not in self.networks:
                raise unknown_name("network", name, self.networks)
        columns = pipeline_columns(rows, self.table)
        gpu_rates = self._gpu_rates(rows, confidence)
        accelerator = self._accelerator(rows, columns, gpu_rates)
        rates, joined, weights = self.pipeline.joined(columns, accelerator)
        doubts = self._doubts(rows, columns, weights, gpu_rates, confidence)
        stage_values, weight_values = rates.tolist(), weights.tolist()
        return [
            self._prediction(
                row, median, confidence, stage_values[i], weight_values[i], gpu_rates[i], doubts[i]
            )
            for i, (row, median) in enumerate(zip(rows, joined.tolist(), strict=True))
        ]

    def gpu_memory_mib(self, workload: Workload) -> float:
        """Peak GPU memory that the workload needs; 0 for preprocessing."""
        if workload.task is Task.PREPROCESSING:
            return 0.0
        return memory.gpu_memory_mib(self.table[workload.network], workload)

    def host_memory_mib(self, workload: Workload, resources: Resources) -> float:
        """RAM below which the trial dies."""
        on_cpu = resources.gpu is None
        return memory.host_memory_mib(self.table[workload.network], workload, resources, on_cpu)

    def published_step_seconds(self, workload: Workload, gpu: Gpu) -> float:
        """The pace of an emulated GPU, to four digits: equal on every machine."""
        batch = np.array([workload.batch_size], dtype=float)
        seconds = self.gpu_rates.step_seconds(workload, gpu, batch, self.table)
        return float(f"{seconds[0]:.4g}")

    def _gpu_rates(
        self, rows: Sequence[PipelineRequest], confidence: float
    ) -> list[GpuRate | None]:
        """Each request's GPU rate, computed once for each cell; None without a GPU stage."""
        keys = [_cell_key(row) for row in rows]
        cells: dict[tuple[object, ...], dict[int, GpuRate]] = {}
        examples = {key: row for key, row in zip(keys, rows, strict=True) if key}
        batches: dict[tuple[object, ...], set[int]] = {}
        for key, row in zip(keys, rows, strict=True):
            if key:
                batches.setdefault(key, set()).add(row.workload.batch_size)
        for key, row in examples.items():
            gpu, sizes = row.resources.gpu, sorted(batches[key])
            assert gpu is not None
            found = self.gpu_rates.rates(row.workload, gpu, sizes, self.table, confidence)
            cells[key] = dict(zip(sizes, found, strict=True))
        return [
            cells[key][row.workload.batch_size] if key else None
            for key, row in zip(keys, rows, strict=True)
        ]

    def _accelerator(
        self,
        rows: Sequence[PipelineRequest],
        columns: PipelineColumns,
        gpu_rates: Sequence[GpuRate | None],
    ) -> Floats:
        """Rates of GPU, or of the network on the CPU, or infinite for preprocessing."""
        rates = np.array([rate.samples_per_second if rate else np.inf for rate in gpu_rates])
        on_cpu = columns.on_cpu > 0
        if not on_cpu.any():
            return rates
        parameters = self.pipeline.parameters
        logs = [
            log_core_rate(self.table[row.workload.network], row.workload.task, parameters)
            if row.on_cpu
            else 0.0
            for row in rows
        ]
        return np.where(on_cpu, self.pipeline.cpu_rates(columns, np.array(logs)), rates)

    def _doubts(
        self,
        rows: Sequence[PipelineRequest],
        columns: PipelineColumns,
        weights: Floats,
        gpu_rates: Sequence[GpuRate | None],
        confidence: float,
    ) -> list[tuple[float, float, bool]]:
        """Half widths in log rate down and up, and whether residuals back them.

        Independent doubts of the stages, each by how much the rate depends on the stage, and
        the held-out residuals of whole trials, added in squares.
        """
        trials = self._trial_widths(weights, confidence)
        trial_lower, trial_upper, trial_backed = zip(*trials, strict=True)
        z = gaussian_multiplier(confidence)
        shared = (z * self._unbacked_sigmas(rows, columns, weights)) ** 2
        accelerator = weights[:, 0]
        down = np.array([rate.widths.lower if rate else 0.0 for rate in gpu_rates]) * accelerator
        up = np.array([rate.widths.upper if rate else 0.0 for rate in gpu_rates]) * accelerator
        lower = np.sqrt(shared + down**2 + np.square(trial_lower))
        upper = np.sqrt(shared + up**2 + np.square(trial_upper))
        backed = [
            trial and (rate is None or rate.widths.calibrated)
            for trial, rate in zip(trial_backed, gpu_rates, strict=True)
        ]
        return list(zip(lower.tolist(), upper.tolist(), backed, strict=True))

    def _trial_widths(self, weights: Floats, confidence: float) -> list[HalfWidths]:
        """Of held-out trials that the same stage bound, else of all trials."""
        residuals = self.pipeline.residuals
        by_stage = [
            half_widths(residuals, (trial_group(stage), ALL_TRIALS), confidence) for stage in STAGES
        ]
        return [by_stage[column] for column in weights.argmax(axis=1).tolist()]

    def _unbacked_sigmas(
        self, rows: Sequence[PipelineRequest], columns: PipelineColumns, weights: Floats
    ) -> Floats:
        """Log standard deviation of what was assumed rather than calibrated, shape (n,)."""
        score, reference = columns.score, self.pipeline.reference_score
        cpu = np.where(np.isnan(score), _CPU_UNKNOWN_SIGMA, _CPU_TRANSLATION_SIGMA)
        cpu = np.where(np.abs(score / reference - 1) < SAME_SCORE, 0.0, cpu)
        doublings = np.maximum(0.0, np.log2(columns.vcpus / self.pipeline.largest_vcpus))
        on_cores = weights[:, 1] + weights[:, 0] * columns.on_cpu
        host = on_cores * np.hypot(cpu, _PER_DOUBLING_OF_VCPUS_SIGMA * doublings)
        copy = weights[:, 3] * _COPY_ASSUMED_SIGMA
        copy *= [row.resources.host_to_gpu_gb_per_second is None for row in rows]
        unmeasured = np.array([is_unmeasured_on_cpu(row, self.pipeline) for row in rows])
        network = weights[:, 0] * _CPU_NETWORK_UNMEASURED_SIGMA * unmeasured
        sigmas: Floats = np.sqrt(host**2 + copy**2 + network**2)
        return sigmas

    def _prediction(
        self,
        row: PipelineRequest,
        median: float,
        confidence: float,
        rates: list[float],
        weights: list[float],
        gpu_rate: GpuRate | None,
        doubt: tuple[float, float, bool],
    ) -> Prediction:
        down, up, calibrated = doubt
        stages = {s: rate for s, rate in zip(STAGES, rates, strict=True) if rate < float("inf")}
        return Prediction(
            lower=median * float(np.exp(-down)),
            median=median,
            upper=median * float(np.exp(up)),
            confidence=confidence,
            stage_rates=stages,
            bottleneck=STAGES[weights.index(max(weights))],
            provenance=provenance_of(row, weights, gpu_rate, self.pipeline),
            extrapolation=notes_of(row, weights, gpu_rate, self.pipeline),
            calibrated=calibrated,
        )


def _pipeline_request(workload: Workload, resources: Resources) -> PipelineRequest:
    on_cpu = resources.gpu is None and workload.task is not Task.PREPROCESSING
    return PipelineRequest(workload, resources, on_cpu)


def _cell_key(row: PipelineRequest) -> tuple[object, ...] | None:
    """What the GPU's rate depends on besides the batch size."""
    workload, gpu = row.workload, row.resources.gpu
    if gpu is None or workload.task is Task.PREPROCESSING:
        return None
    return (workload.network, workload.task, workload.precision, gpu)
