"""Which operations a network runs on a GPU, found on the meta device without computing.

Every operation is captured at two batch sizes. What grows with the batch is the share of a
sample, what stays is the share of the weights, so no per-operation knowledge is needed for
bytes. FLOPs are 2 x multiply-accumulates. Views launch nothing and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
# The smallest batch with which batch normalisation trains, and its double.
_SMALL, _LARGE = 2, 4


@dataclass(frozen=True, slots=True)
class Operation:
    """One kernel: FLOPs and bytes per sample in fp32, and bytes that any batch moves."""

    kind: str
    flops: float
    sample_bytes: float
    fixed_bytes: float


def capture_operations(
    network: torch.nn.Module, side: int, *, training: bool
) -> tuple[Operation, ...]:
    """Operations of one forward pass, or of forward and backward, in launch order.

    `network` lives on the meta device and takes (batch, 3, side, side) in fp32.
    """
    small = _run(network, side, _SMALL, training)
    large = _run(network, side, _LARGE, training)
    if [kind for kind, *_ in small] != [kind for kind, *_ in large]:
        raise ValueError("the operations of this network depend on the batch size")
    return tuple(_per_sample(low, high) for low, high in zip(small, large, strict=True))


def _per_sample(low: tuple[str, float, float], high: tuple[str, float, float]) -> Operation:
    step = _LARGE - _SMALL
    sample_bytes = (high[2] - low[2]) / step
    return Operation(
        kind=low[0],
        flops=(high[1] - low[1]) / step,
        sample_bytes=sample_bytes,
        fixed_bytes=low[2] - _SMALL * sample_bytes,
    )


def _run(
    network: torch.nn.Module, side: int, batch: int, training: bool
) -> list[tuple[str, float, float]]:
    import torch

    recorded: list[tuple[str, float, float]] = []
    images = torch.empty(batch, 3, side, side, device="meta")
    network.train(training)
    network.zero_grad(set_to_none=True)
    with _recorder(recorded), torch.set_grad_enabled(training):
        logits = network(images)
        if training:
            labels = torch.empty(batch, dtype=torch.int64, device="meta")
            torch.autograd.backward(torch.nn.functional.cross_entropy(logits, labels))
    return recorded


def _recorder(recorded: list[tuple[str, float, float]]) -> Any:
    """A dispatch mode that appends (class, FLOPs, bytes) of each operation that launches."""
    from torch.utils._python_dispatch import TorchDispatchMode

    mode: Any = TorchDispatchMode  # carries no types

    class Recorder(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if not _is_view(func):
                moved = sum(map(_bytes, tensors_in([args, kwargs, result])))
                recorded.append((_class_of(func, args), _flops(func, args, result), moved))
            return result

    return Recorder()


def _is_view(func: Any) -> bool:
    """Whether the result shares its input's memory, or memory is only set aside."""
    name = func.overloadpacket.__name__
    returned = [value.alias_info for value in func._schema.returns]
    shares = any(alias is not None and not alias.is_write for alias in returned)
    return shares or name.startswith(("empty", "new_empty", "_unsafe_view", "detach"))


def _class_of(func: Any, args: Any) -> str:
    name = func.overloadpacket.__name__
    if name.startswith("convolution"):
        weight, groups = (args[2], args[9]) if "backward" in name else (args[1], args[8])
        return _convolution_class(tuple(weight.shape), groups)
    for part, kind in (("mm", "linear"), ("norm", "norm"), ("pool", "pool")):
        if part in name:
            return kind
    return "elementwise"


def _convolution_class(weight_shape: tuple[int, ...], groups: int) -> str:
    kernel = tuple(weight_shape[2:])
    if groups > 1:
        return "conv_depthwise" if weight_shape[1] == 1 else "conv_grouped"
    named: dict[tuple[int, ...], str] = {(1, 1): "conv_1x1", (3, 3): "conv_3x3"}
    return named.get(kernel, "conv_kxk")


def _flops(func: Any, args: Any, result: Any) -> float:
    """2 x MAC of convolutions and matrix products; the rest is bound by memory."""
    name = func.overloadpacket.__name__
    if name == "convolution":
        return _convolution_flops(args[1], result)
    if name == "convolution_backward":
        wanted = sum(bool(asked) for asked in args[10][:2])
        return wanted * _convolution_flops(args[2], args[0])
    if name in ("mm", "addmm"):
        left, right = args[-2:]
        return float(2 * left.shape[0] * left.shape[1] * right.shape[1])
    return 0.0


def _convolution_flops(weight: torch.Tensor, output: torch.Tensor) -> float:
    per_output_value = math.prod(weight.shape[1:])
    return 2.0 * float(output.numel()) * per_output_value


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested tuples, lists and dictionaries."""
    import torch

    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))
    elif isinstance(tree, (list, tuple)):
        for branch in tree:
            yield from tensors_in(branch)


def _bytes(tensor: torch.Tensor) -> float:
    return float(tensor.numel() * tensor.element_size())
