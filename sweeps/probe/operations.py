"""The part `operations`: layer classes forward and backward, an accelerator's fingerprint."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Precision
from advisor.models.zoo.capture import autocast
from advisor.sweeps.probe.session import (
    CPU,
    CUDA,
    Device,
    Document,
    ProbeSession,
    figure,
    has_cuda,
    load_torch,
)

SIZES = ("wide", "deep")
_LSTM_STEPS = 35


class Layer(Struct, frozen=True, kw_only=True):
    """A layer ready to run: `call(*inputs)` gives the output.

    `weights` are its parameters; `flops` are those of one forward pass (2 a multiply-add), None for a layer
    that moves data and hardly computes. `needs` is what its backward pass reads beside the output's gradient:
    `inputs` (and weights), its `output`, or the `indices` of the maxima (8 bytes an output). Two inputs share
    one gradient. `sizes` describe its work: batch, channels, the side of its input, kernel and groups, as far
    as it has them."""

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    weights: Sequence[Any]
    flops: float | None
    shape: str
    sizes: Mapping[str, int]
    needs: str = "inputs"


class Setting(Struct, frozen=True):
    """The device, the batch, and the type of the activations."""

    accelerator: Device
    batch: int
    dtype: Any

    def activation(self, *shape: int) -> Any:
        """An input that wants a gradient, as every layer's but the first one's does."""
        return self.accelerator.random(*shape, dtype=self.dtype).requires_grad_()


Build = Callable[[Setting], Layer]


def _convolution(
    setting: Setting, channels_in: int, channels: int, side: int, kernel: int, groups: int = 1
) -> Layer:
    module = load_torch().nn.Conv2d(
        channels_in, channels, kernel, padding=kernel // 2, groups=groups, bias=False
    )
    products = channels * side**2 * (channels_in // groups) * kernel**2
    sizes = {
        "channels_in": channels_in,
        "channels": channels,
        "side": side,
        "kernel": kernel,
        "groups": groups,
    }
    layer = _layer(setting, module, (setting.batch, channels_in, side, side), sizes, 2 * products)
    return replace(layer, shape=f"{layer.shape} -> {channels} channels")


def _linear(setting: Setting, features_in: int, features: int) -> Layer:
    module, sizes = load_torch().nn.Linear(features_in, features), {"channels_in": features_in}
    sizes["channels"] = features
    layer = _layer(setting, module, (setting.batch, features_in), sizes, 2 * features_in * features)
    return replace(layer, shape=f"{layer.shape} -> {features}")


def _on_images(setting: Setting, module: Any, channels: int, side: int) -> Layer:
    sizes = {"channels_in": channels, "side": side}
    return _layer(setting, module, (setting.batch, channels, side, side), sizes)


def _normalisation(setting: Setting, channels: int, side: int) -> Layer:
    return _on_images(setting, load_torch().nn.BatchNorm2d(channels), channels, side)


def _pooling(setting: Setting, channels: int, side: int) -> Layer:
    layer = _on_images(setting, load_torch().nn.MaxPool2d(3, stride=2, padding=1), channels, side)
    return replace(layer, shape=f"{layer.shape}, 3x3 stride 2", needs="indices")


def _elementwise(setting: Setting, channels: int, side: int) -> Layer:
    torch = load_torch()
    layer = _on_images(setting, torch.nn.ReLU(), channels, side)
    other = setting.activation(setting.batch, channels, side, side)
    return replace(
        layer,
        call=lambda a, b: torch.relu(a + b),
        inputs=(*layer.inputs, other),
        shape=f"relu(a + b), {layer.shape}",
        needs="output",
    )


def _lstm(setting: Setting, units: int) -> Layer:
    module, flops = load_torch().nn.LSTM(units, units), 2 * 4 * units * (2 * units) * _LSTM_STEPS
    sizes = {"steps": _LSTM_STEPS, "units": units}
    layer = _layer(setting, module, (_LSTM_STEPS, setting.batch, units), sizes, flops)
    shape = f"{_LSTM_STEPS} steps x {setting.batch} x {units} units"
    # Only the output sequence; the last states are part of it.
    return replace(layer, call=lambda x: layer.call(x)[0], shape=shape)


def _layer(
    setting: Setting,
    module: Any,
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    flops_per_row: float | None = None,
) -> Layer:
    """The layer of a module whose one input has that shape."""
    module = module.to(setting.accelerator.kind)
    return Layer(
        call=module,
        inputs=(setting.activation(*shape),),
        weights=tuple(module.parameters()),
        flops=flops_per_row and flops_per_row * setting.batch,
        shape="x".join(map(str, shape)),
        sizes={"batch": setting.batch, **sizes},
    )


# Class of layers: what builds one, and its numbers by size.
_CLASSES: dict[str, tuple[Callable[..., Layer], tuple[int, ...], tuple[int, ...]]] = {
    "conv3x3": (_convolution, (64, 64, 56, 3), (256, 256, 14, 3)),
    "conv1x1": (_convolution, (64, 256, 56, 1), (1024, 256, 14, 1)),
    "depthwise": (_convolution, (96, 96, 112, 3, 96), (384, 384, 14, 3, 384)),
    "linear": (_linear, (1024, 1000), (4096, 4096)),
    "batch_norm": (_normalisation, (64, 56), (1024, 14)),
    "pooling": (_pooling, (64, 112), (480, 28)),
    "elementwise": (_elementwise, (256, 56), (1024, 14)),
    "lstm": (_lstm, (200,), (650,)),
}


def _built(build: Callable[..., Layer], numbers: tuple[int, ...]) -> Build:
    return lambda setting: build(setting, *numbers)


LAYERS: dict[str, dict[str, Build]] = {
    name: {size: _built(build, numbers) for size, numbers in zip(SIZES, sizes, strict=True)}
    for name, (build, *sizes) in _CLASSES.items()
}


_BATCHES = {"cuda": 64, "cpu": 4}
_PRECISIONS = {"cuda": ("fp32", "amp"), "cpu": ("fp32",)}
# The gradients of the input and of the weights are a product each.
_BACKWARD_FLOPS = 2


def probe(session: ProbeSession) -> Document:
    """Each class, size and precision, forward and backward, on the GPU or else the CPU.

    fp32 and amp (float16 autocast) are PyTorch's defaults, as trials use them: convolutions in fp32 may use
    TF32."""
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
    """The least time of one operation: calls on a single number, back to back."""
    number = accelerator.random(1)
    times = accelerator.time_calls(partial(number.add_, 1.0), seconds)
    return figure([time_ * 1e6 for time_ in times], "us", "torch adds to one number, back to back")


def _measured(session: ProbeSession, accelerator: Device, precision: str, build: Build) -> Document:
    torch = load_torch()
    torch.manual_seed(0)
    dtype = torch.float16 if precision == "amp" else torch.float32
    layer = build(Setting(accelerator, _BATCHES[accelerator.kind], dtype))

    def forward() -> Any:
        """With the graph that a backward pass needs, as in training."""
        with autocast(accelerator.kind, Precision(precision)):
            return layer.call(*layer.inputs)

    output = forward()
    backward = partial(
        torch.autograd.grad,
        output,
        (*layer.inputs, *layer.weights),
        torch.ones_like(output),
        retain_graph=True,
    )
    to_and_fro = moved_bytes(layer, output)
    again = layer.flops and layer.flops * _BACKWARD_FLOPS
    seconds = session.budget.operation_figure
    return {
        "shape": layer.shape,
        "sizes": dict(layer.sizes),
        "forward": _figures(accelerator.time_calls(forward, seconds), layer.flops, to_and_fro[0]),
        "backward": _figures(accelerator.time_calls(backward, seconds), again, to_and_fro[1]),
    }


def _figures(times: Sequence[float], flops: float | None, moved_bytes: int) -> Document:
    """Milliseconds and GB/s if each tensor moves once; TFLOP/s only for real arithmetic."""
    traffic = [moved_bytes / time_ / 1e9 for time_ in times]
    document: Document = {
        "time": figure([time_ * 1e3 for time_ in times], "ms", "torch, the device synchronised"),
        "traffic": figure(traffic, "GB/s", "what must be moved, once, over the time"),
    }
    if flops:
        arithmetic = [flops / time_ / 1e12 for time_ in times]
        document["arithmetic"] = figure(arithmetic, "TFLOP/s", "2 a multiply-add, over the time")
    return document


def moved_bytes(layer: Layer, output: Any) -> tuple[int, int]:
    """Forward, inputs and weights are read and the output written; backward, the output's gradient and what
    else is needed are read and the gradients written."""
    needed: dict[str, int] = {
        "inputs": _bytes(*layer.inputs, *layer.weights),
        "output": _bytes(output),
        "indices": int(output.numel()) * 8,
    }
    backward = _bytes(output) + needed[layer.needs] + _bytes(layer.inputs[0], *layer.weights)
    return _bytes(*layer.inputs, *layer.weights, output), backward


def _bytes(*tensors: Any) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)
