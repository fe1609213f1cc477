"""Workloads: network, data set and settings; and a user's own measurement of one on a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from advisor.domain.machines import Gpu, require_positive, require_positive_fields
from advisor.domain.words import DataKind, MemoryFormat, Precision, Protocol, Stack, Task, Tf32

MIB = 2**20
# Formats of what is no image; all others hold images that must be decoded.
_KINDS = {
    "text": DataKind.TOKENS,
    "tensors": DataKind.TENSOR,
    "requests": DataKind.TENSOR,
    "synthetic": DataKind.TENSOR,
}


class DatasetProfile(Struct, frozen=True, kw_only=True):
    """What the input pipeline sees of a data set: means over its samples.

    `bytes_per_sample` is the stored size, `width` x `height` the size after decoding (1 x 1 where nothing is
    decoded), `sample` what one is called. A sample that a diffusion network makes takes `steps` passes
    through it, twice as many with `guidance`; of others `steps` is 0."""

    name: str
    samples: int
    bytes_per_sample: float
    storage_format: str
    width: int
    height: int
    sample: str = "image"
    steps: int = 0
    guidance: bool = False

    def __post_init__(self) -> None:
        require_positive_fields(self, "samples bytes_per_sample width height")

    @property
    def kind(self) -> DataKind:
        """Images that are decoded, text that is made tokens, or tensors that are stored as such."""
        return _KINDS.get(self.storage_format, DataKind.IMAGE)

    @property
    def is_read(self) -> bool:
        """Whether it lies on a disk: requests come over the network, one by one."""
        return self.storage_format != "requests"

    @property
    def passes(self) -> int:
        """Times that a sample goes through the network."""
        return max(1, self.steps) * (1 + self.guidance)

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


class Workload(Struct, frozen=True, kw_only=True):
    """Network x task x batch size x precision x dataset profile, and the stack that runs it.

    `input` is one sample of the batch, as `3x384x384` or `seq:384`; None is the network's own. `conditions`
    are of published rows alone: what else is known of how a step ran, by its name."""

    network: str
    task: Task
    batch_size: int
    precision: Precision = Precision.FP32
    dataset: DatasetProfile = IMAGENET
    stack: Stack = Stack.EAGER
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    tf32: Tf32 = Tf32.CONVOLUTIONS
    input: str | None = None
    protocol: Protocol = Protocol.SCRIPT
    conditions: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        require_positive(batch_size=self.batch_size)


# PyTorch as it runs by itself on images, on the network's own input.
_USUAL: Mapping[str, Any] = MappingProxyType(
    {
        "stack": Stack.EAGER,
        "memory_format": MemoryFormat.CONTIGUOUS,
        "tf32": Tf32.CONVOLUTIONS,
        "input": None,
        "protocol": Protocol.SCRIPT,
        "conditions": (),
        "sample": "image",
        "steps": 0,
        "guidance": False,
    }
)


def without_the_usual(workload: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's fields (its data set's among them) but for those of the stack and the sample
    that are as usual, in JSON too: workloads of before these fields were known are still the same."""
    nothing = object()
    return {
        name: without_the_usual(value) if isinstance(value, Mapping) else value
        for name, value in workload.items()
        if (tuple(value) if isinstance(value, list) else value) != _USUAL.get(name, nothing)
    }


def is_own(reference: str) -> bool:
    """Whether this names code (`net.py:build`, `net.py`) and not a network of the zoo."""
    return reference.endswith(".py") or ".py:" in reference


def own_file(reference: str) -> tuple[str, str]:
    """The file of `path/net.py:build` and its function: `build` where none is named."""
    stem, is_named, function = reference.rpartition(".py:")
    return (f"{stem}.py", function or "build") if is_named else (reference, "build")


# Of code, and of weights; a tag of weights (`resnet50.a1_in1k`, `regnetx_002.pycls_in1k`) is none.
_FILE = re.compile(
    r"[~.]|/|.*\\|.*\.(py|ipynb|ptl?|pth|onnx|ckpt|gguf|safetensors|bin|h5|pkl|ya?ml|json)(?!\w)",
    re.IGNORECASE,
)


def names_a_file(reference: str) -> bool:
    """Whether this is a path or a file's name: no bundled network answers for it."""
    return _FILE.match(reference.strip()) is not None


# Standard error of the logarithm of a step that was timed with care.
STEP_SIGMA = 0.03


class ScalingObservation(Struct, frozen=True, kw_only=True):
    """A training on several ranks beside the same on one, measured (`advisor measure --ranks`).

    Mean seconds of a step alone, together, and of an all-reduce of the gradients alone. `gbit_per_second` is
    the network's rate as sold, None where nobody said; `gpu` None where a GPU was emulated, or none
    computed."""

    gpu: Gpu | None
    backend: str
    ranks: int
    nodes: int
    gbit_per_second: float | None
    gradient_bytes: float
    one_step_seconds: float
    step_seconds: float
    all_reduce_seconds: float

    def __post_init__(self) -> None:
        require_positive_fields(self, "ranks nodes gbit_per_second gradient_bytes")
        require_positive_fields(self, "one_step_seconds step_seconds all_reduce_seconds")

    @property
    def efficiency(self) -> float:
        """The rate of all over as many times that of one."""
        return self.one_step_seconds / self.step_seconds


class Observation(Struct, frozen=True, kw_only=True):
    """Seconds of one step of a workload's network alone on `gpu`, as PyTorch ran it there.

    The workload says batch, precision, stack and input; its data set does not matter. `sigma` is the standard
    error of log seconds, `peak_mib` what torch took from the GPU (None: not known), `origin` the file and
    row, or the trial, that a message names."""

    workload: Workload
    gpu: Gpu
    seconds: float
    sigma: float = STEP_SIGMA
    peak_mib: float | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, sigma=self.sigma, peak_mib=self.peak_mib)
