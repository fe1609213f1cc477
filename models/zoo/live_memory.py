"""Computes the GPU memory that is live during a recorded step, and what torch's allocator reserves for it.

A step recorded under automatic mixed precision also gives the memory in fp32: there no casts exist, so a
tensor and its casts count as one storage of four bytes an element.

The allocator imitates torch's for CUDA: blocks, pools, rounding and splitting as the default of
c10/cuda/CUDACachingAllocator.cpp since 1.0, on one stream, without expandable segments; it returns nothing to
the driver."""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import MIB
from advisor.models.zoo.kernels import PRIME_BATCH, KernelLog, per_sample, tensors_in

if TYPE_CHECKING:
    import torch

_ROUNDING = 512
_SMALL = MIB
_SMALL_SEGMENT, _LARGE_SEGMENT, _SEGMENT_ROUNDING = 2 * MIB, 20 * MIB, 2 * MIB
_OWN_SEGMENT_FROM = 10 * MIB


class _Block(Struct):
    size: int
    small: bool
    free: bool
    before: int | None = None
    behind: int | None = None


class CachingAllocator:
    """torch's GPU memory allocator; `reserved_bytes` is the sum of its segments, as nvidia-smi shows it."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._blocks: list[_Block] = []
        # (size, number) of free blocks in the small and the large pool, the smallest first.
        self._free: tuple[list[tuple[int, int]], ...] = ([], [])

    def allocate(self, size: float) -> int:
        """Take a block of so many bytes, and return its number: the smallest free block, or a new segment.

        The rest of the block is split off as a free one if it is large enough."""
        rounded = max(_ROUNDING, math.ceil(size / _ROUNDING) * _ROUNDING)
        small = rounded <= _SMALL
        pool = self._free[small]
        position = bisect_left(pool, (rounded, -1))
        number = pool.pop(position)[1] if position < len(pool) else self._new_segment(rounded, small)
        block = self._blocks[number]
        left = block.size - rounded
        if left >= _ROUNDING if small else left > _SMALL:
            self._split(number, rounded)
        block.free = False
        return number

    def free(self, number: int) -> None:
        """Give a block back, and join it with the free neighbours in its segment."""
        block = self._blocks[number]
        if block.behind is not None and self._blocks[block.behind].free:
            self._join(number, block.behind, leaves=block.behind)
        if block.before is not None and self._blocks[block.before].free:
            number = block.before
            self._join(number, self._blocks[number].behind, leaves=number)
            block = self._blocks[number]
        block.free = True
        insort(self._free[block.small], (block.size, number))

    def _new_segment(self, size: int, small: bool) -> int:
        if small:
            segment = _SMALL_SEGMENT
        elif size < _OWN_SEGMENT_FROM:
            segment = _LARGE_SEGMENT
        else:
            segment = math.ceil(size / _SEGMENT_ROUNDING) * _SEGMENT_ROUNDING
        self.reserved_bytes += segment
        self._blocks.append(_Block(segment, small, free=False))
        return len(self._blocks) - 1

    def _split(self, number: int, size: int) -> None:
        block = self._blocks[number]
        rest = _Block(block.size - size, block.small, True, number, block.behind)
        self._blocks.append(rest)
        last = len(self._blocks) - 1
        if block.behind is not None:
            self._blocks[block.behind].before = last
        block.size, block.behind = size, last
        insort(self._free[block.small], (rest.size, last))

    def _join(self, number: int, behind: int | None, *, leaves: int) -> None:
        """Join two neighbouring blocks; `leaves` is the one that was free and so leaves its pool."""
        assert behind is not None
        first, second = self._blocks[number], self._blocks[behind]
        pool = self._free[first.small]
        pool.pop(bisect_left(pool, (self._blocks[leaves].size, leaves)))
        first.size, first.behind = first.size + second.size, second.behind
        if second.behind is not None:
            self._blocks[second.behind].before = number
        second.free = False


# Convolutions for which cuDNN's quickest algorithms need room beside their tensors.
_WITH_WORKSPACE = frozenset(("conv_3x3", "conv_kxk", "conv_grouped"))
# Batch sizes for which memory is stored: between them, and beyond, it is nearly linear.
FACT_BATCHES = (1, 8, 64)


class Storage(Struct):
    """Memory of a tensor and its views: elements per sample, elements of any batch, and bytes per element
    (`width`). It lives from kernel `born` to kernel `ended` (None: beyond the step). `cast_of` is the number
    of the storage that it copies to another floating type, -1 for a weight."""

    sample_elements: float
    fixed_elements: float
    width: int
    floating: bool
    born: int
    ended: int | None = None
    cast_of: int | None = None


class Workspace(NamedTuple):
    """The elements that a convolution reads and writes, about as many as its workspace has."""

    kernel: int
    sample_elements: float
    fixed_elements: float


_OF_WEIGHT = -1


class MemoryLog(KernelLog):
    """The kernels of a step recorded under autocast, and the memory that they allocate and free.

    Storages are watched, not kept alive: they end when they would on a GPU. Weights do not count."""

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.storages: list[Storage] = []
        self.workspaces: list[Workspace] = []
        self._weights = {weight.untyped_storage()._cdata for weight in weights}
        self._places: dict[int, int] = {}

    def add(self, kind: str, work: Any, reads: Any, writes: Any) -> None:
        """Record a kernel, and the storages that it writes."""
        number = len(self.kernels)
        source = self._source_storage(reads) if kind == "cast" else None
        for tensor in tensors_in(writes):
            self._record_storage(tensor, number, source)
        if kind in _WITH_WORKSPACE:
            shares = [per_sample(entry.numel()) for entry in tensors_in([reads, writes])]
            self.workspaces.append(Workspace(number, *map(sum, zip(*shares, strict=True))))
        super().add(kind, work, reads, writes)

    def keep(self, tree: Any) -> None:
        """Record the storages of tensors that no kernel writes."""
        for tensor in tensors_in(tree):
            self._record_storage(tensor, len(self.kernels), None)

    def _source_storage(self, reads: Any) -> int | None:
        for tensor in tensors_in(reads):
            if tensor.is_floating_point():
                key = tensor.untyped_storage()._cdata
                return _OF_WEIGHT if key in self._weights else self._places.get(key)
        return None

    def _record_storage(self, tensor: torch.Tensor, number: int, source: int | None) -> None:
        storage, width = tensor.untyped_storage(), tensor.element_size()
        key = storage._cdata
        if key in self._weights or key in self._places:
            return
        sample, fixed = per_sample(storage.nbytes() // width)
        entry = Storage(sample, fixed, width, tensor.is_floating_point(), number)
        entry.cast_of = source if entry.floating else None
        self._places[key] = len(self.storages)
        self.storages.append(entry)

        def end() -> None:
            self._places.pop(key)
            entry.ended = len(self.kernels)

        weakref.finalize(storage, end).atexit = False


class Span(NamedTuple):
    """Memory in MiB (per sample, and of any batch) that lives from one kernel to another (None: the end)."""

    sample: float
    fixed: float
    born: int
    ended: int | None


def memory_facts(log: MemoryLog) -> dict[str, float]:
    """A step's memory as the network table stores it: MiB without the weights.

    For fp32 and amp: `<precision>_forward_sample` and `_forward_fixed` are live after the forward pass (in
    training: what autograd saved), `_peak_<batch>` is the maximum, and `_reserved_<batch>` what torch's
    allocator has reserved at the end, for each of `FACT_BATCHES`."""
    facts: dict[str, float] = {}
    for precision, spans, width in (("fp32", _in_fp32(log), 4), ("amp", _as_recorded(log), 2)):
        left = _left_by_forward(spans, log)
        facts[f"{precision}_forward_sample"] = sum(entry.sample for entry in left)
        facts[f"{precision}_forward_fixed"] = sum(entry.fixed for entry in left)
        sample, fixed = _live_mib(spans, len(log.kernels))
        for batch in FACT_BATCHES:
            facts[f"{precision}_peak_{batch}"] = float((sample * batch + fixed).max())
        for batch in FACT_BATCHES:
            reserved = reserved_mib(spans, log.workspaces, batch, width)
            facts[f"{precision}_reserved_{batch}"] = reserved
    return facts


def recorded_memory(log: MemoryLog) -> tuple[float, float, float]:
    """The MiB after the forward pass, at the peak, and reserved, of a step that really ran on some batch:
    its memory cannot be split into a sample's share and a fixed part."""
    spans = _as_recorded(log)
    left = _left_by_forward(spans, log)
    sample, fixed = _live_mib(spans, len(log.kernels))
    forward = sum(entry.sample * PRIME_BATCH + entry.fixed for entry in left)
    peak = float((sample * PRIME_BATCH + fixed).max())
    return forward, peak, reserved_mib(spans, log.workspaces, PRIME_BATCH, 4)


def _left_by_forward(spans: Sequence[Span], log: MemoryLog) -> list[Span]:
    end = next((i for i, entry in enumerate(log.kernels) if entry.backward), len(log.kernels))
    return [span for span in spans if span.born < end and (span.ended is None or span.ended > end)]


def reserved_mib(spans: Sequence[Span], workspaces: Sequence[Workspace], batch: int, width: int) -> float:
    """MiB that torch's allocator has reserved after the step.

    Each convolution takes a workspace as large as its tensors, of `width` bytes an element."""
    events: dict[int, tuple[list[int], list[int]]] = {}
    for number, span in enumerate(spans):
        if span.ended is None or span.ended > span.born:
            events.setdefault(span.born, ([], []))[0].append(number)
            if span.ended is not None:
                events.setdefault(span.ended, ([], []))[1].append(number)
    scratch = {
        workspace.kernel: width * (workspace.sample_elements * batch + workspace.fixed_elements)
        for workspace in workspaces
    }
    allocator = CachingAllocator()
    places: dict[int, int] = {}
    for kernel in sorted({*events, *scratch}):
        born, ended = events.get(kernel, ((), ()))
        for number in ended:
            allocator.free(places.pop(number))
        for number in born:
            span = spans[number]
            places[number] = allocator.allocate(MIB * (span.sample * batch + span.fixed))
        if kernel in scratch:
            allocator.free(allocator.allocate(scratch[kernel]))
    return allocator.reserved_bytes / MIB


def _live_mib(spans: Sequence[Span], kernels: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The live MiB per sample and of any batch while each kernel runs, each of shape (kernels + 1,)."""
    change = np.zeros((2, kernels + 3))
    for span in spans:
        change[:, span.born] += span.sample, span.fixed
        if span.ended is not None:
            change[:, span.ended] -= span.sample, span.fixed
    alive = change.cumsum(axis=1)[:, :-1]
    return alive[0], alive[1]


def _as_recorded(log: MemoryLog) -> list[Span]:
    """The spans under autocast, which keeps its casts of weights until the forward pass has ended."""
    end = next((i for i, entry in enumerate(log.kernels) if entry.backward), len(log.kernels))
    return [
        _span(entry, entry.width, entry.born, _kept_until(entry, end) if entry.born < end else entry.ended)
        for entry in log.storages
    ]


def _kept_until(entry: Storage, end: int) -> int | None:
    if entry.cast_of != _OF_WEIGHT or entry.ended is None:
        return entry.ended
    return max(entry.ended, end + 1)


def _in_fp32(log: MemoryLog) -> list[Span]:
    """The spans in fp32: a storage and its casts are one, as long as any of them; casts of weights none."""
    born: dict[int, int] = {}
    ended: dict[int, int | None] = {}
    for number, entry in enumerate(log.storages):
        root = _original(log.storages, number)
        born[root] = min(born.get(root, entry.born), entry.born)
        earlier = ended.get(root, 0)
        ended[root] = None if earlier is None or entry.ended is None else max(earlier, entry.ended)
    return [
        _span(log.storages[root], 4 if log.storages[root].floating else None, start, ended[root])
        for root, start in born.items()
        if root != _OF_WEIGHT
    ]


def _original(storages: Sequence[Storage], number: int) -> int:
    while number != _OF_WEIGHT and (source := storages[number].cast_of) is not None:
        number = source
    return number


def _span(entry: Storage, width: int | None, born: int, ended: int | None) -> Span:
    scale = (width or entry.width) / MIB
    return Span(entry.sample_elements * scale, entry.fixed_elements * scale, born, ended)
