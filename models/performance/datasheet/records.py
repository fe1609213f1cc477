"""What is known of one measured rate: network, GPU with its data sheet, and software."""

from __future__ import annotations

from advisor.domain import Gpu, Precision, Task, require_positive
from advisor.records import dataclass, replace
from models.performance.step_work import HALF


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A stack whose rates may be compared: its `name`, the `libraries` it was built on ("CUDA 10",
    "TF 2.4"), whether a compiler fused the network (XLA), whether fp32 may run as TF32.

    `newer` tells the libraries of Ampere's generation (CUDA 11 on): compilers gained less there.
    """

    name: str
    libraries: str = ""
    compiled: bool = False
    tf32: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """Samples per second of one network on one GPU; `source` is the machine that measured it.

    `gpu` is None where the data sheet is missing: such a row teaches how networks and software
    compare, and cannot be predicted. `precision` is a `Precision` or `HALF`.
    `samples_per_second` may be anything in a row that is only predicted.
    """

    gpu_name: str
    gpu: Gpu | None
    network: str
    task: Task
    precision: str
    batch_size: float
    software: Software
    source: str
    samples_per_second: float = 1.0

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size, samples_per_second=self.samples_per_second)
        if self.precision != HALF:
            Precision(self.precision)

    @property
    def workload(self) -> str:
        """'resnet50/training/fp32'."""
        return f"{self.network}/{self.task}/{self.precision}"

    def measured(self, samples_per_second: float) -> RateRow:
        """The same row with another rate."""
        return replace(self, samples_per_second=samples_per_second)
