"""Records the kernels that a step starts, on the meta device, without computing.

The step runs once, on a batch of a large prime: what divides by it belongs to a sample, the rest to any
batch. FLOPs are 2 x multiply-accumulates. Views start nothing and are left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import torch


Maker = Callable[..., Any]


def _batch_norm(inputs: torch.Tensor, *others: Any) -> Any:
    """Arguments: (input, weight, bias, running mean, running variance, training, ...)."""
    import torch

    training = others[4]
    kept = inputs.shape[1] if training else 0
    saved = [inputs.new_empty(kept, dtype=torch.float32) for _ in range(2)]
    return (torch.empty_like(inputs), *saved)


def _layer_norm(inputs: torch.Tensor, shape: Any, *_: Any) -> Any:
    import torch

    outer = inputs.shape[: inputs.ndim - len(shape)]
    places = (*outer, *[1] * len(shape))
    saved = [inputs.new_empty(places, dtype=torch.float32) for _ in range(2)]
    return (inputs.new_empty(inputs.shape), *saved)


def _group_norm(inputs: torch.Tensor, *others: Any) -> Any:
    """Arguments: (input, weight, bias, rows, channels, places, groups, ...)."""
    rows, groups = others[2], others[5]
    saved = [inputs.new_empty(rows, groups) for _ in range(2)]
    return (inputs.new_empty(inputs.shape), *saved)


def _gradients(inputs: torch.Tensor, weight: Any, shape: Any, wanted: Any) -> Any:
    import torch

    like = inputs if weight is None else weight
    of_inputs, *of_weights = wanted
    return (
        torch.empty_like(inputs) if of_inputs else None,
        *(like.new_empty(shape) if requested else None for requested in of_weights),
    )


# Arguments of a backward pass: the gradient, the input, .., which gradients are wanted; between them, in an
# order of their own, the weight and its shape.
BY_SHAPE: Mapping[str, Maker] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": lambda *g: _gradients(g[1], g[2], g[1].shape[1], g[-1]),
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": lambda *g: _gradients(g[1], g[5], g[2], g[-1]),
    "native_group_norm": _group_norm,
    "native_group_norm_backward": lambda *g: _gradients(g[1], g[4], g[6], g[-1]),
}


def names(listed: str) -> frozenset[str]:
    """Names of operations, as one text."""
    return frozenset(listed.split())


# No layer has a multiple of it as a size, so it marks the batch in every count of elements.
PRIME_BATCH = 509
_COPIES = names(
    "clone copy_ cat stack roll constant_pad_nd index index_put index_put_ index_select gather "
    "select_backward slice_backward slice_scatter split_with_sizes_copy expand_copy repeat flip "
    "native_channel_shuffle channel_shuffle pixel_shuffle pixel_unshuffle reflection_pad2d embedding"
)
_REDUCTIONS = names("mean sum var_mean amax max var linalg_vector_norm argmax min")
_BATCHED = ("bmm", "baddbmm")
# Interpolating has a thread for each pixel of the output, whatever the batch, where channels come first.
_UPSAMPLES = ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
_POOLS = ("pool", "upsample")
# Of the table that they look up they read only what they return.
_LOOKUPS = names("embedding index index_select gather take")
# Networks ask whether all of a mask is set, to leave it out, whether any value is wrong, and
# whether a layer is dropped this time.
_ASKS, _ANSWERS = "_local_scalar_dense", {"all": True, "any": False, "lt": False}
# Memory set aside, other views; and fake tensors ask where they live, thousands of times a step.
_NO_KERNELS = ("empty", "new_empty", "_unsafe_view", "detach", "device")
# What they write over is not read.
_OVERWRITES = frozenset(("copy_", "zero_", "fill_"))


class Kernel(Struct, frozen=True):
    """One kernel: FLOPs per sample (0 where no sample takes part), and what it reads and writes, in bytes and
    in elements, of each sample and of any batch.

    Whole numbers and masks, which no precision makes wider or narrower, count as so many elements of 4 bytes.
    `reduction` x `width` is the matrix that each output row is multiplied with (0: no product). `backward`
    says that autograd starts it, not Python."""

    kind: str
    flops: float
    sample_bytes: float
    fixed_bytes: float
    sample_elements: float
    fixed_elements: float
    reduction: int
    width: int
    backward: bool


class KernelLog:
    """The kernels of a step, in launch order."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.backward = False

    def add(self, kind: str, work: _Work, reads: Any, writes: Any) -> None:
        """Note one kernel; `reads` and `writes` are trees of tensors."""
        columns = zip((0.0,) * 4, *map(moved, tensors_in([reads, writes])), strict=True)
        sample_bytes, fixed_bytes, sample_elements, fixed_elements = map(sum, columns)
        kernel = Kernel(
            kind=kind,
            flops=per_sample(work.flops)[0],
            sample_bytes=sample_bytes,
            fixed_bytes=fixed_bytes,
            sample_elements=sample_elements,
            fixed_elements=fixed_elements,
            reduction=work.reduction,
            width=work.width,
            backward=self.backward,
        )
        self.kernels.append(kernel)

    def keep(self, tree: Any) -> None:
        """Note memory that is set aside, or seen again: it starts no kernel."""


def moved(tensor: torch.Tensor) -> tuple[float, float, float, float]:
    """Bytes of each sample and of any batch that a kernel reads or writes of a tensor, then elements."""
    size = tensor.element_size()
    # What is expanded is read again and again, but from the cache.
    sample, fixed = per_sample(min(tensor.numel() * size, tensor.untyped_storage().nbytes()))
    width = size if tensor.is_floating_point() else 4
    return sample, fixed, sample / width, fixed / width


class _Work(Struct, frozen=True):
    flops: float = 0.0
    reduction: int = 0
    width: int = 0


NO_WORK = _Work()


def product_work(rows: int, weight: torch.Tensor) -> _Work:
    """`rows` rows times a weight of (width, reduction)."""
    width, reduction = weight.shape
    return _Work(2.0 * rows * weight.numel(), reduction, width)


def per_sample(amount: float) -> tuple[float, float]:
    """(share of one sample, share of any batch) of an amount counted on the prime batch."""
    return (amount / PRIME_BATCH, 0.0) if amount % PRIME_BATCH == 0 else (0.0, float(amount))


def attention_work(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> _Work:
    """Both products of one attention, (.., n, d) x (.., d, m) and (.., n, m) x (.., m, e)."""
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    flops = 2.0 * pairs * (query.shape[-1] + value.shape[-1])
    return _Work(flops, query.shape[-1], key.shape[-2])


def scaled(work: _Work, factor: float) -> _Work:
    """These products, repeated `factor` times."""
    return _Work(work.flops * factor, work.reduction, work.width)


def recording(log: KernelLog) -> Any:
    """A dispatch mode that logs each operation that starts a kernel."""
    from torch.utils._python_dispatch import TorchDispatchMode

    mode: Any = TorchDispatchMode  # carries no types

    class Recorder(mode):  # type: ignore[misc]
        before = ""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            if name == _ASKS and self.before in _ANSWERS:
                return _ANSWERS[self.before]
            self.before = name
            make = None if kwargs else BY_SHAPE.get(name)
            result = make(*args) if make else func(*args, **(kwargs or {}))
            # The result shares its input's memory.
            returned = (value.alias_info for value in func._schema.returns)
            shares = any(alias is not None and not alias.is_write for alias in returned)
            if (
                shares
                or name in _NO_KERNELS
                or name.startswith(("empty", "new_empty", "_unsafe_view", "detach"))
            ):
                log.keep(result)
            else:
                reads = _reads(name, args, kwargs, result)
                log.add(kind_of(name, args), _work(name, args, result), reads, result)
            return result

    return Recorder()


def _reads(name: str, args: Any, kwargs: Any, result: Any) -> Any:
    """The tensors whose sizes say what the operation reads."""
    if name in _LOOKUPS:
        return [result, args[1:], kwargs]
    if name in _OVERWRITES:
        return [args[1:], kwargs]
    return [args, kwargs]


def kind_of(name: str, args: Any) -> str:
    """The class of an ATen operation."""
    if name.startswith("convolution"):
        weight, groups = (args[2], args[9]) if "backward" in name else (args[1], args[8])
        if groups > 1:
            return "conv_depthwise" if weight.shape[1] == 1 else "conv_grouped"
        return {(1, 1): "conv_1x1", (3, 3): "conv_3x3"}.get(tuple(weight.shape[2:]), "conv_kxk")
    if name in _BATCHED and any(not arg.stride(0) for arg in args[-2:]):
        return "linear"  # a weight, which is expanded over the batch
    if "upsample" in name and name.endswith(_UPSAMPLES) and args[0].is_contiguous():
        return "upsample"
    for kind, belongs in _BELONGS.items():
        if belongs(name):
            return kind
    return "elementwise"


_BELONGS: dict[str, Callable[[str], bool]] = {
    "linear": lambda name: name in ("mm", "addmm"),
    "attention_math": lambda name: name in _BATCHED,
    "softmax": lambda name: "softmax" in name,
    "norm": lambda name: "norm" in name and name not in _REDUCTIONS,
    "fold": lambda name: name in ("im2col", "col2im"),
    "pool": lambda name: any(part in name for part in _POOLS),
    "cast": lambda name: name == "_to_copy",
    "copy": lambda name: name in _COPIES,
    "reduce": lambda name: name in _REDUCTIONS,
}


def _work(name: str, args: Any, result: Any) -> _Work:
    """2 x MAC of convolutions and matrix products; the rest is bound by memory."""
    if name == "convolution":
        values = (args[0] if args[6] else result).numel()
        return _convolution_work(args[1], values, args[8])
    if name == "convolution_backward":
        wanted = sum(bool(requested) for requested in args[10][:2])
        return scaled(_convolution_work(args[2], args[0].numel(), args[9]), wanted)
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        left, right = args[:2] if name in ("mm", "bmm") else args[1:3]
        flops = 2.0 * left.numel() * right.shape[-1]
        return _Work(flops, int(left.shape[-1]), int(right.shape[-1]))
    if kind_of(name, args) == "upsample":
        return _Work(width=math.prod(result.shape[2:]))
    return NO_WORK


def _convolution_work(weight: torch.Tensor, values: int, groups: int) -> _Work:
    each = math.prod(weight.shape[1:])
    return _Work(2.0 * values * each, each, weight.shape[0] // groups)


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    """All tensors in nested tuples, lists and dictionaries; sparse ones are light, left out."""
    import torch

    if isinstance(tree, torch.Tensor):
        if tree.layout == torch.strided:
            yield tree
    elif isinstance(tree, dict):
        yield from tensors_in(list(tree.values()))
    elif isinstance(tree, (list, tuple)):
        for branch in tree:
            yield from tensors_in(branch)
