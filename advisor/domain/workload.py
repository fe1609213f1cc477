"""Workloads: network, data set and settings; and observations of their steps on GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from advisor.domain.machines import Gpu, require_positive, require_positive_fields
from advisor.domain.words import DataKind, MemoryFormat, Precision, Protocol, Stack, Task, Tf32

MIB = 2**20
# Storage formats without images; all others hold images that must be decoded.
_KINDS = {
    "text": DataKind.TOKENS,
    "tensors": DataKind.TENSOR,
    "requests": DataKind.TENSOR,
    "text-requests": DataKind.TOKENS,
    "synthetic": DataKind.TENSOR,
}


class DatasetProfile(Struct, frozen=True, kw_only=True):
    """A data set as the input pipeline sees it: means over its samples. `bytes_per_sample` is the stored
    size, `width` x `height` the size after decoding (1 x 1 without decoding), `sample` the name of one
    sample. To make a sample, a diffusion network runs `steps` passes, twice as many with `guidance`; for
    others `steps` is 0."""

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
        """Images to decode, text to tokenize, or stored tensors."""
        return _KINDS.get(self.storage_format, DataKind.IMAGE)

    @property
    def is_read(self) -> bool:
        """True if it is read from a disk; requests come over the network, one by one."""
        return not self.storage_format.endswith("requests")

    @property
    def passes(self) -> int:
        """Passes of a sample through the network."""
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


class Workload(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Network x task x batch size x precision x dataset profile, and the stack that runs it. `input` is one
    sample of the batch, as `3x384x384` or `seq:384`; None is the network's default. `conditions` are further
    known conditions of a published row's step, by name."""

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


# Defaults: PyTorch without settings, on images, at the network's default input.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
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
    """A workload's fields, its data set's included, without stack and sample settings at their defaults; also
    in JSON: workloads stored before these fields existed stay the same."""
    nothing = object()
    return {
        name: without_the_usual(value) if isinstance(value, Mapping) else value
        for name, value in workload.items()
        if (tuple(value) if isinstance(value, list) else value) != _DEFAULTS.get(name, nothing)
    }


def is_own_code(reference: str) -> bool:
    """True if a reference names the user's code (`net.py:build`, `net.py`), not a network of the zoo."""
    return reference.endswith(".py") or ".py:" in reference


def own_file(reference: str) -> tuple[str, str]:
    """The file and function of a reference `path/net.py:build`; the function is `build` without a name."""
    stem, is_named, function = reference.rpartition(".py:")
    return (f"{stem}.py", function or "build") if is_named else (reference, "build")


# Names of files with code or weights, but not tags of weights (`resnet50.a1_in1k`, `regnetx_002.pycls_in1k`).
_FILE = re.compile(
    r"[~.]|/|.*\\|.*\.(py|ipynb|ptl?|pth|onnx|ckpt|gguf|safetensors|bin|h5|pkl|ya?ml|json)(?!\w)",
    re.IGNORECASE,
)


def names_a_file(reference: str) -> bool:
    """True if a reference is a path or a file name, so that no bundled network is meant."""
    return _FILE.match(reference.strip()) is not None


# Standard error of log seconds of a carefully timed step.
STEP_SIGMA = 0.03


class ScalingObservation(Struct, frozen=True, kw_only=True):
    """A measured training on several ranks, compared with one rank (`advisor measure --ranks`). Mean seconds
    of a step alone, of a step together, and of an all-reduce of the gradients. `gbit_per_second` is the
    network's rate as sold, None if not given; `gpu` is None where a GPU was emulated or none was used."""

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
        """The rate of all ranks over `ranks` times the rate of one."""
        return self.one_step_seconds / self.step_seconds


class Observation(Struct, frozen=True, kw_only=True):
    """Seconds of one step of a network on `gpu`, as PyTorch ran it there. The workload has batch size,
    precision, stack and input; its data set does not matter. `sigma` is the standard error of log seconds,
    `peak_mib` the GPU memory that torch used (None: not known), `origin` the file and row, or the trial, for
    messages."""

    workload: Workload
    gpu: Gpu
    seconds: float
    sigma: float = STEP_SIGMA
    peak_mib: float | None = None
    origin: str = ""

    def __post_init__(self) -> None:
        require_positive(seconds=self.seconds, sigma=self.sigma, peak_mib=self.peak_mib)
