"""The classes of layers that fingerprint an accelerator, each at two sizes.

`wide` is a layer near a network's input (large maps, few channels), `deep` one near its end.
Shapes are those of ResNet-50 (convolutions, normalisation, pooling), MobileNetV2 (depthwise),
VGG's and GoogLeNet's classifiers (linear), and Zaremba's small and medium LSTM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.sweeps.probe.accelerator import Device, load_torch

SIZES = ("wide", "deep")
_LSTM_STEPS = 35


class Layer(Struct, frozen=True, kw_only=True):
    """A layer ready to run: `call(*inputs)` gives the output.

    `weights` are its parameters; `flops` are those of one forward pass (2 a multiply-add), None
    for a layer that moves data and hardly computes. `needs` is what its backward pass reads
    beside the output's gradient: `inputs` (and weights), its `output`, or the `indices` of the
    maxima (8 bytes an output). Two inputs share one gradient. `sizes` describe its work: batch,
    channels, the side of its input, kernel and groups, as far as it has them.
    """

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    weights: Sequence[Any]
    flops: float | None
    shape: str
    sizes: Mapping[str, int]
    needs: str = "inputs"


class Setting(Struct, frozen=True):
    """Where and how large: device, batch, and the type that activations have."""

    accelerator: Device
    batch: int
    dtype: Any

    def activation(self, *shape: int) -> Any:
        """An input that wants a gradient, as every layer's but the first one's does."""
        return self.accelerator.random(*shape, dtype=self.dtype).requires_grad_()


Build = Callable[[Setting], Layer]


def _convolution(channels_in: int, channels: int, side: int, kernel: int, groups: int = 1) -> Build:
    def build(setting: Setting) -> Layer:
        nn = load_torch().nn
        module = nn.Conv2d(channels_in, channels, kernel, padding=kernel // 2, groups=groups, bias=False)
        products = channels * side**2 * (channels_in // groups) * kernel**2
        image = setting.activation(setting.batch, channels_in, side, side)
        shape = f"{setting.batch}x{channels_in}x{side}x{side} -> {channels} channels"
        sizes = {
            "batch": setting.batch,
            "channels_in": channels_in,
            "channels": channels,
            "side": side,
            "kernel": kernel,
            "groups": groups,
        }
        return _layer(setting, module, (image,), 2 * setting.batch * products, shape, sizes)

    return build


def _linear(features_in: int, features: int) -> Build:
    def build(setting: Setting) -> Layer:
        module = load_torch().nn.Linear(features_in, features)
        rows = setting.activation(setting.batch, features_in)
        flops = 2 * setting.batch * features_in * features
        sizes = {"batch": setting.batch, "channels_in": features_in, "channels": features}
        return _layer(setting, module, (rows,), flops, f"{setting.batch}x{features_in} -> {features}", sizes)

    return build


def _normalisation(channels: int, side: int) -> Build:
    def build(setting: Setting) -> Layer:
        module = load_torch().nn.BatchNorm2d(channels)
        image = setting.activation(setting.batch, channels, side, side)
        shape = f"{setting.batch}x{channels}x{side}x{side}"
        sizes = {"batch": setting.batch, "channels_in": channels, "side": side}
        return _layer(setting, module, (image,), None, shape, sizes)

    return build


def _pooling(channels: int, side: int) -> Build:
    def build(setting: Setting) -> Layer:
        module = load_torch().nn.MaxPool2d(3, stride=2, padding=1)
        image = setting.activation(setting.batch, channels, side, side)
        shape = f"{setting.batch}x{channels}x{side}x{side}, 3x3 stride 2"
        sizes = {"batch": setting.batch, "channels_in": channels, "side": side}
        layer = _layer(setting, module, (image,), None, shape, sizes)
        return replace(layer, needs="indices")

    return build


def _elementwise(channels: int, side: int) -> Build:
    def build(setting: Setting) -> Layer:
        torch = load_torch()
        shape = (setting.batch, channels, side, side)
        both = (setting.activation(*shape), setting.activation(*shape))
        text = f"relu(a + b), {setting.batch}x{channels}x{side}x{side}"
        return Layer(
            call=lambda a, b: torch.relu(a + b),
            inputs=both,
            weights=(),
            flops=None,
            shape=text,
            sizes={"batch": setting.batch, "channels_in": channels, "side": side},
            needs="output",
        )

    return build


def _lstm(units: int) -> Build:
    def build(setting: Setting) -> Layer:
        torch = load_torch()
        module = torch.nn.LSTM(units, units)
        sequence = setting.activation(_LSTM_STEPS, setting.batch, units)
        flops = 2 * setting.batch * 4 * units * (2 * units) * _LSTM_STEPS
        shape = f"{_LSTM_STEPS} steps x {setting.batch} x {units} units"
        sizes = {"batch": setting.batch, "steps": _LSTM_STEPS, "units": units}
        layer = _layer(setting, module, (sequence,), flops, shape, sizes)
        # Only the output sequence; the last states are part of it.
        return replace(layer, call=lambda x: layer.call(x)[0])

    return build


def _layer(
    setting: Setting,
    module: Any,
    inputs: tuple[Any, ...],
    flops: float | None,
    shape: str,
    sizes: Mapping[str, int],
) -> Layer:
    module = module.to(setting.accelerator.kind)
    weights = tuple(module.parameters())
    return Layer(call=module, inputs=inputs, weights=weights, flops=flops, shape=shape, sizes=sizes)


LAYERS: dict[str, dict[str, Build]] = {
    "conv3x3": {"wide": _convolution(64, 64, 56, 3), "deep": _convolution(256, 256, 14, 3)},
    "conv1x1": {"wide": _convolution(64, 256, 56, 1), "deep": _convolution(1024, 256, 14, 1)},
    "depthwise": {
        "wide": _convolution(96, 96, 112, 3, groups=96),
        "deep": _convolution(384, 384, 14, 3, groups=384),
    },
    "linear": {"wide": _linear(1024, 1000), "deep": _linear(4096, 4096)},
    "batch_norm": {"wide": _normalisation(64, 56), "deep": _normalisation(1024, 14)},
    "pooling": {"wide": _pooling(64, 112), "deep": _pooling(480, 28)},
    "elementwise": {"wide": _elementwise(256, 56), "deep": _elementwise(1024, 14)},
    "lstm": {"wide": _lstm(200), "deep": _lstm(650)},
}
