"""How torch's CUDA caching allocator reserves memory, replayed without a GPU.

Blocks, pools, rounding and splitting as c10/cuda/CUDACachingAllocator.cpp has them since 1.0 by
default, on one stream, without expandable segments; nothing is given back to the driver.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort

from msgspec import Struct

from advisor.domain import MIB

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
    """`reserved_bytes` is the sum of all segments, which is what nvidia-smi sees of them."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._blocks: list[_Block] = []
        # (size, number) of free blocks in the small and the large pool, the smallest first.
        self._free: tuple[list[tuple[int, int]], ...] = ([], [])

    def allocate(self, size: float) -> int:
        """The number of a block of so many bytes: the smallest that is free, or of a new segment.

        What is left of it is split off as a free block where that is worth it.
        """
        rounded = max(_ROUNDING, math.ceil(size / _ROUNDING) * _ROUNDING)
        small = rounded <= _SMALL
        pool = self._free[small]
        at = bisect_left(pool, (rounded, -1))
        number = pool.pop(at)[1] if at < len(pool) else self._new_segment(rounded, small)
        block = self._blocks[number]
        left = block.size - rounded
        if left >= _ROUNDING if small else left > _SMALL:
            self._split(number, rounded)
        block.free = False
        return number

    def free(self, number: int) -> None:
        """Give a block back, joined with free neighbours of its segment."""
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
        """Make two neighbours one; `leaves` is the one that was free, and leaves its pool."""
        assert behind is not None
        first, second = self._blocks[number], self._blocks[behind]
        pool = self._free[first.small]
        pool.pop(bisect_left(pool, (self._blocks[leaves].size, leaves)))
        first.size, first.behind = first.size + second.size, second.behind
        if second.behind is not None:
            self._blocks[second.behind].before = number
        second.free = False
