"""The GPU observations that a fit took from a user's store.

A model's file keeps them; loading it conditions the posterior that ships on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from advisor.domain import Gpu, Observation, Task
from advisor.domain.machines import is_positive
from advisor.models.network_columns import KINDS, WIDTH_STEPS
from advisor.models.performance.networks import OPERATION, Rows
from advisor.models.performance.posterior import Cell
from advisor.models.performance.step_parameters import Conditions, Step


class GpuObservations(NamedTuple):
    """Steps of networks, and layers that a probe timed; each cell and batch size occurs once."""

    steps: tuple[Observation, ...] = ()
    layers: tuple[ProbedLayer, ...] = ()


_KINDS = {
    "conv3x3": "conv_3x3",
    "conv1x1": "conv_1x1",
    "depthwise": "conv_depthwise",
    "linear": "linear",
    "gemm": "linear",
    "batch_norm": "norm",
    "pooling": "pool",
    "elementwise": "elementwise",
    "copy": "copy",
    # From a longer probe (a GPU-hour), whose rows state their FLOPs and elements.
    "grouped": "conv_grouped",
    "attention": "attention",
    "attention_masked": "attention_masked",
    "attention_math": "attention_math",
    "layer_norm": "norm",
    "softmax": "softmax",
    "gelu": "elementwise",
    "upsample": "upsample",
    "fold": "fold",
}
_CHANNELS_LAST = ".nhwc"
_TF32 = {"tf32": "on", "fp32": "convolutions"}
_SHORTEST_SECONDS = 2e-4
# Log standard deviation of a carefully timed layer, in addition to the layer's effect.
_SIGMA = 0.1
_HALF, _CASTING = 2, 3
# Elements of the copy whose time is computed from its rate; large copies take equally long per byte.
_COPIED = 2**28
_FP32_BYTES = 4


class ProbedLayer(Struct, frozen=True):
    """Seconds of one pass of a layer alone on `gpu`.

    `name` is the probe's (`conv3x3.wide`, `gemm`, `copy`), `precision` fp32, tf32, fp16, bf16 or amp. `sizes`
    are whole numbers: those of `batch`, `channels_in`, `channels`, `side`, `kernel` and `groups` that the
    layer has, or else its work: `flops`, `elements`, `fixed`, `reduction` and `width`."""

    name: str
    backward: bool
    precision: str
    sizes: Mapping[str, int]
    seconds: float
    gpu: Gpu

    def cell(self) -> Cell:
        """The timed step, as if the layer were a network; each layer has a separate effect."""
        how = Conditions(
            gpu=self.gpu,
            task=str(Task.INFERENCE),
            precision="fp32" if self.precision == "tf32" else self.precision,
            tf32=_TF32.get(self.precision, "off"),
            memory_format="channels_last" if self.name.endswith(_CHANNELS_LAST) else "contiguous",
            # A separate source: timings of layers say nothing about how the user times whole steps.
            source="kernels/probe",
        )
        step = Step(_rows(self), 0.0, 0.0, float(self.sizes["batch"]), how)
        return Cell(f"probe/{self.name}", step)

    def as_step(self, constant: float) -> tuple[float, float]:
        """Seconds and their relative standard error. `constant` seconds are added: a network's step spends
        them outside its kernels, a layer that is called in a loop does not."""
        whole = self.seconds + constant
        return whole, _SIGMA * self.seconds / whole


def layers_of(fingerprint: Mapping[str, Any], gpu: Gpu) -> list[ProbedLayer]:
    """The layer timings of the first GPU in a fingerprint of `advisor.sweeps.probe`.

    The list is empty if no GPU was timed, or if sizes are missing, as in fingerprints of older versions.
    """
    try:
        result = [*_products(fingerprint, gpu)]
        if (rate := _figure(fingerprint, "gpu.device_copy", "GB/s")) is not None:
            sizes, seconds = {"batch": 1, "values": _COPIED}, 2 * _COPIED * _FP32_BYTES / (rate * 1e9)
            result.append(ProbedLayer("copy", False, "fp32", sizes, seconds, gpu))
        if fingerprint["operations_device"] == "cuda":
            result += _layers(fingerprint, gpu)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return []
    return [entry for entry in result if entry.seconds >= _SHORTEST_SECONDS]


def _products(fingerprint: Mapping[str, Any], gpu: Gpu) -> Iterator[ProbedLayer]:
    for precision in ("fp32", "tf32", "fp16", "bf16"):
        rate = _figure(fingerprint, f"gemm.cuda.{precision}", "TFLOP/s")
        if rate is None:
            continue
        size = _whole(fingerprint["sizes"][f"gemm.cuda.{precision}"])["size"]
        sizes = {"batch": size, "channels_in": size, "channels": size}
        seconds = 2 * size**3 / (rate * 1e12)
        yield ProbedLayer("gemm", False, precision, sizes, seconds, gpu)


def _layers(fingerprint: Mapping[str, Any], gpu: Gpu) -> Iterator[ProbedLayer]:
    for size_name, sizes in fingerprint["sizes"].items():
        part, _, name = size_name.partition(".")
        if part != "operations" or name.partition(".")[0] not in _KINDS:
            continue
        for precision in ("fp32", "tf32", "amp", "bf16", "fp16"):
            for backward, direction in enumerate(("forward", "backward")):
                figure = f"operations.{precision}.{name}.{direction}.time"
                milliseconds = _figure(fingerprint, figure, "ms")
                if milliseconds is not None:
                    seconds = milliseconds / 1e3
                    yield ProbedLayer(name, bool(backward), precision, _whole(sizes), seconds, gpu)


def _figure(fingerprint: Mapping[str, Any], name: str, unit: str) -> float | None:
    result = fingerprint["figures"].get(name)
    if result is None or result["unit"] != unit or not is_positive(result["value"]):
        return None
    return float(result["value"])


def _whole(sizes: Mapping[str, Any]) -> dict[str, int]:
    result = {str(name): int(value) for name, value in sizes.items()}
    if any(value < 1 for value in result.values()):
        raise ValueError("sizes are whole numbers above 0")
    return result


class _Kernel(Struct, frozen=True):
    """FLOPs and elements per sample, elements per batch, and the matrix that it is multiplied with."""

    kind: str
    flops: float
    sample: float
    fixed: float
    reduction: int = 0
    width: int = 0


def _rows(layer: ProbedLayer) -> Rows:
    kernels = _kernels(layer)
    rows = np.zeros(len(kernels), OPERATION)
    rows["kind"] = [KINDS.index(kernel.kind) for kernel in kernels]
    rows["backward"], rows["count"] = layer.backward, 1
    rows["flops"] = [kernel.flops for kernel in kernels]
    rows["sample_elements"] = [kernel.sample for kernel in kernels]
    rows["fixed_elements"] = [kernel.fixed for kernel in kernels]
    for name in ("amp_sample_width", "amp_fixed_width"):
        rows[name] = [(_CASTING if kernel.kind == "cast" else _HALF) * WIDTH_STEPS for kernel in kernels]
    rows["reduction"] = [min(kernel.reduction, 65535) for kernel in kernels]
    rows["width"] = [min(kernel.width, 65535) for kernel in kernels]
    return rows


def _kernels(layer: ProbedLayer) -> list[_Kernel]:
    """A layer's kernels, counted as in the network table: each tensor once, both gradients if backward."""
    kind, sizes = _KINDS[layer.name.partition(".")[0]], layer.sizes
    if "elements" in sizes:
        flops, sample, fixed = (float(sizes.get(name, 0)) for name in ("flops", "elements", "fixed"))
        return [_Kernel(kind, flops, sample, fixed, sizes.get("reduction", 0), sizes.get("width", 0))]
    if kind == "copy":
        return [_Kernel(kind, 0.0, 2.0 * sizes["values"], 0.0)]
    if kind in ("norm", "pool", "elementwise"):
        return _moving(kind, sizes["channels_in"] * sizes["side"] ** 2, layer.backward)
    if kind == "linear":
        read, written = sizes["channels_in"], sizes["channels"]
        work = 2.0 * read * written, float(read + written), float(read * written)
        products = [(written, read), (sizes["batch"], read)] if layer.backward else [(read, written)]
        result = [_Kernel("linear", *work, *product) for product in products]
    else:
        result = [_convolution(kind, sizes, layer.backward)]
    weights = result[0].fixed / (1 + (layer.backward and kind != "linear"))
    cast = [_Kernel("cast", 0.0, 0.0, 2.0 * weights)] if layer.precision == "amp" else []
    return [*result, *cast]


def _convolution(kind: str, sizes: Mapping[str, int], backward: bool) -> _Kernel:
    pixels, groups = sizes["side"] ** 2, sizes["groups"]
    read, written = sizes["channels_in"] * pixels, sizes["channels"] * pixels
    reduction, width = sizes["channels_in"] // groups * sizes["kernel"] ** 2, sizes["channels"]
    flops, weights = 2.0 * written * reduction, float(width * reduction)
    if backward:
        return _Kernel(kind, 2 * flops, 2.0 * read + written, 2 * weights, reduction, width // groups)
    return _Kernel(kind, flops, float(read + written), weights, reduction, width // groups)


def _moving(kind: str, values: int, backward: bool) -> list[_Kernel]:
    """Kernels that move data and hardly compute."""
    if kind == "norm":
        moved = [(3 if backward else 2) * values]
    elif kind == "pool":
        pooled = values // 4
        # Including the indices of the maxima, 8 bytes each.
        moved = [(2 * values if backward else values) + 3 * pooled]
    else:
        moved = [3 * values] if backward else [3 * values, 2 * values]
    return [_Kernel(kind, 0.0, float(entry), 0.0) for entry in moved]
