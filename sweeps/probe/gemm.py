"""The part `gemm` of a probe: TFLOP/s of square matrix products by precision, as batchCUBLAS reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from advisor.errors import MeasuringError
from advisor.sweeps.probe import session as probing

_SIZES = (512, 1024, 2048, 4096, 8192)
_PRECISIONS = {"cuda": ("fp32", "tf32", "fp16", "bf16"), "cpu": ("fp32", "bf16")}
_TYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_AMPERE = (8, 0)  # the first with TF32 and bf16


def probe(session: probing.ProbeSession) -> probing.Document:
    """A figure for each precision of the CPU and, if there is one, of the GPU."""
    torch = probing.load_torch()
    document: probing.Document = {"cpu_threads": torch.get_num_threads()}
    for accelerator in (probing.CPU, probing.CUDA) if probing.has_cuda() else (probing.CPU,):
        document[accelerator.kind] = {
            precision: session.attempt(partial(_figure, accelerator, precision, session.budget.gemm_figure))
            for precision in _PRECISIONS[accelerator.kind]
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
        size = probing.largest_affordable(_SIZES, lambda size: min(times(size, 0.0)), seconds, growth=3)
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
