"""The performance model: throughput with interval and bottleneck, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import (
    CacheState,
    Gpu,
    Precision,
    Prediction,
    Resources,
    ScalingObservation,
    Task,
    Workload,
)
from advisor.models.bayes import Floats
from advisor.models.performance.cpu_step_times import cpu_columns, rates_on_cpu, step_times_on_cpu
from advisor.models.performance.estimates import Alone, StageErrors, spread_of
from advisor.models.performance.gpu_observations import GpuObservations
from advisor.models.performance.machines import Integers, ResourceTable
from advisor.models.performance.memory import peak, steps
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.pipeline import Pipeline, PipelineRequest, columns_of
from advisor.models.performance.prepared import PreparedRows, Words, alone
from advisor.models.performance.scaling import scaled_rows
from advisor.models.performance.settings import SettingGain, setting_gains, usual_settings
from advisor.models.performance.step_times import GpuRate, StepTimes

if TYPE_CHECKING:
    from advisor.domain.decision import Distance

Request = tuple[Workload, Resources]


class PerformanceModel(Struct, frozen=True, kw_only=True):
    """A fitted model. `error_percent` is the median error on held-out trials of the sweeps behind it.

    `step_times` predicts GPUs alone, and is conditioned on what the user measured: `gpu_observations` from
    their store, and a question's anchors. `scaling_rows` are anchors of several ranks. `card_mib_of` returns
    the GPU memory that the user's own network needs, and is never saved."""

    id: str
    trained_on: str
    error_percent: float
    sources: tuple[str, ...]
    step_times: StepTimes
    pipeline: Pipeline
    table: NetworkTable
    gpu_observations: GpuObservations = GpuObservations()
    card_mib_of: Callable[[Workload], float] | None = None
    scaling_rows: tuple[ScalingObservation, ...] = ()

    def remembering(self) -> PerformanceModel:
        """The model with a cache for many questions about similar workloads (`StepTimes.remembering`)."""
        return replace(self, step_times=self.step_times.remembering())

    def predict(
        self, requests: Sequence[Request], *, confidence: float = 0.9, cache: CacheState | None = None
    ) -> list[Prediction]:
        """One prediction per request, in order. A request without a GPU runs on its CPU.

        `cache` None: as usual for the task, warm for training and cold where data is read once.

        Raises `UsageError` for an unknown network."""
        if not requests:
            return []
        return self.prepare(requests, confidence=confidence, cache=cache).predictions()

    def prepare(
        self, requests: Sequence[Request], *, confidence: float = 0.9, cache: CacheState | None = None
    ) -> PreparedRows:
        """Predictions of the requests (at least one) up to their disks, which may then be changed.

        Raises as `predict` does."""
        loads, which = _loads(requests, cache)
        resources = [machine for _, machine in requests]
        machines = ResourceTable.of(resources)
        columns = columns_of(loads, which, machines, self.table)
        if self.pipeline.other_cpus:
            columns = replace(columns, cpu=self.pipeline.other_cpu(machines))
        cells, cell_of = self._cells(loads, which, machines, confidence)
        columns_of_cells = [
            (cell.samples_per_second, *cell.widths, cell.room) if cell else (np.inf, 0.0, 0.0, True, np.inf)
            for cell in cells
        ]
        rates = Alone(*np.array(columns_of_cells, dtype=float).reshape(-1, 5)[cell_of].T.copy())
        self._add_cpus(rates, loads, which, machines, confidence)
        accelerator = rates.samples_per_second
        steps = accelerator / columns.batch_size
        scaled = scaled_rows(loads, which, machines, confidence, steps, self.table, self.scaling_rows)
        several = scaled.columns()
        accelerator = accelerator * several[0]
        # A CPU's units were measured in fp32 alone.
        other_format = [load.on_cpu and load.workload.precision is not Precision.FP32 for load in loads]
        other_code = machines.architectures != self.pipeline.reference.architecture
        errors = StageErrors(
            alone=rates,
            several=several,
            other_format=np.array(other_format, bool)[which],
            copy_assumed=np.isnan(machines.host_to_gpu_gb_per_second),
            other_architecture=other_code & (machines.architectures != ""),
        )
        return PreparedRows(
            columns=columns,
            rates=self.pipeline.stage_rates(columns, accelerator),
            spread=spread_of(columns, errors, self.pipeline, confidence),
            pipeline=self.pipeline,
            confidence=confidence,
            words=Words(
                [loads[load] for load in which.tolist()],
                resources,
                [cells[cell] for cell in cell_of.tolist()],
                scaled.each(),
                self.pipeline,
            ),
        )

    def predict_gpu(
        self, workloads: Sequence[Workload], gpu: Gpu, *, confidence: float = 0.9
    ) -> list[Prediction]:
        """Rates of a GPU alone, with its samples on the device, for one cell at several batch sizes."""
        cells = [(workload, gpu) for workload in workloads]
        rates = self.step_times.rates(cells, self.table, confidence)
        return [alone(rate, confidence) for rate in rates]

    def usual_settings(
        self,
        workload: Workload,
        gpus: Sequence[Gpu],
        *,
        precision: bool,
        memory_format: bool,
        smallest_batch: int,
    ) -> list[Workload]:
        """The workload on each GPU with the usual precision and memory format, for those that are open.
        Where some choice of these fits the GPU at the smallest batch, the returned one does."""

        def needed_mib(setting: Workload) -> float:
            return self.gpu_memory_mib(replace(setting, batch_size=smallest_batch))

        return usual_settings(
            self.step_times,
            workload,
            gpus,
            self.table.of(workload),
            precision=precision,
            memory_format=memory_format,
            needed_mib=needed_mib,
        )

    def setting_gains(self, workload: Workload, gpu: Gpu, *, confidence: float = 0.9) -> list[SettingGain]:
        """The gain from compile, channels last, 16 bits and TF32 on the GPU, where measured rows show it."""
        facts = self.table.of(workload)
        return setting_gains(self.step_times, workload, gpu, facts, confidence)

    def most_on_cpu(
        self, workloads: Sequence[Workload], cores: Floats, marks: Floats, cpus: Sequence[str]
    ) -> Floats:
        """The largest median rate in samples per second over the workloads (all of one network) on each
        CPU, given physical cores, marks (nan: unknown) and names, each of shape (n,).

        0 where the network was only measured and its operations in that task are unknown.
        """
        facts, task = self.table.of(workloads[0]), workloads[0].task
        if task not in facts.kernels:
            return np.zeros(len(cores))
        sizes = [float(workload.batch_size) for workload in workloads]
        columns = cpu_columns(cores, marks, np.array(cpus, dtype=str), self.pipeline)
        most = step_times_on_cpu(self.pipeline).most(facts, task, sizes, columns)
        return most / workloads[0].dataset.passes

    def distances(
        self, workload: Workload, resources: Resources, prediction: Prediction
    ) -> tuple[Distance, ...]:
        """The distance of each fact behind the `prediction` from the measured rows."""
        from advisor.models.performance.distance import distances  # few answers need it

        return distances(workload, resources, prediction, self.pipeline, self.step_times, self.table)

    def gpu_memory_mib(self, workload: Workload) -> float:
        """MiB of the smallest card on which the workload runs with high confidence; 0 for preprocessing.

        This is the upper bound of the peak, with momentum in training, plus the driver's share."""
        if workload.task is Task.PREPROCESSING:
            return 0.0
        if self.card_mib_of and workload.network == self.table.names[-1]:
            return self.card_mib_of(workload)
        return peak.needed_card_mib(workload)

    def host_memory_mib(self, workload: Workload, resources: Resources) -> float:
        """MiB of RAM below which the trial dies."""
        on_cpu = resources.gpu is None
        return steps.host_memory_mib(self.table[workload.network], workload, resources, on_cpu)

    def published_step_seconds(self, workload: Workload, gpu: Gpu) -> float:
        """Seconds of a step that an emulated GPU takes, rounded to four digits so that machines agree."""
        batch = np.array([workload.batch_size], dtype=float)
        seconds = self.step_times.step_seconds(workload, gpu, batch, self.table)
        return float(f"{seconds[0]:.4g}")

    def _cells(
        self, loads: Sequence[PipelineRequest], which: Integers, machines: ResourceTable, confidence: float
    ) -> tuple[list[GpuRate | None], Integers]:
        """The rate of each distinct pair of load and GPU, and the index (n,) of each row's pair."""
        wide = len(machines.gpus) + 1
        pairs, cell_of = np.unique(which * wide + machines.gpu + 1, return_inverse=True)
        cells: list[GpuRate | None] = [None] * len(pairs)
        alike: dict[tuple[str, str | None, Task], list[tuple[int, Workload, Gpu]]] = {}
        for cell, (load, gpu) in enumerate(zip(*np.divmod(pairs, wide), strict=True)):
            workload = loads[load].workload
            if gpu > 0 and workload.task is not Task.PREPROCESSING:
                key = (workload.network, workload.input, workload.task)
                alike.setdefault(key, []).append((cell, workload, machines.gpus[gpu - 1]))
        for members in alike.values():
            wanted = [(workload, gpu) for _, workload, gpu in members]
            rates = self.step_times.rates(wanted, self.table, confidence)
            for (cell, _, _), rate in zip(members, rates, strict=True):
                cells[cell] = rate
        return cells, cell_of.reshape(-1)

    def _add_cpus(
        self,
        rates: Alone,
        loads: Sequence[PipelineRequest],
        which: Integers,
        machines: ResourceTable,
        confidence: float,
    ) -> None:
        """Fill in `rates` in the rows whose network runs on the CPU."""
        alike: dict[tuple[str, str | None, Task], list[int]] = {}
        for number, load in enumerate(loads):
            if load.on_cpu:
                entry = load.workload
                alike.setdefault((entry.network, entry.input, entry.task), []).append(number)
        sizes = np.array([load.workload.batch_size for load in loads], dtype=float)[which]
        cores = np.minimum(machines.vcpus, machines.physical_cores)
        for places in alike.values():
            rows = np.isin(which, places)
            if not rows.any():
                continue
            workload = loads[places[0]].workload
            cpus = cpu_columns(cores[rows], machines.score[rows], machines.cpus[rows], self.pipeline)
            facts = self.table.of(workload)
            result = rates_on_cpu(workload, sizes[rows], facts, self.pipeline, cpus, confidence)
            rates.samples_per_second[rows] = result.samples_per_second / workload.dataset.passes
            rates.lower[rows], rates.upper[rows] = result.lower, result.upper
            rates.calibrated[rows] = result.calibrated


def _loads(requests: Sequence[Request], cache: CacheState | None) -> tuple[list[PipelineRequest], Integers]:
    """The distinct loads, and the index (n,) of each request's load.

    Training reads its data again and again, so the page cache helps. Inference and preprocessing read every
    sample once from the disk, unless samples arrive with requests."""
    # Hashing a workload takes a while, and most requests share the same record.
    places: dict[tuple[int, bool], int] = {}
    loads: list[PipelineRequest] = []
    which = []
    for workload, resources in requests:
        key = (id(workload), resources.gpu is not None)
        if key not in places:
            places[key] = len(loads)
            on_cpu = resources.gpu is None and workload.task is not Task.PREPROCESSING
            in_memory = workload.task is Task.TRAINING or not workload.dataset.is_read
            usual = CacheState.WARM if in_memory else CacheState.COLD
            loads.append(PipelineRequest(workload, resources, on_cpu, cache or usual))
        which.append(places[key])
    return loads, np.array(which, dtype=np.intp)
