"""Records LSTM and GRU layers as the fused kernels that cuDNN runs; the meta device takes them apart.

A layer is one product over its whole input, then a small product and a light kernel a time step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from advisor.models.zoo.kernels import KernelLog

# Gates of each, which are products of the input and of the hidden state.
RECURRENT = {"lstm": 4, "gru": 3}
# Values that a step keeps beside its gates for the backward pass: the cell and its activation.
_KEPT = 2


def recurrent_layers(log: KernelLog, *, autocast: bool) -> Callable[..., Any]:
    """A stand-in for `torch.lstm` and `torch.gru` on sequences of equal lengths."""
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
                log.add("rnn_step", "elementwise", NO_WORK, [kept, step], [kept, step])
            return outputs

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            inputs, by_input, by_state, outputs, reserve = ctx.saved_tensors
            step, kept = _step(outputs, ctx.steps), _step(reserve, ctx.steps)
            for _ in range(ctx.steps):
                log.add("rnn_step_backward", "elementwise", NO_WORK, [kept, step], [kept, step])
                _log_product(log, step, by_state, kept)
            results = [torch.empty_like(entry) for entry in (inputs, by_input, by_state)]
            _log_product(log, gradient, by_input, results[0])
            _log_product(log, inputs, by_input, results[1])
            _log_product(log, outputs, by_state, results[2])
            return (*results, None, None)

    return partial(_run, Layer.apply, autocast)


def _run(
    layer: Any,
    autocast: bool,
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

    if autocast:
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
    log.add("rnn_product", "linear", work, [inputs, weight], result)
