"""The performance model: throughput with interval and bottleneck, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from advisor.domain import CacheState, Gpu, Prediction, Resources, Task, Workload
from advisor.errors import UsageError, unknown_name
from models.performance import memory
from models.performance.doubts import interval
from models.performance.features import PipelineColumns, PipelineRequest, pipeline_columns
from models.performance.gpu_rates import GpuRate, GpuRates
from models.performance.networks import Floats, NetworkTable
from models.performance.pipeline import Pipeline, log_core_rate
from models.performance.stages import STAGES
from models.performance.wording import notes_of, provenance_of

Request = tuple[Workload, Resources]


class UsersMeasurements(Protocol):
    """What a user measured of the network in question; see `anchoring`."""

    def rates(
        self,
        workload: Workload,
        gpu: Gpu,
        batch_sizes: Sequence[int],
        table: NetworkTable,
        confidence: float,
    ) -> list[GpuRate]:
        """As `GpuRates.rates`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformanceModel:
    """A fitted model. `error_percent` is the held-out median error of the sweeps it learnt from.

    `anchored` is what a user measured, `card_mib_of` tells the GPU memory of the user's own
    network, the last of `networks`; both belong to a question and are never saved.
    """

    id: str
    trained_on: str
    error_percent: float
    networks: tuple[str, ...]
    sources: tuple[str, ...]
    gpu_rates: GpuRates
    pipeline: Pipeline
    table: NetworkTable
    accelerator_errors: Mapping[str, float]
    anchored: UsersMeasurements | None = None
    card_mib_of: Callable[[Workload], float] | None = None

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
        rates = self.pipeline.stage_rates(columns, accelerator)
        joined, weights = self.pipeline.join(columns, rates)
        doubts = interval(rows, columns, rates, gpu_rates, self.pipeline, confidence)
        lower, upper = joined * np.exp(-doubts.lower), joined * np.exp(doubts.upper)
        bounds = zip(lower.tolist(), joined.tolist(), upper.tolist(), strict=True)
        stage_values, weight_values = rates.tolist(), weights.tolist()
        return [
            self._prediction(
                rows[i],
                bound,
                confidence,
                stage_values[i],
                weight_values[i],
                gpu_rates[i],
                doubts.calibrated[i],
            )
            for i, bound in enumerate(bounds)
        ]

    def gpu_memory_mib(self, workload: Workload) -> float:
        """Memory of the card on which the workload surely runs; 0 for preprocessing.

        The peak's upper bound, with momentum where it trains, and what a driver keeps.
        """
        if workload.task is Task.PREPROCESSING:
            return 0.0
        if self.card_mib_of and workload.network == self.networks[-1]:
            return self.card_mib_of(workload)
        return memory.needed_card_mib(workload)

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
            source = self.anchored or self.gpu_rates
            found = source.rates(row.workload, gpu, sizes, self.table, confidence)
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

    def _prediction(
        self,
        row: PipelineRequest,
        bounds: tuple[float, float, float],
        confidence: float,
        rates: list[float],
        weights: list[float],
        gpu_rate: GpuRate | None,
        calibrated: bool,
    ) -> Prediction:
        lower, median, upper = bounds
        stages = {s: rate for s, rate in zip(STAGES, rates, strict=True) if rate < float("inf")}
        return Prediction(
            lower=lower,
            median=median,
            upper=upper,
            confidence=confidence,
            stage_rates=stages,
            bottleneck=STAGES[weights.index(max(weights))],
            provenance=provenance_of(row, weights, gpu_rate, self.pipeline),
            extrapolation=notes_of(row, weights, gpu_rate, self.pipeline),
            calibrated=calibrated,
        )


def _pipeline_request(workload: Workload, resources: Resources) -> PipelineRequest:
    """Training reads its data again and again, so the page cache helps; inference and
    preprocessing read every sample once, from the disk."""
    on_cpu = resources.gpu is None and workload.task is not Task.PREPROCESSING
    cache = CacheState.WARM if workload.task is Task.TRAINING else CacheState.COLD
    return PipelineRequest(workload, resources, on_cpu, cache)


def _cell_key(row: PipelineRequest) -> tuple[object, ...] | None:
    """What the GPU's rate depends on besides the batch size."""
    workload, gpu = row.workload, row.resources.gpu
    if gpu is None or workload.task is Task.PREPROCESSING:
        return None
    return (workload.network, workload.task, workload.precision, gpu)
