"""The parts `gemm` and `operations` of a probe: matrix products by precision, and layers forward and
backward, whose times identify an accelerator."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from advisor.domain import Precision
from advisor.errors import MeasuringError
from advisor.models.zoo.capture import autocast
from advisor.sweeps.probe import session as probing

_SIZES = (512, 1024, 2048, 4096, 8192)
_PRODUCT_PRECISIONS = {"cuda": ("fp32", "tf32", "fp16", "bf16"), "cpu": ("fp32", "bf16")}
_TYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_AMPERE = (8, 0)  # the first with TF32 and bf16


def probe_gemm(session: probing.ProbeSession) -> probing.Document:
    """A figure for each precision of the CPU and, if there is one, of the GPU."""
    torch = probing.load_torch()
    document: probing.Document = {"cpu_threads": torch.get_num_threads()}
    for accelerator in (probing.CPU, probing.CUDA) if probing.has_cuda() else (probing.CPU,):
        document[accelerator.kind] = {
            precision: session.attempt(partial(_figure, accelerator, precision, session.budget.gemm_figure))
            for precision in _PRODUCT_PRECISIONS[accelerator.kind]
        }
        accelerator.free()
    return document


def _figure(accelerator: probing.Device, precision: str, seconds: float) -> probing.Document:
    """The rate of the largest product that fits the time; small ones would measure launches."""
    torch, of_cuda = probing.load_torch(), accelerator.kind == "cuda"
    if of_cuda and precision == "tf32" and torch.version.hip:
        raise MeasuringError("TF32 is NVIDIA's")
    needs_ampere = of_cuda and precision in ("tf32", "bf16") and not torch.version.hip
    if needs_ampere and (capability := torch.cuda.get_device_capability(0)) < _AMPERE:
        has = ".".join(map(str, capability))
        raise MeasuringError(f"{precision} needs compute capability 8.0, this GPU has {has}")
    dtype = getattr(torch, _TYPES[precision])

    def times(size: int, seconds: float) -> list[float]:
        left, right = (accelerator.random(size, size, dtype=dtype) for _ in range(2))
        product = torch.empty_like(left)
        return accelerator.time_calls(lambda: torch.mm(left, right, out=product), seconds)

    with _float32_products(tf32=precision == "tf32"):
        size = probing.largest_affordable(_SIZES, lambda size: min(times(size, 0.0)), seconds)
        measured = times(size, seconds)
    method = f"torch.mm of two {size}x{size} matrices of normal random numbers, {precision}"
    result = probing.figure([2 * size**3 / time_ / 1e12 for time_ in measured], "TFLOP/s", method)
    return result | {"sizes": {"size": size}}


@contextmanager
def _float32_products(*, tf32: bool) -> Iterator[None]:
    """Allow or forbid TF32 in float32 products inside the block."""
    torch = probing.load_torch()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


SIZES = ("wide", "deep")
_CONVOLUTION = ("channels_in", "channels", "side", "kernel", "groups")
_ON_IMAGES = ("channels_in", "side")
# Class of layers: the names of its sizes, its wide sizes and its deep sizes.
_CLASSES: dict[str, tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]] = {
    "conv3x3": (_CONVOLUTION, (64, 64, 56, 3, 1), (256, 256, 14, 3, 1)),
    "conv1x1": (_CONVOLUTION, (64, 256, 56, 1, 1), (1024, 256, 14, 1, 1)),
    "depthwise": (_CONVOLUTION, (96, 96, 112, 3, 96), (384, 384, 14, 3, 384)),
    "linear": (("channels_in", "channels"), (1024, 1000), (4096, 4096)),
    "batch_norm": (_ON_IMAGES, (64, 56), (1024, 14)),
    "pooling": (_ON_IMAGES, (64, 112), (480, 28)),
    "elementwise": (_ON_IMAGES, (256, 56), (1024, 14)),
    "lstm": (("steps", "units"), (35, 200), (35, 650)),
}
Sizes = Mapping[str, int]
LAYERS: dict[str, dict[str, Sizes]] = {
    name: {size: dict(zip(names, numbers, strict=True)) for size, numbers in zip(SIZES, both, strict=True)}
    for name, (names, *both) in _CLASSES.items()
}


class Layer(Struct, frozen=True, kw_only=True):
    """A layer ready to run: `call(*inputs)` returns the output. Inputs require gradients, as in every layer
    of a network but the first.

    `flops` are those of one forward pass (2 a multiply-add), None for a layer that mainly moves data. `needs`
    names what its backward pass reads besides the output's gradient: `inputs` (and weights), its `output`, or
    the `indices` of the maxima (8 bytes an output). Two inputs share one gradient."""

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    weights: Sequence[Any]
    flops: float | None
    shape: str
    needs: str = "inputs"


def built(name: str, sizes: Sizes, accelerator: probing.Device, batch: int, dtype: Any) -> Layer:
    """The layer of a class and sizes, with inputs for a batch in the type `dtype`."""
    torch, side = probing.load_torch(), sizes.get("side", 1)
    into, out = sizes.get("channels_in", 0), sizes.get("channels", 0)
    shape: tuple[int, ...] = (batch, into, side, side)
    products, needs, text, inputs = 0, "inputs", "{}", 1
    if name == "linear":
        module, shape, products = torch.nn.Linear(into, out), (batch, into), into * out
        text = f"{{}} -> {out}"
    elif name == "lstm":
        steps, units = sizes["steps"], sizes["units"]
        module, shape, products = torch.nn.LSTM(units, units), (steps, batch, units), 8 * units**2 * steps
        text = f"{steps} steps x {batch} x {units} units"
    elif name == "batch_norm":
        module = torch.nn.BatchNorm2d(into)
    elif name == "pooling":
        module, needs, text = torch.nn.MaxPool2d(3, stride=2, padding=1), "indices", "{}, 3x3 stride 2"
    elif name == "elementwise":
        module, needs, text, inputs = torch.nn.ReLU(), "output", "relu(a + b), {}", 2
    else:
        kernel, groups = sizes["kernel"], sizes["groups"]
        module = torch.nn.Conv2d(into, out, kernel, padding=kernel // 2, groups=groups, bias=False)
        products, text = out * side**2 * (into // groups) * kernel**2, f"{{}} -> {out} channels"
    module = module.to(accelerator.kind)
    # An LSTM also returns its last states, which are part of the output sequence.
    calls = {"lstm": lambda x: module(x)[0], "elementwise": lambda a, b: module(a + b)}
    return Layer(
        call=calls.get(name, module),
        inputs=tuple(accelerator.random(*shape, dtype=dtype).requires_grad_() for _ in range(inputs)),
        weights=tuple(module.parameters()),
        flops=2 * products * batch or None,
        shape=text.format("x".join(map(str, shape))),
        needs=needs,
    )


_BATCHES = {"cuda": 64, "cpu": 4}
_PRECISIONS = {"cuda": ("fp32", "amp"), "cpu": ("fp32",)}
# A backward pass has two products for one forward: gradients of the input, and of the weights.
_BACKWARD_FLOPS = 2


def probe_operations(session: probing.ProbeSession) -> probing.Document:
    """Figures of each class, size and precision, forward and backward, on the GPU or else the CPU.

    fp32 and amp (float16 autocast) use PyTorch's defaults, like trials: convolutions in fp32 may use TF32."""
    accelerator = probing.CUDA if probing.has_cuda() else probing.CPU
    probing.load_torch()
    document: probing.Document = {
        "device": accelerator.kind,
        "batch": _BATCHES[accelerator.kind],
        "launch": session.attempt(partial(_launch, accelerator, session.budget.operation_figure)),
    }
    # All classes at one size come before the next size, as the time may end before the last figures.
    for precision in _PRECISIONS[accelerator.kind]:
        document[precision] = {name: {} for name in LAYERS}
        for size, name in itertools.product(SIZES, LAYERS):
            document[precision][name][size] = session.attempt(
                partial(_measured, session, accelerator, precision, name, LAYERS[name][size])
            )
    accelerator.free()
    return document


def _launch(accelerator: probing.Device, seconds: float) -> probing.Document:
    """The overhead of one operation, from consecutive calls on a single number."""
    number = accelerator.random(1)
    times = accelerator.time_calls(partial(number.add_, 1.0), seconds)
    return probing.figure([time_ * 1e6 for time_ in times], "us", "torch adds to one number, back to back")


def _measured(
    session: probing.ProbeSession, accelerator: probing.Device, precision: str, name: str, sizes: Sizes
) -> probing.Document:
    torch = probing.load_torch()
    torch.manual_seed(0)
    dtype, batch = torch.float16 if precision == "amp" else torch.float32, _BATCHES[accelerator.kind]
    layer = built(name, sizes, accelerator, batch, dtype)

    def forward() -> Any:
        """The output, with the graph that a backward pass needs, as in training."""
        with autocast(accelerator.kind, Precision(precision)):
            return layer.call(*layer.inputs)

    output = forward()
    wanted = (*layer.inputs, *layer.weights)
    backward = partial(torch.autograd.grad, output, wanted, torch.ones_like(output), retain_graph=True)
    to_and_fro = moved_bytes(layer, output)
    again = layer.flops and layer.flops * _BACKWARD_FLOPS
    seconds = session.budget.operation_figure
    return {
        "shape": layer.shape,
        "sizes": {"batch": batch, **sizes},
        "forward": _figures(accelerator.time_calls(forward, seconds), layer.flops, to_and_fro[0]),
        "backward": _figures(accelerator.time_calls(backward, seconds), again, to_and_fro[1]),
    }


def _figures(times: Sequence[float], flops: float | None, moved_bytes: int) -> probing.Document:
    """Milliseconds, GB/s if each tensor moves once, and TFLOP/s of layers that compute."""
    traffic = [moved_bytes / time_ / 1e9 for time_ in times]
    document: probing.Document = {
        "time": probing.figure([time_ * 1e3 for time_ in times], "ms", "torch, the device synchronised"),
        "traffic": probing.figure(traffic, "GB/s", "what must be moved, once, over the time"),
    }
    if flops:
        arithmetic = [flops / time_ / 1e12 for time_ in times]
        document["arithmetic"] = probing.figure(arithmetic, "TFLOP/s", "2 a multiply-add, over the time")
    return document


def moved_bytes(layer: Layer, output: Any) -> tuple[int, int]:
    """The bytes moved forward (inputs, weights, output) and backward (the output's gradient, tensors that the
    layer `needs`, gradients)."""
    needed: dict[str, int] = {
        "inputs": _bytes(*layer.inputs, *layer.weights),
        "output": _bytes(output),
        "indices": int(output.numel()) * 8,
    }
    backward = _bytes(output) + needed[layer.needs] + _bytes(layer.inputs[0], *layer.weights)
    return _bytes(*layer.inputs, *layer.weights, output), backward


def _bytes(*tensors: Any) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)
