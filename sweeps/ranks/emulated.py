"""A rank whose GPU is emulated: it sleeps as long as forward and backward take, and has the
network's gradients, which are exchanged for real. Needs torch."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from advisor.sweeps.worker.step_runner import HostEngine, Moment

# The backward pass computes gradients of inputs and of weights: twice the products of the forward
# pass (Kaplan et al. 2020, section 2.1, count them so).
FORWARD_SHARE = 1 / 3
# Gradients become ready in so many equal parts: about as many as a ResNet has stages and blocks.
_PARTS = 16


class EmulatedRank(HostEngine):
    """Steps of `step_seconds`, whose backward pass makes the gradients of `parameters` fp32 numbers
    ready evenly; with `parallel` they are averaged over all ranks meanwhile, as
    DistributedDataParallel does. The optimiser's step is part of the pace. What the averaging takes
    of this CPU slows no GPU, so each part is ready at its own time, not after the one before it."""

    def __init__(self, parameters: int, step_seconds: float, *, parallel: bool) -> None:
        super().__init__()
        torch.set_num_threads(1)  # nothing is computed here, and threads would spin
        network = _Network(parameters, step_seconds)
        self.gradient_bytes = 4 * sum(part.numel() for part in network.parts)
        self._network: Any = network
        if parallel:
            self._network = DistributedDataParallel(network, gradient_as_bucket_view=True)

    def launch(self, inputs: Any, targets: Any) -> Moment:  # noqa: ARG002
        """One step in the foreground."""
        self._network(time.perf_counter()).backward()
        return self.mark()


class _Network(nn.Module):
    def __init__(self, parameters: int, step_seconds: float) -> None:
        super().__init__()
        size = -(-parameters // _PARTS)
        self.parts = nn.ParameterList([torch.zeros(size) for _ in range(_PARTS)])
        self._gradient = torch.zeros(size)
        self._step_seconds = step_seconds

    def forward(self, begun: float) -> torch.Tensor:
        """The loss of a step that begins at that time of the clock."""
        forward = FORWARD_SHARE * self._step_seconds
        each = (self._step_seconds - forward) / _PARTS
        value = torch.zeros((), requires_grad=True)
        for at, part in enumerate(self.parts):
            # The backward pass begins with the last part.
            ready = begun + forward + (_PARTS - at) * each
            value = _Part.apply(value, part, self._gradient, ready)  # type: ignore[no-untyped-call]
        _sleep_until(begun + forward)
        return value


class _Part(torch.autograd.Function):
    """Passes a value on; backward, its weights' gradient is ready at a time of the clock."""

    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, _weights: torch.Tensor, gradient: torch.Tensor, ready: float
    ) -> torch.Tensor:
        ctx.gradient, ctx.ready = gradient, ready
        return value.clone()

    @staticmethod
    def backward(ctx: Any, passed: torch.Tensor) -> tuple[Any, ...]:
        _sleep_until(ctx.ready)
        return passed, ctx.gradient, None, None


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
