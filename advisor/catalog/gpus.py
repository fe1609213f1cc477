"""GPU data sheets, read from the bundle."""

from __future__ import annotations

from advisor.catalog.files import Files
from advisor.domain import Gpu
from advisor.domain.data_sheets import gpu_of_row, number_of
from advisor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSheet:
    """A data sheet with what a person chooses by and no prediction needs; None: unknown.

    `fp64_tflops` is without tensor cores; `link` is how it reaches the host and other GPUs.
    """

    gpu: Gpu
    fp64_tflops: float | None
    int8_tops: float | None
    fp8_tflops: float | None
    link: str | None


def read_sheets(files: Files) -> dict[str, GpuSheet]:
    """Data sheets by name; memory is nominal, rates are dense."""
    return {row["name"]: _sheet(row) for row in files.table("catalog/gpus.csv").records()}


def _sheet(row: dict[str, str]) -> GpuSheet:
    return GpuSheet(
        gpu=gpu_of_row(row),
        fp64_tflops=number_of(row["fp64_tflops"]),
        int8_tops=number_of(row["int8_tops"]),
        fp8_tflops=number_of(row["fp8_tflops"]),
        link=row["link"] or None,
    )
