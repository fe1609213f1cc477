"""Which operations a network runs on a GPU, found on the meta device without computing.

A step is recorded once (`kernels`), and told in the classes of the bundled table of networks, or
in rows for the layer-wise model, which knows more classes, automatic casts and compiled steps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.errors import UsageError
from models.zoo.autocast import as_on_a_gpu
from models.zoo.building import build_on_meta
from models.zoo.fusing import fused
from models.zoo.kernels import PRIME_BATCH, Kernel, KernelLog, recording
from models.zoo.opening import Runnable

if TYPE_CHECKING:
    import torch

OPERATION_CLASSES = (
    "conv_depthwise",
    "conv_grouped",
    "conv_1x1",
    "conv_3x3",
    "conv_kxk",
    "linear",
    "norm",
    "pool",
    "elementwise",
)
# What the bundled table calls the kinds that it does not tell apart.
_CLASS_OF_KIND = {kind: kind for kind in OPERATION_CLASSES} | {"attention": "linear"}
_SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Operation:
    """One kernel: FLOPs and bytes per sample in fp32, and bytes that any batch moves."""

    kind: str
    flops: float
    sample_bytes: float
    fixed_bytes: float


class OperationRow(NamedTuple):
    """Kernels that are alike: means per kernel, and how many there are.

    FLOPs and sample bytes are per sample, fixed bytes of any batch; `reduction` x `width` is the
    matrix that each output row is multiplied with. `backward` (0 or 1): autograd starts them.
    """

    kind: str
    backward: int
    flops: float
    sample_bytes: float
    fixed_bytes: float
    reduction: float
    width: float
    kernels: int


def capture_operations(
    network: torch.nn.Module, side: int, *, training: bool
) -> tuple[Operation, ...]:
    """Operations of one forward pass, or of forward and backward, in launch order.

    `network` lives on the meta device and takes (batch, 3, side, side) in fp32.
    """
    log = KernelLog()
    with recording(log):
        _step(network, _images(side), log, training)
    return in_classes(log.kernels)


def in_classes(kernels: Sequence[Kernel]) -> tuple[Operation, ...]:
    """Kernels as the classes of the bundled table tell them, in launch order."""
    return tuple(
        Operation(
            _CLASS_OF_KIND.get(kernel.kind, "elementwise"),
            kernel.flops,
            kernel.sample_bytes,
            kernel.fixed_bytes,
        )
        for kernel in kernels
    )


def classifier_kernels(
    network: torch.nn.Module, side: int, *, training: bool, autocast: bool, compiled: bool = False
) -> list[Kernel]:
    """Kernels of a step of an image classifier on a GPU, in launch order.

    `network` lives on the meta device. `autocast` is mixed precision (fp16), else fp32.
    """
    return _kernels(lambda log: _step(network, _images(side), log, training), autocast, compiled)


def network_kernels(
    network: Runnable, *, training: bool, autocast: bool, compiled: bool = False
) -> list[Kernel]:
    """Kernels of a step of any network, of the zoo or the user's own.

    Raises `UsageError` where torch cannot run it without data: sizes or branches that depend on
    values, operations without a meta kernel.
    """
    import torch

    with told_as_usage(network.info.name):
        module = build_on_meta(network.build).train(training)
        with torch.device("meta"):
            inputs, targets = network.synthetic_batch(PRIME_BATCH, "meta")

        def step(log: KernelLog) -> None:
            if not training:
                with torch.no_grad():
                    network.forward(module, inputs)
                return
            loss = network.training_loss(module, inputs, targets)
            log.backward = True
            torch.autograd.backward(loss)

        return _kernels(step, autocast, compiled)


@contextmanager
def told_as_usage(name: str) -> Iterator[None]:
    """Whatever stops torch from following `name` without data, as a `UsageError` of one line."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0]
        raise UsageError(
            f"torch cannot follow {name} without computing ({type(error).__name__}: {said}); "
            f"measure it instead: advisor measure --model {name}"
        ) from error


def _kernels(step: Callable[[KernelLog], object], autocast: bool, compiled: bool) -> list[Kernel]:
    log = KernelLog()
    with recording(log), as_on_a_gpu(log, autocast=autocast):
        step(log)
    return fused(log.kernels) if compiled else log.kernels


def operation_rows(kernels: Sequence[Kernel]) -> list[OperationRow]:
    """Kernels that are alike as one row: of a kind, and in all sizes within an octave or two.

    A layer-wise model bends only where arithmetic and memory traffic, or a kernel's own time,
    are near each other, so means over an octave say what the kernels one by one would.
    """
    alike: dict[tuple[Any, ...], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        alike[_likeness(kernel)].append(kernel)
    return [_row(group) for group in alike.values()]


def _likeness(kernel: Kernel) -> tuple[Any, ...]:
    size = kernel.sample_bytes + kernel.fixed_bytes / PRIME_BATCH
    key = (kernel.kind, kernel.backward, kernel.flops > 0)
    if not kernel.flops:
        return (*key, _octave(size) // 2)
    aligned = kernel.reduction % 8 == 0 and kernel.width % 8 == 0
    widths = (_octave(kernel.reduction), _octave(kernel.width), aligned)
    return (*key, *widths, _octave(kernel.flops), _octave(kernel.flops / max(size, 1.0)))


def _octave(value: float) -> int:
    return round(math.log2(value)) if value > 0 else -1


def _row(group: Sequence[Kernel]) -> OperationRow:
    first, count = group[0], len(group)

    def mean(values: Sequence[float]) -> float:
        return _rounded(sum(values) / count)

    return OperationRow(
        first.kind,
        int(first.backward),
        mean([kernel.flops for kernel in group]),
        mean([kernel.sample_bytes for kernel in group]),
        mean([kernel.fixed_bytes for kernel in group]),
        _middle([kernel.reduction for kernel in group]),
        _middle([kernel.width for kernel in group]),
        count,
    )


def _middle(sizes: Sequence[int]) -> int:
    """One of the sizes, so that what is a multiple of eight stays one."""
    return sorted(sizes)[len(sizes) // 2]


def _rounded(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


def _images(side: int) -> torch.Tensor:
    import torch

    return torch.empty(PRIME_BATCH, 3, side, side, device="meta")


def _step(network: torch.nn.Module, images: torch.Tensor, log: KernelLog, training: bool) -> None:
    import torch

    network.train(training)
    network.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training):
        outputs = network(images)
        if not training:
            return
        logits = outputs[0] if isinstance(outputs, tuple | list) else outputs
        labels = torch.empty(PRIME_BATCH, dtype=torch.int64, device="meta")
        loss = torch.nn.functional.cross_entropy(logits, labels)
        log.backward = True
        torch.autograd.backward(loss)
