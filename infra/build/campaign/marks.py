"""Single kernels of the GPU-hour: the work of each, and the torch call that runs it. Needs torch.

Work is counted per row of a batch, as in the network table: FLOPs, elements read and written, elements that
do not depend on the batch, and the sizes of the matrix that a row is multiplied with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct

from advisor.sweeps.probe.session import Device, load_torch

_PRODUCTS = (1024, 2048, 4096, 8192)
_CONVOLUTIONS = ((64, 56), (256, 28), (512, 14))
_CHANNELS_OF_A_GROUP = 32
_LENGTHS, _HEADS, _HEAD = (512, 1024, 2048), 16, 64
_VALUES = (2**20, 2**22, 2**24)
_WIDTH = 1024
_BATCH = 32
_SIDE = 64
# Values read and written per input value.
_MOVED = {"copy": 2, "layer_norm": 2, "softmax": 2, "gelu": 2, "upsample": 5, "fold": 10}
_LAYOUTS = {"": "contiguous_format", ".nhwc": "channels_last"}
# The marks of a short trial.
_SHORT = ("gemm.1024", "conv3x3.3.64", "depthwise.3.64", "attention.512", "copy.1048576", "fold.1048576")


class Mark(Struct, frozen=True, kw_only=True):
    """A kernel: `name` is its kind, size and layout, `sizes` the work of a row and the number of rows; `make`
    returns the call for a device and a data type."""

    name: str
    precision: str
    sizes: dict[str, int]
    make: Callable[[Device, Any], Callable[[], Any]]

    @property
    def key(self) -> str:
        """An identifier that is the same for the same mark in every run."""
        return f"mark/{self.name}/{self.precision}"

    def call(self, device: Device) -> Callable[[], Any]:
        """Allocate the tensors and return the call."""
        torch = load_torch()
        # Convolutions keep PyTorch's default, as in the networks.
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        types = {"fp16": torch.float16, "bf16": torch.bfloat16}
        return self.make(device, types.get(self.precision, torch.float32))


def marks(*, on_gpu: bool, is_short: bool) -> list[Mark]:
    """All marks in order; on a CPU only those in fp32, and in a short trial only small ones."""
    every = [*_products(), *_convolutions(), *_attention(), *_moving()]
    every = [mark for mark in every if on_gpu or mark.precision == "fp32"]
    return [mark for mark in every if mark.name in _SHORT] if is_short else every


def _products() -> Iterator[Mark]:
    for precision in ("fp32", "tf32", "bf16"):
        for n in _PRODUCTS:
            sizes = _work(n, 2 * n * n, 2 * n, n * n, n, n)
            yield Mark(name=f"gemm.{n}", precision=precision, sizes=sizes, make=partial(_product, n))


def _product(n: int, device: Device, dtype: Any) -> Callable[[], Any]:
    left, right = device.random(n, n, dtype=dtype), device.random(n, n, dtype=dtype)
    return lambda: left @ right


def _convolutions() -> Iterator[Mark]:
    kinds = [("conv3x3", 3, 0), ("conv1x1", 1, 0), ("grouped", 3, _CHANNELS_OF_A_GROUP)]
    kinds += [("depthwise", kernel, 1) for kernel in (3, 5, 7, 9)]
    for precision in ("fp32", "fp16"):
        for layout, torch_name in _LAYOUTS.items():
            for name, kernel, of_a_group in kinds:
                for channels, side in _CONVOLUTIONS:
                    groups = channels // of_a_group if of_a_group else 1
                    reduction = channels // groups * kernel**2
                    flops = 2 * channels * side**2 * reduction
                    moved, weights = 2 * channels * side**2, channels * reduction
                    yield Mark(
                        name=f"{name}.{kernel}.{channels}{layout}",
                        precision=precision,
                        sizes=_work(_BATCH, flops, moved, weights, reduction, channels // groups),
                        make=partial(_convolution, channels, side, kernel, groups, torch_name),
                    )


def _convolution(
    channels: int, side: int, kernel: int, groups: int, layout: str, device: Device, dtype: Any
) -> Callable[[], Any]:
    torch = load_torch()
    format_ = getattr(torch, layout)
    module = torch.nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups, bias=False)
    module = module.to(device.kind, dtype).to(memory_format=format_).requires_grad_(False)
    images = device.random(_BATCH, channels, side, side, dtype=dtype).contiguous(memory_format=format_)
    return partial(module, images)


def _attention() -> Iterator[Mark]:
    for precision in ("fp32", "fp16"):
        for kind in ("attention", "attention_masked", "attention_math"):
            for length in _LENGTHS:
                scores = _HEADS * length**2
                moved = 4 * _HEADS * length * _HEAD + (4 * scores if kind == "attention_math" else 0)
                yield Mark(
                    name=f"{kind}.{length}",
                    precision=precision,
                    sizes=_work(8, 4 * scores * _HEAD, moved, 0, _HEAD, length),
                    make=partial(_attend, kind, length),
                )


def _attend(kind: str, length: int, device: Device, dtype: Any) -> Callable[[], Any]:
    torch = load_torch()
    query, key, value = (device.random(8, _HEADS, length, _HEAD, dtype=dtype) for _ in range(3))
    if kind == "attention_math":
        return lambda: (query @ key.mT).softmax(-1) @ value
    mask = None
    if kind == "attention_masked":
        mask = torch.ones(length, length, dtype=torch.bool, device=device.kind).tril()
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(query, key, value, attn_mask=mask)


def _moving() -> Iterator[Mark]:
    for precision in ("fp32", "fp16"):
        for kind, moved in _MOVED.items():
            for values in _VALUES:
                sizes = _work(1, 0, moved * values, 0, 0, 0)
                make = partial(_move, kind, values)
                yield Mark(name=f"{kind}.{values}", precision=precision, sizes=sizes, make=make)


def _move(kind: str, values: int, device: Device, dtype: Any) -> Callable[[], Any]:
    functional = load_torch().nn.functional
    rows = device.random(values // _WIDTH, _WIDTH, dtype=dtype)
    if kind == "upsample":
        images = rows.view(1, -1, _SIDE, _SIDE)
        return partial(functional.interpolate, images, scale_factor=2, mode="bilinear", align_corners=False)
    if kind == "fold":
        columns = functional.unfold(rows.view(1, -1, _SIDE, _SIDE), 3, padding=1)
        return partial(functional.fold, columns, (_SIDE, _SIDE), 3, padding=1)
    calls: dict[str, Callable[[], Any]] = {
        "copy": rows.clone,
        "layer_norm": partial(functional.layer_norm, rows, (_WIDTH,)),
        "softmax": partial(functional.softmax, rows, -1),
        "gelu": partial(functional.gelu, rows),
    }
    return calls[kind]


def _work(batch: int, flops: int, elements: int, fixed: int, reduction: int, width: int) -> dict[str, int]:
    """The sizes of a mark, without entries that are 0."""
    work = {"flops": flops, "elements": elements, "fixed": fixed, "reduction": reduction, "width": width}
    return {"batch": batch, **{name: size for name, size in work.items() if size}}
