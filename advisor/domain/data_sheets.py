"""The columns of the one table of GPU data sheets, `advisor/data/catalog/gpus.csv`, as records."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain.machines import Gpu


def gpu_of_row(row: Mapping[str, str]) -> Gpu:
    """One row by column name; memory is nominal. `KeyError` or `ValueError` for another table."""
    sms = row["sms"]
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"] or None,
        memory_mib=int(float(row["memory_gib"]) * 1024),
        memory_gb_per_second=float(row["memory_gb_per_second"]),
        fp32_tflops=float(row["fp32_tflops"]),
        tf32_tflops=number_of(row["tf32_tflops"]),
        fp16_tflops=number_of(row["fp16_tflops"]),
        bf16_tflops=number_of(row["bf16_tflops"]),
        sms=int(sms) if sms else None,
        l2_mib=number_of(row["l2_mib"]),
        boost_mhz=number_of(row["boost_mhz"]),
        watts=number_of(row["watts"]),
        sources=f"{row['sources']} ({row['confidence']} confidence)",
    )


def number_of(cell: str) -> float | None:
    """An empty cell is unknown."""
    return float(cell) if cell else None
