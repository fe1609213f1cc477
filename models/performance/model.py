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
from advisor.models.performance.estimates import Alone, spread_of
from advisor.models.performance.gpu_observations import GpuObservations
from advisor.models.performance.machines import Integers, ResourceTable, distinct, identities
from advisor.models.performance.memory import peak, steps
from advisor.models.performance.networks import NetworkTable
from advisor.models.performance.pipeline import Pipeline, PipelineRequest, columns_of
from advisor.models.performance.prepared import Objects, PreparedRows, Words, alone
from advisor.models.performance.scaling import scaled_rows
from advisor.models.performance.settings import SettingGain, setting_gains, usual_settings
from advisor.models.performance.step_times import StepTimes

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
        machines = ResourceTable.of([has for _, has in requests])
        columns = columns_of(loads, which, machines, self.table)
        if self.pipeline.other_cpus:
            columns = replace(columns, cpu=self.pipeline.other_cpu(machines))
        rates, gpu_rates = self._alone(loads, which, machines, confidence)
        steps = rates.samples_per_second / columns.batch_size
        scalings, scaling_of = scaled_rows(
            loads, which, machines, confidence, steps, self.table, self.scaling_rows
        )
        each = [(scaling.speed_up, *scaling.widths) for scaling in scalings]
        scaled = np.take(np.array(each, dtype=float).T, scaling_of, axis=1)
        # A CPU's units were measured in fp32 alone.
        other_format = [load.on_cpu and load.workload.precision is not Precision.FP32 for load in loads]
        return PreparedRows(
            columns=columns,
            rates=self.pipeline.stage_rates(columns, rates.samples_per_second * scaled[0]),
            spread=spread_of(
                columns, rates, scaled, machines, np.array(other_format)[which], self.pipeline, confidence
            ),
            pipeline=self.pipeline,
            confidence=confidence,
            words=Words(
                loads=np.fromiter(loads, object)[which],
                machines=np.fromiter((has for _, has in requests), object, len(requests)),
                gpu_rates=gpu_rates,
                scalings=np.fromiter(scalings, object)[scaling_of],
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

    def largest_batch(self, workload: Workload, gpu: Gpu) -> int | None:
        """The largest batch of the workload that surely fits the GPU; None where not even one sample does."""
        return peak.largest_that(
            lambda size: self.gpu_memory_mib(replace(workload, batch_size=size)) <= gpu.memory_mib
        )

    def host_memory_mib(self, workload: Workload, resources: Resources) -> float:
        """MiB of RAM below which the trial dies."""
        on_cpu = resources.gpu is None
        return steps.host_memory_mib(self.table[workload.network], workload, resources, on_cpu)

    def published_step_seconds(self, workload: Workload, gpu: Gpu) -> float:
        """Seconds of a step that an emulated GPU takes, rounded to four digits so that machines agree."""
        batch = np.array([workload.batch_size], dtype=float)
        seconds = self.step_times.step_seconds(workload, gpu, batch, self.table)
        return float(f"{seconds[0]:.4g}")

    def _alone(
        self, loads: Sequence[PipelineRequest], which: Integers, machines: ResourceTable, confidence: float
    ) -> tuple[Alone, Objects]:
        """Rates of the networks alone, and each row's `GpuRate`, None without a GPU: predicted once for each
        load on a GPU, and for each load on some cores of a CPU."""
        on_cpu = np.array([load.on_cpu for load in loads])[which]
        cores = np.minimum(machines.vcpus, machines.physical_cores)
        hardware = np.where(on_cpu, machines.cpu, machines.gpu)
        first, cell_of = distinct(which, hardware, np.where(on_cpu, cores, 0.0))
        alike: dict[tuple[str, str | None, Task, bool], list[int]] = {}
        for cell, load in enumerate([loads[number] for number in which[first].tolist()]):
            workload = load.workload
            if workload.task is not Task.PREPROCESSING:
                key = (workload.network, workload.input, workload.task, load.on_cpu)
                alike.setdefault(key, []).append(cell)
        numbers = np.tile((np.inf, 0.0, 0.0, 1.0, np.inf), (len(first), 1))
        rates: Objects = np.full(len(first), None)
        marks = machines.marks()
        for (*_, runs_on_cpu), cells in alike.items():
            rows = first[cells]
            workloads = [loads[number].workload for number in which[rows].tolist()]
            if runs_on_cpu:
                cpus = [machines.cpus[number] for number in machines.cpu[rows].tolist()]
                names = np.array([cpu.model if cpu else "" for cpu in cpus])
                columns = cpu_columns(cores[rows], marks[rows], names, self.pipeline)
                facts = self.table.of(workloads[0])
                of_cpus = rates_on_cpu(workloads, facts, self.pipeline, columns, confidence)
                numbers[cells, :4] = np.column_stack(np.broadcast_arrays(*of_cpus))
            else:
                gpus = (machines.gpus[number] for number in machines.gpu[rows].tolist())
                wanted = [(workload, gpu) for workload, gpu in zip(workloads, gpus, strict=True) if gpu]
                rates[cells] = self.step_times.rates(wanted, self.table, confidence)
                numbers[cells] = [(rate.samples_per_second, *rate.widths, rate.room) for rate in rates[cells]]
        return Alone(*np.take(numbers.T, cell_of, axis=1)), rates[cell_of]


def _loads(requests: Sequence[Request], cache: CacheState | None) -> tuple[list[PipelineRequest], Integers]:
    """The distinct loads, and the index (n,) of each request's load.

    Training reads its data again and again, so the page cache helps. Inference and preprocessing read every
    sample once from the disk, unless samples arrive with requests."""
    ids = identities([workload for workload, _ in requests])
    first, which = distinct(ids, np.array([has.gpu is not None for _, has in requests]))
    loads = []
    for workload, has in (requests[row] for row in first.tolist()):
        on_cpu = has.gpu is None and workload.task is not Task.PREPROCESSING
        in_memory = workload.task is Task.TRAINING or not workload.dataset.is_read
        usual = CacheState.WARM if in_memory else CacheState.COLD
        loads.append(PipelineRequest(workload, has, on_cpu, cache or usual))
    return loads, which
