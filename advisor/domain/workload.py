"""What is computed: a data set's profile and a workload over it."""

from __future__ import annotations

from advisor.domain.checks import require_positive
from advisor.domain.words import Precision, Task
from advisor.records import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetProfile:
    """What the input pipeline sees of a data set: means over its samples.

    `bytes_per_sample` is the stored size, `width` x `height` the size after decoding.
    """

    name: str
    samples: int
    bytes_per_sample: float
    storage_format: str
    width: int
    height: int

    def __post_init__(self) -> None:
        require_positive(
            samples=self.samples,
            bytes_per_sample=self.bytes_per_sample,
            width=self.width,
            height=self.height,
        )

    @property
    def pixels(self) -> int:
        """Decoded pixels of one sample."""
        return self.width * self.height

    @property
    def total_mib(self) -> float:
        """Stored size of the whole data set."""
        return self.samples * self.bytes_per_sample / MIB


# ImageNet-1k as it is distributed: 1,281,167 JPEG files of 110 kB on average (ILSVRC2012).
IMAGENET = DatasetProfile(
    name="imagenet",
    samples=1_281_167,
    bytes_per_sample=110_000,
    storage_format="jpeg-files",
    width=500,
    height=375,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Network x task x batch size x precision x dataset profile."""

    network: str
    task: Task
    batch_size: int
    precision: Precision = Precision.FP32
    dataset: DatasetProfile = IMAGENET

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size)
