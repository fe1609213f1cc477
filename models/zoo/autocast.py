"""What torch.autocast("cuda") and its fused attention make of a step, on the meta device.

Autocast does nothing on meta tensors, so its rules are applied here by name: the lists are those
of PyTorch's "Autocast Op Reference" for CUDA. `scaled_dot_product_attention`, which the meta
device takes apart, is one kernel, as it is on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from models.zoo.kernels import KernelLog, attention_work, scaled

if TYPE_CHECKING:
    import torch

_IN_FP16 = frozenset((
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv",
    "addmm", "addbmm", "baddbmm", "einsum", "prelu", "chain_matmul", "multi_dot",
    "scaled_dot_product_attention",
))  # fmt: skip
_IN_FP32 = frozenset((
    "layer_norm", "group_norm", "softmax", "log_softmax", "softmin", "softplus", "pow",
    "__pow__", "__rpow__", "exp", "expm1", "log", "log10", "log1p", "log2", "norm",
    "vector_norm", "normalize", "cumsum", "cumprod", "prod", "sum", "rsqrt", "reciprocal",
    "__rtruediv__", "__rdiv__", "acos", "asin", "cosh", "sinh", "tan", "erfinv", "cdist",
    "dist", "cosine_similarity", "cross_entropy", "nll_loss", "mse_loss", "l1_loss",
    "binary_cross_entropy_with_logits",
))  # fmt: skip
_IN_THE_WIDEST = frozenset((
    "cat", "stack", "concat", "concatenate",
))  # fmt: skip
_ATTENTION = "scaled_dot_product_attention"
# Backward of fused attention computes the scores again: five products where forward has two.
_BACKWARD_PRODUCTS = 2.5


def as_on_a_gpu(log: KernelLog, *, autocast: bool) -> Any:
    """A function mode: attention is one kernel, and with `autocast` operands are cast."""
    from torch.overrides import TorchFunctionMode

    mode: Any = TorchFunctionMode  # carries no types
    attend = _fused_attention(log)

    class AsOnAGpu(mode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = getattr(func, "__name__", "")
            kwargs = kwargs or {}
            if autocast:
                args, kwargs = _cast(name, args, kwargs)
            if name == _ATTENTION:
                return attend(*_operands(*args, **kwargs))
            return func(*args, **kwargs)

    return AsOnAGpu()


def _operands(query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any) -> Any:
    return query, key, value, attn_mask


def _fused_attention(log: KernelLog) -> Callable[..., Any]:
    import torch

    function: Any = torch.autograd.Function  # carries no types

    class Attention(function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
            ctx.save_for_backward(query, key, value)
            result = query.new_empty(*query.shape[:-1], value.shape[-1])
            work = attention_work(query, key, value)
            log.add(_ATTENTION, "attention", work, [query, key, value, mask], result)
            return result

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            saved = ctx.saved_tensors
            results = [torch.empty_like(tensor) for tensor in saved]
            work = scaled(attention_work(*saved), _BACKWARD_PRODUCTS)
            log.add(_ATTENTION + "_backward", "attention", work, [gradient, *saved], results)
            return (*results, None)

    apply: Callable[..., Any] = Attention.apply
    return apply


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
