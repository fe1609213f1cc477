"""The part `gemm`: TFLOP/s of square matrix products by precision, as batchCUBLAS reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from advisor.errors import MeasuringError
from advisor.sweeps.probe.session import (
    CPU,
    CUDA,
    Device,
    Document,
    ProbeSession,
    figure,
    has_cuda,
    largest_affordable,
    load_torch,
)

_SIZES = (512, 1024, 2048, 4096, 8192)
_PRECISIONS = {"cuda": ("fp32", "tf32", "fp16", "bf16"), "cpu": ("fp32", "bf16")}
_TYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_AMPERE = (8, 0)  # the first with TF32 and bf16


def probe(session: ProbeSession) -> Document:
    """A figure for each precision of the CPU and, where there is one, of the GPU."""
    torch = load_torch()
    document: Document = {"cpu_threads": torch.get_num_threads()}
    for accelerator in (CPU, CUDA) if has_cuda() else (CPU,):
        document[accelerator.kind] = {
            precision: session.attempt(partial(_figure, accelerator, precision, session.budget.gemm_figure))
            for precision in _PRECISIONS[accelerator.kind]
        }
        accelerator.free()
    return document


def _figure(accelerator: Device, precision: str, seconds: float) -> Document:
    """The largest size that fits the time is timed: small ones measure launches."""
    torch, of_cuda = load_torch(), accelerator.kind == "cuda"
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
        size = largest_affordable(_SIZES, lambda size: min(times(size, 0.0)), seconds, growth=3)
        measured = times(size, seconds)
    method = f"torch.mm of two {size}x{size} matrices of normal random numbers, {precision}"
    result = figure([2 * size**3 / time_ / 1e12 for time_ in measured], "TFLOP/s", method)
    return result | {"sizes": {"size": size}}


@contextmanager
def _float32_products(*, tf32: bool) -> Iterator[None]:
    """Whether float32 products may use TF32; what was set before comes back."""
    torch = load_torch()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
