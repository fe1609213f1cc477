"""Memory in use on a GPU during a step: parts that are computed, and parts found by replaying the step.

memory.npy has the replayed parts of every network that ships, at the inputs that people use. A row is one
network at one input; `infra` builds the rows together with the network table. A row has eight numbers (nan:
unknown; from `advisor.models.zoo.live_memory.memory_facts`) for each of a training step, a training step with
checkpointing and inference without gradients, in fp32 and in amp."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import MIB, Precision, Resources, Task, Workload
from advisor.errors import DataError, UsageError
from advisor.models.bayes import Floats
from advisor.models.bundled import read_bundled_array
from advisor.models.performance.networks import NetworkFacts, bundled_networks


class Optimizer(StrEnum):
    """The values kept for each trained parameter beside its gradient, all in fp32 (torch.optim)."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"


_COPIES_KEPT = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 1, Optimizer.ADAM: 2}
# torch.optim updates all tensors at once by default; Adam's then makes one temporary copy of them.
_COPIES_IN_UPDATE = {Optimizer.SGD: 0, Optimizer.MOMENTUM: 0, Optimizer.ADAM: 1}


class Point(NamedTuple):
    """MiB at one batch size, without weights and optimiser state.

    `forward` is in use at the end of the forward pass, `peak` is the most in use at once, and `reserved` is
    what torch's allocator has taken for that by the end of the step."""

    batch: float
    forward: float
    peak: float
    reserved: float


class Conditions(Struct, frozen=True, kw_only=True):
    """The conditions of a step. `keeps_graph` is inference without torch.no_grad()."""

    task: Task
    batch_size: int
    precision: Precision = Precision.FP32
    optimizer: Optimizer = Optimizer.MOMENTUM
    checkpointing: bool = False
    keeps_graph: bool = False

    def __post_init__(self) -> None:
        if self.task is Task.PREPROCESSING:
            raise UsageError("preprocessing takes no GPU memory", hint="ask for training or inference")
        if self.checkpointing and self.task is not Task.TRAINING:
            raise UsageError("--checkpointing saves memory in training only", hint="leave it out")

    @property
    def step(self) -> str:
        """The name of the replayed step. That of `fp16` is the one in fp32, of which fp16 takes half: weights
        have 16 bits too, and nothing is cast."""
        width = "fp32" if self.precision in (Precision.FP32, Precision.FP16) else "16bit"
        ending = "/checkpointing" if self.checkpointing else "/gradients" if self.keeps_graph else ""
        return f"{self.task.value}/{width}{ending}"


def rising(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points, raised where a larger batch takes less of anything than a smaller one: a smaller batch
    always fits where a larger one does, whatever the allocator's segments were in the replay."""
    result: list[Point] = []
    for batch, *sizes in points:
        before = result[-1][1:] if result else (0.0, 0.0, 0.0)
        forward, peak, reserved = map(max, sizes, before)
        peak = max(forward, peak)
        result.append(Point(batch, forward, peak, max(peak, reserved)))
    return tuple(result)


class MemoryProfile(Struct, frozen=True):
    """The memory of one network at one input: for each kind of step, points sorted by batch size.

    `weights_mib` counts parameters and buffers, `trained_mib` the parameters that get gradients. The keys of
    `steps` are as in `Conditions.step`. `traced` is "fake" for a replay without computing and "run" for a
    real run; `takes_images` says whether a sample is an RGB image."""

    name: str
    weights_mib: float
    trained_mib: float
    traced: str
    steps: Mapping[str, tuple[Point, ...]]
    takes_images: bool = True

    def at(self, step: str, batch_size: float) -> Point:
        """MiB at any batch size, interpolated linearly between the points and extrapolated beyond the last.

        Beyond the last point everything grows at least as fast as `forward`: at small batches, gradients may
        have hidden that growth. Raises KeyError for a step that is not in the profile."""
        points = self.steps[step]
        after = next((i for i, entry in enumerate(points) if entry.batch >= batch_size), None)
        upper = max(1, len(points) - 1 if after is None else after)
        low, high = points[upper - 1], points[upper]
        share = (batch_size - low.batch) / (high.batch - low.batch)
        least = high.forward - low.forward if share > 1 else -math.inf
        forward, peak, reserved = (
            max(0.0, b + (share - 1) * max(b - a, least)) for a, b in zip(low[1:], high[1:], strict=True)
        )
        peak = max(forward, peak)
        return Point(batch_size, forward, peak, max(peak, reserved))


class StepMemory(Struct, frozen=True, kw_only=True):
    """MiB at the peak of a step.

    Weights, gradients and optimiser state are exact. `saved_mib` is what the forward pass keeps for the
    backward pass, `temporary_mib` the other tensors at the peak, and `spare_mib` what the allocator takes
    in addition: workspaces, rounding and fragmentation."""

    weights_mib: float
    gradients_mib: float
    optimizer_mib: float
    saved_mib: float
    temporary_mib: float
    spare_mib: float

    @property
    def tensors_mib(self) -> float:
        """MiB that torch reports as allocated at its peak, without workspaces."""
        state = self.weights_mib + self.gradients_mib + self.optimizer_mib
        return state + self.saved_mib + self.temporary_mib

    @property
    def reserved_mib(self) -> float:
        """MiB that torch reports as reserved."""
        return self.tensors_mib + self.spare_mib


def step_memory(profile: MemoryProfile, conditions: Conditions) -> StepMemory:
    """The parts of the larger of two peaks: that of the backward pass and that of the optimiser's update.

    Gradients are freed before each forward pass (torch's default), so some of `gradients_mib` may not exist
    yet at the first peak; `temporary_mib` is then counted too small. Raises `UsageError` for a step that is
    not in the profile, such as checkpointing a network without blocks."""
    try:
        result = profile.at(conditions.step, conditions.batch_size)
    except KeyError as error:
        raise UsageError(
            "{profile} was not traced as {step}",
            hint="ask for another precision, or without checkpointing",
            profile=profile.name,
            step=conditions.step,
        ) from error
    training = conditions.task is Task.TRAINING
    gradients = profile.trained_mib if training else 0.0
    copies = _COPIES_KEPT[conditions.optimizer] if training else 0
    update = gradients * (1 + _COPIES_IN_UPDATE[conditions.optimizer])
    peak = max(result.peak, update)
    beside_gradients = max(0.0, peak - gradients)
    saved = min(result.forward, beside_gradients)
    width = 0.5 if conditions.precision is Precision.FP16 else 1.0
    return StepMemory(
        weights_mib=width * profile.weights_mib,
        gradients_mib=width * gradients,
        optimizer_mib=width * gradients * copies,
        saved_mib=width * saved,
        temporary_mib=width * (beside_gradients - saved),
        spare_mib=width * max(0.0, result.reserved - peak),
    )


def profile_from(name: str, document: Mapping[str, Any]) -> MemoryProfile:
    """The profile in a tracing document; KeyError, TypeError or ValueError if it is not valid."""
    return MemoryProfile(
        name=name,
        weights_mib=float(document["weights_mib"]),
        trained_mib=float(document["trained_mib"]),
        traced=str(document["traced"]),
        steps={
            step: rising(Point(*map(float, point)) for point in points)
            for step, points in document["steps"].items()
        },
        takes_images=bool(document.get("takes_images", True)),
    )


# Formulas that hold for one machine and for columns of them.
Numbers = TypeVar("Numbers", float, Floats)
# Anonymous memory of the measured pipeline: a process with torch and torchvision imported, and
# each forked loader process; batches come on top. Measured: 270 to 315 MiB with one loader
# process, 385 to 395 with two, at batches of 32 images of 224 pixels.
BASE_PROCESS_MIB = 200.0
LOADER_PROCESS_MIB = 60.0
_CUDA_HOST_MIB = 1200.0
_PREFETCHED_BATCHES = 2
# Weights, gradients and one momentum buffer.
_TRAINING_COPIES = 3.0


def loader_workers(vcpus: Numbers) -> Numbers:
    """The number of data loader processes that sweeps use: one per vCPU, at least one."""
    workers: Numbers = np.maximum(1.0, np.floor(vcpus))
    return workers


def host_memory_mib(facts: NetworkFacts, workload: Workload, resources: Resources, on_cpu: bool) -> float:
    """MiB of RAM below which the run dies: processes, batches in flight, and CUDA or the network.

    An emulated GPU (`gpu` is None and not `on_cpu`) needs neither of the last two."""
    batch_mib = facts.input_bytes * workload.batch_size / MIB
    on_gpu = resources.gpu is not None
    device_mib = device_host_mib(facts, workload, on_gpu=on_gpu, on_cpu=on_cpu)
    pipeline_mib = float(pipeline_host_mib(loader_workers(resources.vcpus), batch_mib))
    return pipeline_mib + device_mib * resources.gpu_count  # a process for each GPU


def pipeline_host_mib(workers: Numbers, batch_mib: Numbers) -> Numbers:
    """MiB of the data loader processes and of their batches in flight."""
    needed = BASE_PROCESS_MIB + workers * LOADER_PROCESS_MIB
    return needed + (workers * _PREFETCHED_BATCHES + 2) * batch_mib


def device_host_mib(facts: NetworkFacts, workload: Workload, *, on_gpu: bool, on_cpu: bool) -> float:
    """MiB of host memory that the network takes, on a GPU or on the CPU."""
    if workload.task is Task.PREPROCESSING:
        return 0.0
    if on_gpu:
        return _CUDA_HOST_MIB + facts.weights_mib
    if not on_cpu:
        return 0.0
    memory = facts.memory
    largest = max(memory.transient_fp32, memory.output) * workload.batch_size
    if workload.task is Task.INFERENCE:
        return facts.weights_mib + 3 * largest
    saved = memory.saved_fp32 * workload.batch_size
    return _TRAINING_COPIES * facts.weights_mib + saved + 3 * largest


BUNDLED = "memory.npy"
BATCHES = (1, 8, 64)
RUNS = ("training", "checkpointing", "inference")
PRECISIONS = ("fp32", "amp")
# The name of each run in `Conditions.step`, with a place for the precision.
_STEPS = {
    "training": "training/{}",
    "checkpointing": "training/{}/checkpointing",
    "inference": "inference/{}",
}
_WIDTHS = {"fp32": "fp32", "amp": "16bit"}

Key = tuple[str, str, str]
_KEY = ("library", "name", "input")


class MemoryTable(Mapping[Key, MemoryProfile]):
    """Memory profiles by library, name and input."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        """Rows as the builder makes them."""
        self._rows = rows

    def __getitem__(self, key: Key) -> MemoryProfile:
        # An answer needs one network: decoding the names of all takes longer than one search.
        same = [self._rows[k] == entry.encode() for k, entry in zip(_KEY, key, strict=True)]
        places = np.flatnonzero(np.logical_and.reduce(same))
        if not len(places):
            raise KeyError(key)
        row = self._rows[places[0]]
        return MemoryProfile(
            name=key[1],
            weights_mib=float(row["weights_mib"]),
            trained_mib=float(row["trained_mib"]),
            traced="fake",
            steps=_with_graphs(dict(_steps(row["facts"]))),
            takes_images=key[2].startswith("3x") and key[2].count("x") == 2,
        )

    def __iter__(self) -> Iterator[Key]:
        columns = (self._rows[entry].astype(str).tolist() for entry in _KEY)
        return zip(*columns, strict=True)

    def __len__(self) -> int:
        return len(self._rows)


def _steps(facts: NDArray[np.float32]) -> Iterator[tuple[str, tuple[Point, ...]]]:
    for run, by_precision in zip(RUNS, facts, strict=True):
        for precision, numbers in zip(PRECISIONS, by_precision, strict=True):
            if np.isnan(numbers).any():
                continue
            sample, fixed, *sizes = map(float, numbers)
            peaks = zip(BATCHES, sizes[: len(BATCHES)], sizes[len(BATCHES) :], strict=True)
            points = rising(Point(b, sample * b + fixed, peak, reserved) for b, peak, reserved in peaks)
            yield _STEPS[run].format(_WIDTHS[precision]), points


def _with_graphs(steps: dict[str, tuple[Point, ...]]) -> dict[str, tuple[Point, ...]]:
    """The steps, plus inference that keeps the tensors that a training step would (`keeps_graph`)."""
    result = dict(steps)
    for width in _WIDTHS.values():
        if f"training/{width}" in steps:
            training = steps[f"training/{width}"]
            alone = steps.get(f"inference/{width}", (Point(0.0, 0.0, 0.0, 0.0),) * len(training))
            # What a training step's forward pass keeps, with the same share wasted by the allocator; at
            # least what a forward pass takes that keeps nothing.
            result[f"inference/{width}/gradients"] = rising(
                Point(
                    step.batch,
                    step.forward,
                    max(step.forward, bare.peak),
                    max((step.reserved / step.peak if step.peak else 1.0) * step.forward, bare.reserved),
                )
                for step, bare in zip(training, alone, strict=True)
            )
    return result


@cache
def bundled_memory() -> MemoryTable:
    """The memory table that ships; `DataError` when the file is missing or damaged."""
    return MemoryTable(read_bundled_array(BUNDLED))


def has_memory(name: str) -> bool:
    """True if `name` means a network that the memory table has."""
    try:
        network = bundled_networks().find(name)
    except UsageError:
        return False
    return (network.library, network.key, network.input) in bundled_memory()


@lru_cache(maxsize=256)
def bundled_profile(name: str, size: str | None = None) -> MemoryProfile:
    """The profile of a network of the table at its usual input, or at another such as `3x384x384`.

    At an input that was not replayed, a sample counts as so many samples of the nearest replayed input.
    Raises `UsageError` for an unknown name, and for an input that the network does not take."""
    network = bundled_networks().find(name, size)
    existing = network.scaled or network.input
    try:
        profile = bundled_memory()[network.library, network.key, existing]
    except KeyError as error:
        raise DataError(
            "{bundled} has no {name}",
            hint="build it again with advisor.infra.build.networks",
            bundled=BUNDLED,
            name=name,
        ) from error
    if not network.scaled:
        return profile
    nearest = bundled_networks().find(network.name, existing)
    grown = network.memory.inference_peak_fp32 / nearest.memory.inference_peak_fp32
    return replace(
        profile,
        steps={
            step: tuple(point._replace(batch=point.batch / grown) for point in points)
            for step, points in profile.steps.items()
        },
    )
