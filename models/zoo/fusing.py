"""What a compiler makes of a step's kernels: chains of light operations become one kernel.

A light operation joins the kernel that made its input, as TorchInductor's do; what only travels
inside a kernel is neither written nor read again. Products and convolutions stay by themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from models.zoo.kernels import Kernel, Part

_LIGHT = frozenset(("norm", "pool", "copy", "cast", "reduce", "softmax", "elementwise"))
# Kinds that give way to another one's name when they are joined.
_NAMELESS = frozenset(("elementwise", "cast", "copy"))

# A storage and how often it was written before: in-place operations make a new value of it.
_Value = tuple[int, int]


@dataclass
class _Joined:
    first: Kernel
    kind: str
    reads: dict[_Value, Part] = field(default_factory=dict)
    writes: dict[_Value, Part] = field(default_factory=dict)


def fused(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels of the compiled step, in the order of their first parts."""
    written: Counter[int] = Counter()
    maker: dict[_Value, int] = {}
    users: dict[_Value, set[int]] = defaultdict(set)
    joined: list[_Joined] = []
    for kernel in kernels:
        reads = [((part.storage, written[part.storage]), part) for part in kernel.reads]
        written.update(part.storage for part in kernel.writes)
        writes = [((part.storage, written[part.storage]), part) for part in kernel.writes]
        place = _place(kernel, [value for value, _ in reads], maker, joined)
        target = joined[place]
        for value, part in reads:
            users[value].add(place)
            if value not in target.writes:
                target.reads[value] = part
        for value, part in writes:
            target.writes[value] = part
            maker[value] = place
    return [_kernel(place, one, users) for place, one in enumerate(joined)]


def _place(
    kernel: Kernel, reads: Sequence[_Value], maker: dict[_Value, int], joined: list[_Joined]
) -> int:
    """Where the kernel goes: to the latest light one that made an input, or to a new place."""
    if kernel.kind in _LIGHT:
        places = [maker[value] for value in reads if value in maker]
        light = [place for place in places if joined[place].first.kind in _LIGHT]
        if light:
            target = joined[max(light)]
            if kernel.kind != "elementwise" and target.kind in _NAMELESS:
                target.kind = kernel.kind
            return max(light)
    joined.append(_Joined(kernel, kernel.kind))
    return len(joined) - 1


def _kernel(place: int, one: _Joined, users: dict[_Value, set[int]]) -> Kernel:
    # What nobody reads is a result, and what others read must be written.
    kept = [part for value, part in one.writes.items() if users[value] != {place}]
    first = one.first
    return Kernel(
        first.name, one.kind, first.flops, first.fixed_flops, tuple(one.reads.values()),
        tuple(kept), first.reduction, first.width, first.backward,
    )  # fmt: skip
