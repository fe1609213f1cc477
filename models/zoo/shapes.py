"""Shapes of the results of normalisation layers.

On the meta device torch takes them apart in Python, which takes most of the time of recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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


def _batch_norm_backward(*given: Any) -> Any:
    """Arguments: (gradient, input, weight, ..., which gradients are wanted)."""
    _, inputs, weight, *_, wanted = given
    return _gradients(inputs, weight, inputs.shape[1], wanted)


def _layer_norm(inputs: torch.Tensor, shape: Any, *_: Any) -> Any:
    import torch

    outer = inputs.shape[: inputs.ndim - len(shape)]
    places = (*outer, *[1] * len(shape))
    saved = [inputs.new_empty(places, dtype=torch.float32) for _ in range(2)]
    return (inputs.new_empty(inputs.shape), *saved)


def _layer_norm_backward(*given: Any) -> Any:
    """Arguments: (gradient, input, shape, mean, deviation, weight, bias, which are wanted)."""
    _, inputs, shape, _, _, weight, _, wanted = given
    return _gradients(inputs, weight, shape, wanted)


def _group_norm(inputs: torch.Tensor, *others: Any) -> Any:
    """Arguments: (input, weight, bias, rows, channels, places, groups, ...)."""
    rows, groups = others[2], others[5]
    saved = [inputs.new_empty(rows, groups) for _ in range(2)]
    return (inputs.new_empty(inputs.shape), *saved)


def _group_norm_backward(*given: Any) -> Any:
    """Arguments: (gradient, input, mean, deviation, weight, rows, channels, ..., which are wanted)."""
    _, inputs, _, _, weight, _, channels, *_, wanted = given
    return _gradients(inputs, weight, channels, wanted)


def _gradients(inputs: torch.Tensor, weight: Any, shape: Any, wanted: Any) -> Any:
    import torch

    like = inputs if weight is None else weight
    of_inputs, *of_weights = wanted
    return (
        torch.empty_like(inputs) if of_inputs else None,
        *(like.new_empty(shape) if requested else None for requested in of_weights),
    )


BY_SHAPE: Mapping[str, Maker] = {
    "native_batch_norm": _batch_norm,
    "native_batch_norm_backward": _batch_norm_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_backward,
}
