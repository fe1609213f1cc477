"""GPU data sheets, and which data sheet a cloud's GPU name stands for."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.infra.build.catalog.tables import OutputTable, number, read_source, table
from advisor.infra.build.catalog.wide import Source

GPUS_FILE = "catalog/gpus.csv"
SOURCE = Source(
    "gpu-sheets",
    "2026-08-02",
    "plain facts",
    "IGUANE; gpu-info-api; NeuSight; Habitat; gpu-specs and vendor sheets",
    "GPU data sheets",
)

# fp64 results per fp32 result for a clock and multiprocessor, by compute capability, without tensor cores:
# CUDA C++ Programming Guide, table "Throughput of Native Arithmetic Instructions".
_FP64_SHARE = {
    "3.7": 1 / 3,
    "5.2": 1 / 32,
    "6.0": 1 / 2,
    "6.1": 1 / 32,
    "7.0": 1 / 2,
    "7.5": 1 / 32,
    "8.0": 1 / 2,
    "8.6": 1 / 64,
    "8.9": 1 / 64,
    "9.0": 1 / 2,
    "10.0": 1 / 2,
    "10.3": 1 / 64,
    "12.0": 1 / 64,
    "12.1": 1 / 64,
}

HEADER = (
    "name",
    "vendor",
    "architecture",
    "compute_capability",
    "sms",
    "memory_gib",
    "memory_gb_per_second",
    "l2_mib",
    "boost_mhz",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "fp64_tflops",
    "int8_tops",
    "fp8_tflops",
    "watts",
    "link",
    "confidence",
    "sources",
)


def build_gpus() -> list[OutputTable]:
    """All data sheets. Rates are dense; fp16 rates are those with fp32 accumulation."""
    return [table(GPUS_FILE, HEADER, map(_sheet_row, read_source("catalog/gpu_specs.csv")))]


def sheet_names(cloud: str) -> dict[tuple[str, str, int], str]:
    """(manufacturer, the cloud's GPU name, memory of a whole GPU in MiB) -> data sheet name.

    Memory is part of the key: EC2 says "A100" for the 40 GB and the 80 GB card alike."""
    return {
        (row["gpu_manufacturer"], row["gpu_name"], int(row["memory_mib"])): row["sheet"]
        for row in read_source("catalog/gpu_names.csv")
        if row["cloud"] == cloud
    }


def _sheet_row(row: Mapping[str, str]) -> tuple[str, ...]:
    return (
        row["gpu"],
        row["vendor"],
        row["architecture"],
        row["compute_capability"],
        row["sms"],
        number(row["memory_gb"]),
        number(row["memory_bandwidth_gb_s"]),
        number(row["l2_mib"]),
        number(row["boost_mhz"]),
        number(row["fp32_tflops"]),
        number(row["tf32_dense_tflops"]),
        number(row["fp16_dense_tflops"]),
        number(row["bf16_dense_tflops"]),
        _fp64(row),
        number(row["int8_dense_tops"]),
        number(row["fp8_dense_tflops"]),
        number(row["tdp_w"]),
        row["interconnect"],
        row["confidence"],
        row["sources"],
    )


def _fp64(row: Mapping[str, str]) -> str:
    """The source's fp64 rate if stated (export models are capped), else derived from the architecture."""
    if row["fp64_tflops"]:
        return number(row["fp64_tflops"])
    share = _FP64_SHARE.get(row["compute_capability"])
    return f"{float(row['fp32_tflops']) * share:.4g}" if share else ""
