"""The part `operations`: layer classes forward and backward, an accelerator's fingerprint."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from advisor.domain import Precision
from advisor.models.zoo.steps import autocast
from advisor.sweeps.probe.accelerator import CPU, CUDA, Device, has_cuda, load_torch
from advisor.sweeps.probe.figures import Document, figure
from advisor.sweeps.probe.layers import LAYERS, SIZES, Build, Layer, Setting
from advisor.sweeps.probe.session import Session

_BATCHES = {"cuda": 64, "cpu": 4}
_PRECISIONS = {"cuda": ("fp32", "amp"), "cpu": ("fp32",)}
# The gradients of the input and of the weights are a product each.
_BACKWARD_FLOPS = 2


def probe(session: Session) -> Document:
    """Each class, size and precision, forward and backward, on the GPU or else the CPU.

    fp32 and amp (float16 autocast) are PyTorch's defaults, as trials use them: convolutions in
    fp32 may use TF32.
    """
    accelerator = CUDA if has_cuda() else CPU
    load_torch()
    document: Document = {
        "device": accelerator.kind,
        "batch": _BATCHES[accelerator.kind],
        "launch": session.attempt(partial(_launch, accelerator, session.budget.operation_figure)),
    }
    # All classes at one size come before the next size: late ones may find no time left.
    for precision in _PRECISIONS[accelerator.kind]:
        document[precision] = {name: {} for name in LAYERS}
        for size, name in itertools.product(SIZES, LAYERS):
            document[precision][name][size] = session.attempt(
                partial(_measured, session, accelerator, precision, LAYERS[name][size])
            )
    accelerator.free()
    return document


def _launch(accelerator: Device, seconds: float) -> Document:
    """What one operation costs at least: calls on one number, back to back."""
    number = accelerator.random(1)
    times = accelerator.time_calls(partial(number.add_, 1.0), seconds)
    return figure([time_ * 1e6 for time_ in times], "us", "torch adds to one number, back to back")


def _measured(session: Session, accelerator: Device, precision: str, build: Build) -> Document:
    torch = load_torch()
    torch.manual_seed(0)
    dtype = torch.float16 if precision == "amp" else torch.float32
    layer = build(Setting(accelerator, _BATCHES[accelerator.kind], dtype))
    forward = partial(_forward, accelerator, precision, layer)
    output = forward()
    backward = partial(
        torch.autograd.grad,
        output,
        (*layer.inputs, *layer.weights),
        torch.ones_like(output),
        retain_graph=True,
    )
    again = layer.flops and layer.flops * _BACKWARD_FLOPS
    seconds = session.budget.operation_figure
    return {
        "shape": layer.shape,
        "sizes": dict(layer.sizes),
        "forward": _figures(
            accelerator.time_calls(forward, seconds), layer.flops, _bytes_forward(layer, output)
        ),
        "backward": _figures(
            accelerator.time_calls(backward, seconds), again, _bytes_backward(layer, output)
        ),
    }


def _forward(accelerator: Device, precision: str, layer: Layer) -> Any:
    """With the graph that a backward pass needs, as in training."""
    with autocast(accelerator.kind, Precision(precision)):
        return layer.call(*layer.inputs)


def _figures(times: Sequence[float], flops: float | None, moved_bytes: int) -> Document:
    """Milliseconds, and what was achieved if every tensor is moved once; no arithmetic where a
    layer hardly computes."""
    traffic = [moved_bytes / time_ / 1e9 for time_ in times]
    document: Document = {
        "time": figure([time_ * 1e3 for time_ in times], "ms", "torch, the device synchronised"),
        "traffic": figure(traffic, "GB/s", "what must be moved, once, over the time"),
    }
    if flops:
        arithmetic = [flops / time_ / 1e12 for time_ in times]
        document["arithmetic"] = figure(arithmetic, "TFLOP/s", "2 a multiply-add, over the time")
    return document


def _bytes_forward(layer: Layer, output: Any) -> int:
    """Inputs and weights read, output written."""
    return _bytes(*layer.inputs, *layer.weights, output)


def _bytes_backward(layer: Layer, output: Any) -> int:
    """The output's gradient and what else is needed read, the gradients written."""
    needed: dict[str, int] = {
        "inputs": _bytes(*layer.inputs, *layer.weights),
        "output": _bytes(output),
        "indices": int(output.numel()) * 8,
    }
    return _bytes(output) + needed[layer.needs] + _bytes(layer.inputs[0], *layer.weights)


def _bytes(*tensors: Any) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)
