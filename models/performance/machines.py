"""Machines and disks as columns, so that many are predicted at once; and how CPU cores scale."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import Cpu, DataKind, DiskRate, Gpu, Measurement, Resources, Workload, require_positive
from advisor.models.bayes import Floats

# Marks do not compare across instruction sets: two benchmarks disagree about Arm cores by this much (log).
OTHER_ARCHITECTURE_SIGMA = 0.42
# Log standard deviation of the gain of second threads, over CPUs and work (internals/processors.md).
SECOND_THREAD_SIGMA = 0.42

# Parameters that differ between the CPUs of one sweep. The k-th CPU besides the reference has "host/speed/k"
# and so on: logarithms relative to the reference CPU, that of speed relative to what the marks say.
SPEED, CONTENTION, SECOND_THREAD = "host/speed", "host/contention", "host/second_thread"
_OWN_CONTENTION_SIGMA = 0.5
# A CPU counts as measured with at least this many trials that its cores bound.
FEWEST_TRIALS_OF_A_CPU = 12


class ReferenceCpu(Struct, frozen=True, kw_only=True):
    """The CPU that was measured: its PassMark single-thread mark, and how far to trust it.

    `model` is its name, empty if unknown; `sigma` is the log standard deviation of scaling its rates by the
    mark to another CPU; `architecture` is the Linux kernel's name of its instruction set."""

    score: float
    sigma: float
    architecture: str = "x86_64"
    model: str = ""

    def __post_init__(self) -> None:
        require_positive(score=self.score, sigma=self.sigma)

    def priors_of(self, other: ReferenceCpu, number: int) -> Mapping[str, tuple[float, float]]:
        """Priors (mean, sigma) of the parameters of the `other` CPU, the `number`-th of the sweep."""
        alike = other.architecture == self.architecture
        speed = max(self.sigma, other.sigma, 0.0 if alike else OTHER_ARCHITECTURE_SIGMA)
        return {
            f"{SPEED}/{number}": (0.0, speed),
            f"{CONTENTION}/{number}": (0.0, _OWN_CONTENTION_SIGMA),
            f"{SECOND_THREAD}/{number}": (0.0, SECOND_THREAD_SIGMA),
        }


class CoreTrials(NamedTuple):
    """Evidence about a CPU other than the reference one: the number of trials that its cores bound, the
    most vCPUs among those, and the remaining log standard deviation of its speed."""

    number: int
    largest_vcpus: float
    speed_sigma: float


Integers = NDArray[np.intp]

Record = TypeVar("Record", bound=Hashable)
_DEFAULT_LATENCY_SECONDS = 2e-4
# Single-thread marks nearer than this are one CPU.
SAME_SCORE = 0.02
# The gain of a core's second thread where it is unknown: the median CPU of SpareCores' marks
# (infra/build/catalog/sparecores.py, docs/internals/processors.md).
USUAL_SECOND_THREAD_YIELD = 0.33
# GB/s from host to GPU where this type of instance was not measured, by compute capability: medians
# of what SpareCores measured with nvbandwidth on 52 GPU servers. Nobody measured Hopper, so it
# counts as Ampere; what is not listed counts as the slowest.
_COPY_GB_PER_SECOND = {"5": 9.1, "7.0": 11.1, "8": 13.5, "9": 13.5, "10": 55.6, "12": 55.6}
_SLOWEST_COPY_GB_PER_SECOND = 6.3


def distinct(*columns: NDArray[Any]) -> tuple[Integers, Integers]:
    """The first row of each distinct combination of values in the columns (n,), and the index (n,) of each
    row's combination. Whole numbers are not negative."""
    code = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        places = column if column.dtype.kind in "bi" else np.unique(column, return_inverse=True)[1]
        code = code * (int(places.max(initial=0)) + 1) + places
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    return first, which


def identities(records: Sequence[object]) -> Integers:
    """A number (n,) for each record, the same for the same object: hashing a record takes longer."""
    return np.fromiter(map(id, records), np.intp, len(records))


def distinct_records(records: Sequence[Record]) -> tuple[tuple[Record, ...], Integers]:
    """The distinct records, and the index (n,) of each row's record."""
    places: dict[Record, int] = {}
    which = [places.setdefault(record, len(places)) for record in records]
    return tuple(places), np.array(which, dtype=np.intp)


class Columns(Struct, frozen=True):
    """Rows as columns: each field is an array whose first axis counts the rows."""

    def take(self, rows: Any) -> Self:
        """Some of the rows, by their numbers, a slice or a mask."""
        return type(self)(*(getattr(self, name)[rows] for name in self.__struct_fields__))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of several groups, one group after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__struct_fields__)
        )


class DiskTable(Columns, frozen=True):
    """Disks as columns (n,); inf: not limited. `low` and `high` are factors that bound a disk's rates."""

    mib_per_second: Floats
    iops: Floats
    latency_seconds: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, disks: Sequence[DiskRate]) -> DiskTable:
        """The disks as columns, in their order."""
        some, which = distinct_records(disks)
        numbers = [
            (
                disk.read_mib_per_second or np.inf,
                disk.read_iops or np.inf,
                disk.read_latency_seconds or _DEFAULT_LATENCY_SECONDS,
                disk.low,
                disk.high,
            )
            for disk in some
        ]
        return cls(*np.array(numbers, dtype=float).reshape(-1, len(cls.__struct_fields__)).T[:, which])


class ResourceTable(Struct, frozen=True):
    """`Resources` as columns of shape (n,), one row per machine.

    A machine is one of `nodes` equal ones that train together over a network of `gbit_per_second`. An unknown
    `host_to_gpu_gb_per_second` is nan. `gpu` and `cpu` index `gpus` and `cpus`, in which None stands for none
    or an unknown one; a machine has `gpu_count` of its GPU."""

    vcpus: Floats
    physical_cores: Floats
    memory_mib: Floats
    host_to_gpu_gb_per_second: Floats
    gpu_count: Floats
    nodes: Floats
    gbit_per_second: Floats
    disks: DiskTable
    gpu: Integers
    gpus: tuple[Gpu | None, ...]
    cpu: Integers
    cpus: tuple[Cpu | None, ...]

    def __len__(self) -> int:
        return len(self.vcpus)

    @classmethod
    def of(cls, resources: Sequence[Resources]) -> ResourceTable:
        """The machines as columns, in their order; a record that several rows share is read once."""
        first, row = distinct(identities(resources))
        some = [resources[number] for number in first.tolist()]
        numbers = (
            [has.vcpus for has in some],
            [has.physical_cores for has in some],
            [has.memory_mib for has in some],
            [has.host_to_gpu_gb_per_second or np.nan for has in some],
            [has.gpu_count for has in some],
            [getattr(has, "nodes", 1) for has in some],  # one that is not among others is no `Node`
            [getattr(has, "gbit_per_second", 0) for has in some],
        )
        gpus, gpu = distinct_records([has.gpu for has in some])
        cpus, cpu = distinct_records([has.cpu for has in some])
        disks = DiskTable.of([has.disk for has in some]).take(row)
        columns: list[Any] = [*np.array(numbers, dtype=float)[:, row], disks, gpu[row], gpus, cpu[row], cpus]
        return cls(*columns)

    def copy_gb_per_second(self) -> Floats:
        """GB/s from host to all GPUs, each with a separate link, shape (n,); assumed where unknown."""
        assumed = np.array([*map(assumed_copy_gb_per_second, self.gpus)])
        existing = self.host_to_gpu_gb_per_second
        each = np.where(np.isnan(existing), assumed[self.gpu], existing)
        return np.asarray(each * self.gpu_count)

    def marks(self) -> Floats:
        """PassMark's single-thread marks of the CPUs, nan where unknown, shape (n,)."""
        marks = [cpu.single_thread_score if cpu else None for cpu in self.cpus]
        return np.array(marks, dtype=float)[self.cpu]

    def second_thread_yields(self) -> Floats:
        """The share that a core's second thread adds to the first, shape (n,), usual where unknown."""
        yields = [(cpu.second_thread_yield if cpu else 0.0) or USUAL_SECOND_THREAD_YIELD for cpu in self.cpus]
        return np.array(yields)[self.cpu]


def assumed_copy_gb_per_second(gpu: Gpu | None) -> float:
    """GB/s from host to a GPU, assumed for instance types on which that was not measured."""
    capability = (gpu.compute_capability if gpu else None) or ""
    major = capability.partition(".")[0]
    result = _COPY_GB_PER_SECOND.get(capability, _COPY_GB_PER_SECOND.get(major))
    return result or _SLOWEST_COPY_GB_PER_SECOND


def useful_cores(cores: Floats, contention: Floats | float, coherence: float) -> Floats:
    """Gunther's universal scalability law, `n / (1 + a (n - 1) + b n (n - 1))`; n where n is below 1.

    Beyond its peak, at n = `sqrt((1 - a) / b)`, the value at the peak: nobody has to use more cores."""
    if coherence > 0:
        cores = np.minimum(cores, np.sqrt(np.maximum(1.0, (1 - contention) / coherence)))
    more = np.maximum(cores - 1, 0.0)
    useful: Floats = cores / (1 + contention * more + coherence * cores * more)
    return useful


Ranges = Mapping[str, tuple[float, float]]

# Functions of a workload and resources, by the fact's name; None where it is unlimited or unknown.
FACTS: Mapping[str, Callable[[Workload, Resources], float | None]] = {
    "vcpus": lambda _, has: has.vcpus,
    "disk_throughput": lambda _, has: has.disk.read_mib_per_second,
    "disk_iops": lambda _, has: has.disk.read_iops,
    "sample_bytes": lambda workload, _: workload.dataset.bytes_per_sample,
    "decoded_pixels": lambda workload, _: (
        workload.dataset.pixels if workload.dataset.kind is DataKind.IMAGE else None
    ),
}


def measured_ranges(measurements: Sequence[Measurement]) -> Ranges:
    """The smallest and largest value of each fact over all trials; facts without a value are left out."""
    ranges = {}
    for name, fact in FACTS.items():
        trials = (measurement.trial for measurement in measurements)
        values = [fact(trial.workload, trial.resources) for trial in trials]
        existing = [float(value) for value in values if value is not None]
        if existing:
            ranges[name] = (min(existing), max(existing))
    return ranges
