"""torch.autocast("cuda") and fused attention, imitated on the meta device.

Autocast does nothing on meta tensors, so its rules are applied here by name: the lists are those of PyTorch's
"Autocast Op Reference" for CUDA. `scaled_dot_product_attention`, which the meta device takes apart, is one
kernel, as it is on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from advisor.models.zoo.kernels import KernelLog, attention_work, names, scaled

if TYPE_CHECKING:
    import torch


# Gates of each, which are products of the input and of the hidden state.
RECURRENT = {"lstm": 4, "gru": 3}
# Values that a step keeps beside its gates for the backward pass: the cell and its activation.
_KEPT = 2


def recurrent_layers(log: KernelLog) -> Callable[..., Any]:
    """A stand-in for `torch.lstm` and `torch.gru` on sequences of equal lengths, with operands cast."""
    import torch

    from advisor.models.zoo.kernels import NO_WORK

    function: Any = torch.autograd.Function  # carries no types

    class Layer(function):  # type: ignore[misc]
        """One direction of one layer over (rows, steps, width) or (steps, rows, width)."""

        @staticmethod
        def forward(ctx: Any, inputs: Any, by_input: Any, by_state: Any, steps: int, gates: int) -> Any:
            ctx.steps = steps
            places, hidden = inputs.shape[:-1], by_state.shape[1]
            outputs = inputs.new_empty(*places, hidden)
            reserve = inputs.new_empty(*places, (gates + _KEPT) * hidden)
            ctx.save_for_backward(inputs, by_input, by_state, outputs, reserve)
            _log_product(log, inputs, by_input, reserve)
            step, kept = _step(outputs, steps), _step(reserve, steps)
            for _ in range(steps):
                _log_product(log, step, by_state, kept)
                log.add("elementwise", NO_WORK, [kept, step], [kept, step])
            return outputs

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            inputs, by_input, by_state, outputs, reserve = ctx.saved_tensors
            step, kept = _step(outputs, ctx.steps), _step(reserve, ctx.steps)
            for _ in range(ctx.steps):
                log.add("elementwise", NO_WORK, [kept, step], [kept, step])
                _log_product(log, step, by_state, kept)
            results = [torch.empty_like(entry) for entry in (inputs, by_input, by_state)]
            _log_product(log, gradient, by_input, results[0])
            _log_product(log, inputs, by_input, results[1])
            _log_product(log, outputs, by_state, results[2])
            return (*results, None, None)

    return partial(_run, Layer.apply)


def _run(
    layer: Any,
    name: str,
    inputs: Any,
    _state: Any,
    weights: Sequence[Any],
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    import torch

    inputs, *weights = [entry.to(torch.float16) for entry in (inputs, *weights)]
    rows, steps = inputs.shape[:2] if batch_first else inputs.shape[1::-1]
    parts = _groups(weights, 4 if bias else 2)
    directions = 2 if bidirectional else 1
    for number, each in enumerate(_groups(parts, directions)):
        if dropout and training and number:
            inputs = torch.nn.functional.dropout(inputs, dropout)
        ways = [layer(inputs, entry[0], entry[1], steps, RECURRENT[name]) for entry in each]
        inputs = torch.cat(ways, dim=-1) if bidirectional else ways[0]
    last = inputs.new_empty(layers * directions, rows, parts[0][1].shape[1])
    return (inputs, *[last] * (2 if name == "lstm" else 1))


def _step(tensor: torch.Tensor, steps: int) -> torch.Tensor:
    return tensor.new_empty(tensor.numel() // steps // tensor.shape[-1], tensor.shape[-1])


def _groups(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _log_product(log: KernelLog, inputs: torch.Tensor, weight: torch.Tensor, result: torch.Tensor) -> None:
    """A product of every row of the inputs with the weight, in whichever direction."""
    from advisor.models.zoo.kernels import product_work

    work = product_work(inputs.numel() // inputs.shape[-1], weight)
    log.add("linear", work, [inputs, weight], result)


_IN_FP16 = names(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul __matmul__ "
    "__rmatmul__ mm bmm mv addmm addbmm baddbmm einsum prelu chain_matmul multi_dot "
    "scaled_dot_product_attention"
)
_IN_FP32 = names(
    "layer_norm group_norm softmax log_softmax softmin softplus pow __pow__ __rpow__ exp expm1 log log10 "
    "log1p log2 norm vector_norm normalize cumsum cumprod prod sum rsqrt reciprocal __rtruediv__ __rdiv__ "
    "acos asin cosh sinh tan erfinv cdist dist cosine_similarity cross_entropy nll_loss mse_loss l1_loss "
    "binary_cross_entropy_with_logits"
)
_IN_THE_WIDEST = names(
    "cat stack concat concatenate addcdiv addcmul bilinear cross dot grid_sample grid_sampler index_put "
    "scatter_add tensordot"
)
_ATTENTION = "scaled_dot_product_attention"
# Written in Python around products that are cast one by one.
_COMPOSED = "multi_head_attention_forward"
# Additive masks are laid out in rows of a multiple of so many elements before they are read.
_MASK_ALIGNMENT = 8
# Backward of fused attention computes the scores again: five products where forward has two.
_BACKWARD_PRODUCTS = 2.5


def as_on_a_gpu(log: KernelLog, *, byte_masks: bool = False) -> Any:
    """A function mode: attention is one kernel, and operands are cast.

    Attention with more than four dimensions has no such kernel and is taken apart, as on a GPU; with a mask
    another kernel than the fastest one computes it. LSTM and GRU are cuDNN's. With `byte_masks` dropout is
    one kernel, as memory is counted; kernels of the table were recorded without."""
    from torch.overrides import TorchFunctionMode

    mode: Any = TorchFunctionMode  # carries no types
    attend, recur = _fused_attention(log), recurrent_layers(log)

    class AsOnAGpu(mode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            kwargs = kwargs or {}
            if name == _COMPOSED:
                with self:
                    return _undispatched(func)(*args, **kwargs)
            if name in RECURRENT and isinstance(args[2], list):
                return recur(name, *args, **kwargs)
            args, kwargs = _cast(name, args, kwargs)
            if byte_masks and name == "dropout" and _drops(*args, **kwargs):
                return _dropped(*args, **kwargs)
            if name == _ATTENTION:
                return attend(*args, **kwargs)
            return func(*args, **kwargs)

    return AsOnAGpu()


def _drops(_: Any, p: float = 0.5, training: bool = True, *__: Any, **___: Any) -> bool:
    return training and 0 < p < 1


def _dropped(inputs: Any, p: float = 0.5, *_: Any, **__: Any) -> Any:
    """One kernel with a mask of a byte an element, as CUDA has it."""
    import torch

    return torch.native_dropout(inputs, p, True)[0]


@cache
def _undispatched(func: Any) -> Any:
    """The function with its own look for function modes blinded, so that what it calls is seen."""
    blind = {**func.__globals__, "has_torch_function": lambda _: False}
    copied = FunctionType(func.__code__, blind, func.__name__, func.__defaults__, func.__closure__)
    copied.__kwdefaults__ = func.__kwdefaults__
    return copied


def _fused_attention(log: KernelLog) -> Callable[..., Any]:
    import torch

    function: Any = torch.autograd.Function  # carries no types

    class Attention(function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, share: float) -> Any:
            result = _as_rows(query, (*query.shape[:-1], value.shape[-1]))
            ctx.save_for_backward(query, key, value, result, mask)
            ctx.share = share
            work = scaled(attention_work(query, key, value), share)
            reads = [query, key, value, mask]
            log.add(_attention_kind(mask), work, reads, result)
            return result

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            *saved, result, mask = ctx.saved_tensors
            wanted = [tensor for tensor in (*saved, mask) if tensor is not None]
            results = [_as_rows(tensor, tensor.shape) for tensor in saved]
            of_mask = torch.empty_like(mask) if ctx.needs_input_grad[3] else None
            work = scaled(attention_work(*saved), _BACKWARD_PRODUCTS * ctx.share)
            reads, writes = [gradient, result, *wanted], [*results, of_mask]
            log.add(_attention_kind(mask), work, reads, writes)
            return (*results, of_mask, None)

    apply: Callable[..., Any] = Attention.apply

    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        if query.ndim != 4:
            return torch.nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, **options
            )
        mask = None if attn_mask is None else _aligned(attn_mask, query, key)
        return apply(query, key, value, mask, 0.5 if is_causal else 1.0)

    return attend


def _attention_kind(mask: Any) -> str:
    return "attention" if mask is None else "attention_masked"


def _as_rows(like: torch.Tensor, shape: Any) -> torch.Tensor:
    """Empty (batch, heads, n, d) that lies in memory as (batch, n, heads, d): GPUs' layout."""
    batch, heads, length, width = shape
    return like.new_empty(batch, length, heads, width).transpose(1, 2)


def _aligned(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask as the kernel takes it: additive, in aligned rows, a row for every score."""
    from torch.nn import functional

    if not mask.is_floating_point():
        mask = query.new_zeros(()).where(mask, float("-inf"))
    beyond = -mask.shape[-1] % _MASK_ALIGNMENT
    if beyond and mask.shape[-1] > 1:
        mask = functional.pad(mask, (0, beyond))[..., :-beyond]
    return mask.expand(*query.shape[:-1], key.shape[-2])


def _cast(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    import torch

    if name in _IN_FP16:
        to = torch.float16
    elif name in _IN_FP32 or (name in _IN_THE_WIDEST and _any_fp32([args, kwargs])):
        to = torch.float32
    else:
        return args, kwargs
    return _map(args, to), _map(kwargs, to)


def _map(tree: Any, to: torch.dtype) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        return tree.to(to) if tree.is_floating_point() and tree.dtype != to else tree
    if isinstance(tree, dict):
        return {key: _map(value, to) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_map(value, to) for value in tree)
    return tree


def _any_fp32(tree: Any) -> bool:
    import torch

    if isinstance(tree, torch.Tensor):
        return tree.dtype == torch.float32
    branches = tree.values() if isinstance(tree, dict) else tree
    return isinstance(tree, dict | list | tuple) and any(map(_any_fp32, branches))
