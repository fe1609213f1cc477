"""GPU data sheets, read from the bundle."""

from __future__ import annotations

from advisor.catalog.files import Files
from advisor.domain import Gpu
from advisor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSheet:
    """A data sheet with what a person chooses by and no prediction needs; None: unknown.

    `fp64_tflops` is fp32 times the architecture's share, tensor cores not counted; `watts` is the
    board's power limit as sold; `link` is how it reaches the host and other GPUs.
    """

    gpu: Gpu
    fp64_tflops: float | None
    int8_tops: float | None
    fp8_tflops: float | None
    watts: float | None
    link: str | None


def read_sheets(files: Files) -> dict[str, GpuSheet]:
    """Data sheets by name; memory is nominal, rates are dense."""
    return {row["name"]: _sheet(row) for row in files.table("catalog/gpus.csv").records()}


def _sheet(row: dict[str, str]) -> GpuSheet:
    return GpuSheet(
        gpu=_gpu(row),
        fp64_tflops=_float(row["fp64_tflops"]),
        int8_tops=_float(row["int8_tops"]),
        fp8_tflops=_float(row["fp8_tflops"]),
        watts=_float(row["watts"]),
        link=row["link"] or None,
    )


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
