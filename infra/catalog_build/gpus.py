"""GPU data sheets, and which of them a cloud's GPU name means."""

from __future__ import annotations

from collections.abc import Mapping

from infra.catalog_build.tables import OutputTable, number, read_source, table

GPUS_FILE = "catalog/gpus.csv"

HEADER = (
    "name",
    "vendor",
    "architecture",
    "compute_capability",
    "memory_gib",
    "memory_gb_per_second",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "confidence",
    "sources",
)


def build_gpus() -> list[OutputTable]:
    """All data sheets; rates are dense. A sheet without an fp32 rate is no use and is left out."""
    sheets = [row for row in read_source("catalog/gpu_specs.csv") if row["fp32_tflops"]]
    return [table(GPUS_FILE, HEADER, [_sheet_row(row) for row in sheets])]


def sheet_names(cloud: str) -> dict[tuple[str, str, int], str]:
    """(manufacturer, the cloud's GPU name, memory of a whole GPU in MiB) -> data sheet name.

    Memory is part of the key: EC2 says "A100" for the 40 GB and the 80 GB card alike.
    """
    return {
        (row["gpu_manufacturer"], row["gpu_name"], int(row["memory_mib"])): _short(row["sheet"])
        for row in read_source("catalog/gpu_names.csv")
        if row["cloud"] == cloud
    }


def _sheet_row(row: Mapping[str, str]) -> tuple[str, ...]:
    return (
        _short(row["gpu"]),
        row["vendor"],
        row["architecture"],
        row["compute_capability"],
        number(row["memory_gb"]),
        number(row["memory_bandwidth_gb_s"]),
        number(row["fp32_tflops"]),
        number(row["tf32_dense_tflops"]),
        number(row["fp16_dense_tflops"]),
        number(row["bf16_dense_tflops"]),
        row["confidence"],
        row["sources"],
    )


def _short(sheet: str) -> str:
    """'K80 (per GPU; 2 per board)' -> 'K80'."""
    return sheet.partition(" (")[0]
