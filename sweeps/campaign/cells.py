"""Which cells a campaign has, in which order, and when a ladder of batch sizes ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from advisor.domain import (
    MEASURABLE_PRECISIONS,
    Accelerator,
    DatasetProfile,
    DiskRate,
    Measurement,
    Precision,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from models.zoo.networks import NETWORKS, Kind, NetworkInfo
from sweeps.worker.pipeline.policy import PREFETCH_FACTOR, SYNTHETIC, loader_workers

_COMPUTED = (Task.INFERENCE, Task.TRAINING)
_VCPUS = (1, 2, 4, 8, 16)
# A larger batch than one that takes so long adds nothing.
LONGEST_STEP_SECONDS = 4.0
_LARGEST_BATCH = 2**16
_BYTES_PER_VALUE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What every cell has in common. `gpu` is the device's name, None for a CPU campaign; it is
    part of each trial, so that rows of different machines stay apart."""

    accelerator: str
    resources: Resources
    gpu: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkBudget:
    """Time boxes and the grid's size. `largest_batch` ends a ladder that memory does not end;
    `batches`, where there are any, are its only steps. Without `pipeline_tasks` no real input."""

    seconds: float
    min_steps: int
    max_seconds: float
    largest_batch: int
    precisions: tuple[Precision, ...]
    pipeline_tasks: tuple[Task, ...]
    pipeline_batch: int
    pipeline_seconds: float
    batches: tuple[int, ...] = ()


FULL = BenchmarkBudget(
    seconds=0.8, min_steps=8, max_seconds=6.0, largest_batch=_LARGEST_BATCH,
    precisions=MEASURABLE_PRECISIONS, pipeline_tasks=_COMPUTED, pipeline_batch=64,
    pipeline_seconds=6.0,
)  # fmt: skip
QUICK = BenchmarkBudget(
    seconds=0.2, min_steps=3, max_seconds=1.0, largest_batch=2,
    precisions=(Precision.FP32, Precision.BF16), pipeline_tasks=(Task.INFERENCE,),
    pipeline_batch=8, pipeline_seconds=1.0,
)  # fmt: skip
# What shows how fast a CPU computes: a few batch sizes in fp32, nothing read from a disk.
BRIEF = BenchmarkBudget(
    seconds=0.6, min_steps=3, max_seconds=5.0, largest_batch=32,
    precisions=(Precision.FP32,), pipeline_tasks=(), pipeline_batch=8, pipeline_seconds=1.0,
    batches=(1, 8, 32),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """One network, task and precision, measured at rising batch sizes."""

    info: NetworkInfo
    task: Task
    precision: Precision
    fingerprint: str = ""


def in_order(infos: Iterable[NetworkInfo]) -> list[NetworkInfo]:
    """Image classifiers first, others in the order in which they are listed."""
    return sorted(infos, key=lambda info: info.kind is not Kind.IMAGE)


def default_networks() -> list[NetworkInfo]:
    """All networks of the zoo, in the order of measuring."""
    return in_order(NETWORKS.values())


def batch_ranges(infos: Sequence[NetworkInfo], budget: BenchmarkBudget) -> Iterator[BatchRange]:
    """fp32 of all networks comes before any other precision: time may end at any cell."""
    for precision in budget.precisions:
        for info in infos:
            for task in _COMPUTED:
                yield BatchRange(info=info, task=task, precision=precision)


def batch_sizes(batch_range: BatchRange, budget: BenchmarkBudget) -> list[int]:
    """Powers of two, from the smallest batch that the task takes."""
    least = batch_range.info.min_training_batch if batch_range.task is Task.TRAINING else 1
    sizes = budget.batches or [1 << power for power in range(budget.largest_batch.bit_length())]
    return [size for size in sizes if size >= least]


def next_batch(
    batch_range: BatchRange, machine: Machine, budget: BenchmarkBudget,
    done: Mapping[str, Measurement],
) -> int | None:  # fmt: skip
    """The first batch size without a result; None once the ladder is done.

    It ends below a batch that failed or found no memory, and above one whose step takes longer
    than four seconds: the larger ones would only do so too.
    """
    for size in batch_sizes(batch_range, budget):
        row = done.get(synthetic_trial(batch_range, size, machine, budget).trial_id)
        if row is None:
            return size
        if _ends(row):
            return None
    return None


def synthetic_trial(
    batch_range: BatchRange, batch_size: int, machine: Machine, budget: BenchmarkBudget
) -> Trial:
    """The network alone, on a batch made on the device."""
    plan = {
        "input": SYNTHETIC,
        "gpu": machine.gpu,
        "measure_seconds": budget.seconds,
        "min_steps": budget.min_steps,
        "max_seconds": budget.max_seconds,
    }
    if batch_range.fingerprint:
        plan["network_fingerprint"] = batch_range.fingerprint
    return Trial(
        workload=Workload(
            network=batch_range.info.name,
            task=batch_range.task,
            batch_size=batch_size,
            precision=batch_range.precision,
            dataset=_synthetic_profile(batch_range.info),
        ),
        resources=machine.resources,
        accelerator=Accelerator.parse(machine.accelerator),
        plan=plan,
    )


def with_pipeline(infos: Iterable[NetworkInfo]) -> list[NetworkInfo]:
    """The classifiers of photographs: what the real input pipeline is measured with."""
    return [info for info in infos if info.kind is Kind.IMAGE and Task.PREPROCESSING in info.tasks]


def pipeline_trials(
    infos: Iterable[NetworkInfo],
    machine: Machine,
    budget: BenchmarkBudget,
    dataset: DatasetProfile,
    dataset_path: str,
) -> list[Trial]:
    """The real input pipeline: 1, 2, 4, 8 and 16 vCPUs as far as the machine has them, for each
    classifier of photographs. Memory and disk stay those of the machine."""
    trials = []
    whole = machine.resources
    for info in with_pipeline(infos):
        for vcpus in (count for count in _VCPUS if count <= whole.vcpus):
            for task in budget.pipeline_tasks:
                workload = Workload(
                    network=info.name, task=task, batch_size=budget.pipeline_batch, dataset=dataset
                )
                trials.append(_pipeline_trial(workload, vcpus, machine, budget, dataset_path))
    return trials


def _pipeline_trial(
    workload: Workload, vcpus: int, machine: Machine, budget: BenchmarkBudget, dataset_path: str
) -> Trial:
    whole = machine.resources
    threads_per_core = max(1, round(whole.vcpus / whole.physical_cores))
    return Trial(
        workload=workload,
        resources=Resources(
            vcpus=float(vcpus),
            physical_cores=float(min(vcpus, -(-vcpus // threads_per_core))),
            memory_mib=whole.memory_mib,
            disk=whole.disk,
            cpu=whole.cpu,
        ),
        accelerator=Accelerator.parse(machine.accelerator),
        dataset_path=dataset_path,
        plan={
            "gpu": machine.gpu,
            "measure_seconds": budget.pipeline_seconds,
            "min_steps": budget.min_steps,
            "max_seconds": 4 * budget.pipeline_seconds,
            "loader_workers": loader_workers(vcpus),
            "prefetch_factor": PREFETCH_FACTOR,
        },
    )


def host_resources(vcpus: float, physical_cores: float, memory_mib: float) -> Resources:
    """The whole machine, its disk as it is."""
    from sweeps.machine.environment import local_cpu

    return Resources(
        vcpus=float(vcpus),
        physical_cores=float(min(vcpus, physical_cores)),
        memory_mib=memory_mib,
        disk=DiskRate(type="unlimited"),
        cpu=local_cpu(),
    )


def _synthetic_profile(info: NetworkInfo) -> DatasetProfile:
    """One row as it lies on the device: nothing is stored, read or decoded."""
    values = 1
    for size in info.input_shape:
        values *= size
    width, height = (info.input_shape[-1], info.input_shape[-2]) if info.takes_images else (1, 1)
    return DatasetProfile(
        name=SYNTHETIC,
        samples=1,
        bytes_per_sample=float(values * _BYTES_PER_VALUE),
        storage_format=SYNTHETIC,
        width=width,
        height=height,
    )


def _ends(row: Measurement) -> bool:
    if row.status in (Status.OUT_OF_MEMORY, Status.FAILED, Status.TIMED_OUT):
        return True
    return bool(row.step_seconds) and min(row.step_seconds) > LONGEST_STEP_SECONDS
