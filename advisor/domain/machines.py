"""Machines: accelerators, data sheets, and the resources of a trial or an instance."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import date

from msgspec import Struct

from advisor.domain.words import AcceleratorKind

_BOARDS = ("-SXM", "GB200-", "GB300-")


def is_on_board(gpu_name: str) -> bool:
    """True if a GPU comes on a board with NVLink between GPUs: NVIDIA's HGX or Grace Blackwell."""
    return any(board in gpu_name for board in _BOARDS)


class Accelerator(Struct, frozen=True, kw_only=True):
    """A GPU, an emulated one, or the CPU. `gpu` is a name from the catalogue or a driver; empty for any GPU
    of the machine. The other fields are known once the device was seen: MiB of memory, number of
    multiprocessors, profile of a MIG slice (`1g.5gb`) or a vGPU (`16Q`; empty for a whole card), compute
    capability (`8.0`)."""

    kind: AcceleratorKind
    gpu: str = ""
    memory_mib: float | None = None
    sm_count: int | None = None
    slice_profile: str = ""
    compute_capability: str = ""

    def __post_init__(self) -> None:
        if self.kind is AcceleratorKind.EMULATED and not self.gpu:
            raise ValueError("an emulated GPU has a name")
        if self.kind is AcceleratorKind.CPU and self.gpu:
            raise ValueError("the CPU has no name of a GPU")

    def __str__(self) -> str:
        """`cuda`, `cuda:T4`, `emulated:T4` or `cpu`: the form in commands, documents and trial ids."""
        return f"{self.kind}:{self.gpu}" if self.gpu else self.kind.value

    @classmethod
    def parse(cls, text: str) -> Accelerator:
        """The accelerator in a text that `str` wrote; `ValueError` for any other text."""
        kind, colon, gpu = text.partition(":")
        if kind not in set(AcceleratorKind) or (colon and not gpu):
            raise ValueError(f"no accelerator '{text}'")
        return cls(kind=AcceleratorKind(kind), gpu=gpu)

    @property
    def is_gpu(self) -> bool:
        """True if a real GPU computes."""
        return self.kind is AcceleratorKind.CUDA

    @property
    def is_slice(self) -> bool:
        """True if it is a part of a card, which says nothing about the card."""
        return bool(self.slice_profile)

    @property
    def is_emulated(self) -> bool:
        """True if the known step time of a GPU replaces a real one."""
        return self.kind is AcceleratorKind.EMULATED

    @property
    def is_cpu(self) -> bool:
        """True if the CPU computes."""
        return self.kind is AcceleratorKind.CPU


ON_CPU = Accelerator(kind=AcceleratorKind.CPU)
ON_ANY_GPU = Accelerator(kind=AcceleratorKind.CUDA)  # any that the machine has


class Gpu(Struct, frozen=True, kw_only=True, cache_hash=True):
    """One GPU's data sheet. Rates are dense, never sparse; None means unknown, or that it has no such units.
    `memory_mib` is what a program can use where that was measured, else the nominal size. `fp16_tflops` is
    the rate of products summed in fp32, as networks need it: half of what GeForce data sheets advertise.
    `sms` counts multiprocessors, `watts` is the power limit as sold."""

    name: str
    vendor: str
    architecture: str
    compute_capability: str | None
    memory_mib: int
    memory_gb_per_second: float
    fp32_tflops: float
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    sms: int | None = None
    l2_mib: float | None = None
    boost_mhz: float | None = None
    watts: float | None = None
    sources: str = ""

    @property
    def capability(self) -> float | None:
        """CUDA compute capability as a number (one minor digit); None if unknown or not CUDA."""
        try:
            return float(self.compute_capability or "")
        except ValueError:
            return None

    def __post_init__(self) -> None:
        require_positive_fields(self, "memory_mib memory_gb_per_second fp32_tflops tf32_tflops fp16_tflops")
        require_positive_fields(self, "bf16_tflops sms l2_mib boost_mhz watts")


class Cpu(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The facts that make vCPUs of two machines comparable. `single_thread_score` is PassMark's single-thread
    mark (None: unknown); `second_thread_yield` is what the second hardware thread of a core adds to the
    first, 0 where a vCPU is a core."""

    model: str
    architecture: str
    single_thread_score: float | None = None
    second_thread_yield: float = 0.0

    def __post_init__(self) -> None:
        require_positive(single_thread_score=self.single_thread_score)
        if not 0 <= self.second_thread_yield <= 1:
            raise ValueError(f"second_thread_yield must lie in 0..1, not {self.second_thread_yield}")


class DiskRate(Struct, frozen=True, kw_only=True):
    """The sustained rate of a disk (baseline, never burst); None means not limited. A read that misses the
    page cache takes at least `read_latency_seconds`. In 9 of 10 cases the true rate is `low` to `high` times
    this one; both are 1 where the seller publishes it."""

    type: str
    read_mib_per_second: float | None = None
    read_iops: float | None = None
    read_latency_seconds: float | None = None
    low: float = 1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.low <= 1 <= self.high < math.inf:
            raise ValueError(f"a rate does not lie between {self.low} and {self.high} times it")
        require_positive_fields(self, "read_mib_per_second read_iops read_latency_seconds")


class Resources(Struct, frozen=True, kw_only=True):
    """The resources that a trial is limited to, or that an instance has. `gpu` is the kind in use,
    `gpu_count` the number of such GPUs, each with one batch."""

    vcpus: float
    physical_cores: float
    memory_mib: float
    disk: DiskRate
    cpu: Cpu | None = None
    gpu: Gpu | None = None
    host_to_gpu_gb_per_second: float | None = None
    gpu_count: int = 1

    def __post_init__(self) -> None:
        require_positive_fields(self, "vcpus physical_cores memory_mib gpu_count")


class Node(Resources, frozen=True, kw_only=True):
    """One of `nodes` equal machines that train one network together, each with a copy of it and a share of
    the data; `gbit_per_second` is its sustained network rate to the others."""

    nodes: int
    gbit_per_second: float

    def __post_init__(self) -> None:
        Resources.__post_init__(self)
        require_positive(nodes=self.nodes, gbit_per_second=self.gbit_per_second)


class AssumedFact(Struct, frozen=True, kw_only=True):
    """A fact about a cloud's machines or disks that no seller publishes, in the unit of its name. In 9 of 10
    cases it is between `low` and `high`; `why` says where it comes from; an `imported` one is the user's."""

    cloud: str
    name: str
    value: float
    low: float
    high: float
    why: str
    imported: bool = False

    def __post_init__(self) -> None:
        require_positive(value=self.value, low=self.low, high=self.high)
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.name} is not between {self.low:g} and {self.high:g}")


class NodeNetwork(Struct, frozen=True, kw_only=True):
    """An instance's sustained network rate in each direction, over all `cards`; `source` publishes it."""

    gbit_per_second: float
    cards: int
    source: str

    def __post_init__(self) -> None:
        require_positive(gbit_per_second=self.gbit_per_second, cards=self.cards)

    @property
    def takes_several_cards(self) -> bool:
        """True if the rate takes several network cards, which AWS joins by EFA."""
        return self.cards > 1


class InstanceType(Struct, frozen=True, kw_only=True):
    """One instance type of a cloud: facts, no price. Rates of the network disk (`ebs_*` on AWS) are the
    instance's limit, with baseline and burst apart. `instance_store_gib` is local NVMe or SSD in the
    instance; `accelerator` names one that is no GPU (Inferentia, an FPGA); `cpu_score_basis` is the machine
    that the CPU's score was measured on ("": it has no score); `network` leads to other instances (None: its
    rate is not published); `assumed` are the facts among these that nobody publishes."""

    cloud: str
    name: str
    vcpus: int
    physical_cores: int
    memory_mib: int
    cpu: Cpu
    gpu_name: str | None = None
    gpu_vendor: str | None = None
    gpu_count: int = 0
    gpu_fraction: float = 1.0
    gpu_memory_mib: int | None = None
    host_to_gpu_gb_per_second: float | None = None
    accelerator: str | None = None
    cpu_score_basis: str = ""
    ebs_baseline_mib_per_second: float | None = None
    ebs_baseline_iops: float | None = None
    ebs_burst_mib_per_second: float | None = None
    ebs_burst_iops: float | None = None
    instance_store_gib: float = 0.0
    instance_store_read_iops: float | None = None
    network: NodeNetwork | None = None
    burstable: bool = False
    current: bool = True
    assumed: tuple[AssumedFact, ...] = ()
    as_of: date
    source: str

    def __post_init__(self) -> None:
        require_positive_fields(self, "vcpus physical_cores memory_mib gpu_memory_mib")
        if self.physical_cores > self.vcpus:
            raise ValueError(f"{self.name}: more physical cores than vCPUs")
        if (self.gpu_name is None) != (self.gpu_count == 0):
            raise ValueError(f"{self.name}: a GPU name without a GPU count, or the reverse")


def gpu_of_row(row: Mapping[str, str]) -> Gpu:
    """The data sheet in one row; memory is nominal. `KeyError` or `ValueError` for rows of another table."""
    sms = row["sms"]
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"] or None,
        memory_mib=int(float(row["memory_gib"]) * 1024),
        memory_gb_per_second=float(row["memory_gb_per_second"]),
        fp32_tflops=float(row["fp32_tflops"]),
        sms=int(sms) if sms else None,
        **{name: number_of(row[name]) for name in _OPTIONAL_NUMBERS},
        sources=f"{row['sources']} ({row['confidence']} confidence)",
    )


_OPTIONAL_NUMBERS = ("tf32_tflops", "fp16_tflops", "bf16_tflops", "l2_mib", "boost_mhz", "watts")


def number_of(cell: str | None) -> float | None:
    """The number in a cell; None for an empty or missing cell, which means unknown."""
    return float(cell) if cell else None


def require_positive(**values: float | None) -> None:
    """`ValueError` for a value that is not a finite number above zero; None means unknown and passes."""
    for name, value in values.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be a number above 0, not {value!r}")


def require_positive_fields(record: Struct, names: str) -> None:
    """`ValueError` unless these fields of a record, in one text, are None or above 0."""
    require_positive(**{name: getattr(record, name) for name in names.split()})


def is_positive(value: object) -> bool:
    """True if a value from a user's file is a finite number above 0; true and "1" are not numbers. JSON
    allows integers larger than any float; they do not count as finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value <= sys.float_info.max


class Range(Struct, frozen=True):
    """Numbers from `least` to `most`, both included; None leaves that end open."""

    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        require_positive(least=self.least, most=self.most)
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"nothing lies between {self.least:g} and {self.most:g}")

    @property
    def limits(self) -> bool:
        """True if it excludes any value."""
        return (self.least, self.most) != (None, None)

    def __contains__(self, value: float | None) -> bool:
        """True if a value is in the range; an unknown one is only in a range without limits."""
        if value is None:
            return not self.limits
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


ANY = Range()
