"""GPU data sheets, read from the bundle."""

from __future__ import annotations

from advisor.catalog.files import Files
from advisor.domain import Gpu


def read_gpus(files: Files) -> dict[str, Gpu]:
    """Data sheets by name; memory is nominal, rates are dense."""
    return {row["name"]: _gpu(row) for row in files.table("catalog/gpus.csv").records()}


def _gpu(row: dict[str, str]) -> Gpu:
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"] or None,
        memory_mib=int(float(row["memory_gib"]) * 1024),
        memory_gb_per_second=float(row["memory_gb_per_second"]),
        fp32_tflops=float(row["fp32_tflops"]),
        tf32_tflops=_float(row["tf32_tflops"]),
        fp16_tflops=_float(row["fp16_tflops"]),
        bf16_tflops=_float(row["bf16_tflops"]),
        sources=f"{row['sources']} ({row['confidence']} confidence)",
    )


def _float(text: str) -> float | None:
    return float(text) if text else None
