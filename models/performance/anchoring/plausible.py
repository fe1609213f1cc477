"""Step times that no GPU can reach: timing that did not wait for the GPU, or another network."""

from __future__ import annotations

from advisor.domain import Gpu, Precision
from advisor.models.performance.network_table import Rows

# Boost clocks go above a data sheet's, and FLOPs are counted as if no algorithm saved any:
# Winograd's convolutions do with 2.25 times fewer (Lavin and Gray, 2016).
_ABOVE_THE_SHEET = 2.25 * 1.2


def fastest_seconds(operations: Rows, precision: Precision, gpu: Gpu, batch_size: int) -> float:
    """Seconds below which a step cannot have been computed, all arithmetic at the peak."""
    units = [gpu.fp32_tflops, gpu.tf32_tflops or 0.0]
    if precision is not Precision.FP32:
        units += [gpu.fp16_tflops or 0.0, gpu.bf16_tflops or 0.0]
    flops = float((operations["flops"].astype(float) * operations["count"]).sum()) * batch_size
    return flops / (max(units) * 1e12 * _ABOVE_THE_SHEET)
