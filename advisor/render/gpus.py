"""GPU data sheets beside what they cost, as text, JSON and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.catalog.gpus import SORT_KEYS, GpuSheet, usd_per_gpu_hour
from advisor.domain import Offer
from advisor.render.blocks import price_block
from advisor.render.text import table
from advisor.units import format_mib, format_usd

SCHEMA = "advisor.gpus/1"
_RATES = (
    "fp64_tflops",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "int8_tops",
    "fp8_tflops",
)
_OFFER = ("cloud", "region", "market", "instance_type")
COLUMNS = (
    "name",
    "architecture",
    "compute_capability",
    "memory_mib",
    "memory_gb_per_second",
    *_RATES,
    "watts",
    "link",
    "usd_per_gpu_hour",
    "usd_per_fp32_tflop_hour",
    *_OFFER,
)


def gpu_rows(sheets: Sequence[GpuSheet], cheapest: Mapping[str, Offer], sort_by: str) -> list[dict[str, Any]]:
    """One flat record a GPU, JSON-ready; unknown values are null and sorted last."""
    rows = [_row(sheet, cheapest.get(sheet.gpu.name)) for sheet in sheets]
    falling = SORT_KEYS[sort_by]

    def key(row: dict[str, Any]) -> tuple[bool, Any, str]:
        value = row[sort_by]
        if value is None:
            return True, 0, row["name"]
        return False, -value if falling else value, row["name"]

    return sorted(rows, key=key)


def gpus_document(rows: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The versioned JSON answer; `asked` says where prices were looked for."""
    return {"schema": SCHEMA, "asked": dict(asked), "gpus": list(rows)}


def flat_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One record without nesting, for CSV and Markdown: `COLUMNS` and more."""
    offer = row["cheapest"] or {}
    return {**row, **{name: offer.get(name) for name in _OFFER}}


def gpus_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of 110 columns, and what its figures are."""
    header = ["gpu", "cc", "memory", "GB/s", "fp64", "fp32", "tf32", "fp16", "int8", "watts"]
    header += ["link", "$/h", "$/TFLOP-h", "on"]
    lines = table(header, [_cells(row) for row in rows], right=(*range(2, 10), 11, 12))
    return "\n".join([*lines, "", *_REMARKS])


_REMARKS = (
    "TFLOPS (int8: TOPS) are dense peaks of the data sheet; tf32 and fp16 with tensor cores where "
    "it has them.",
    "$/h is the cheapest instance's price over its GPUs, host included; $/TFLOP-h, over its fp32.",
    "A peak is no throughput: `advisor recommend` tells what a workload really reaches.",
)


def _row(sheet: GpuSheet, offer: Offer | None) -> dict[str, Any]:
    gpu = sheet.gpu
    facts = {name: getattr(gpu, name, None) for name in _RATES}
    facts |= {name: getattr(sheet, name) for name in ("fp64_tflops", "int8_tops", "fp8_tflops")}
    usd = usd_per_gpu_hour(offer) if offer else None
    return {
        "name": gpu.name,
        "vendor": gpu.vendor,
        "architecture": gpu.architecture,
        "compute_capability": gpu.compute_capability,
        "memory_mib": gpu.memory_mib,
        "memory_gb_per_second": gpu.memory_gb_per_second,
        **{name: facts[name] for name in _RATES},
        "watts": gpu.watts,
        "link": sheet.link,
        "usd_per_gpu_hour": usd,
        "usd_per_fp32_tflop_hour": usd / gpu.fp32_tflops if usd else None,
        "cheapest": _offer(offer) if offer else None,
        "sources": gpu.sources,
    }


def _offer(offer: Offer) -> dict[str, Any]:
    return {
        "cloud": offer.instance.cloud,
        "region": offer.region,
        "market": str(offer.market),
        "instance_type": offer.instance.name,
        "gpus": offer.instance.gpu_count,
        "price": price_block(offer.price),
    }


def _cells(row: Mapping[str, Any]) -> list[str]:
    usd, per_tflop, offer = (
        row[name] for name in ("usd_per_gpu_hour", "usd_per_fp32_tflop_hour", "cheapest")
    )
    rates = ("fp64_tflops", "fp32_tflops", "tf32_tflops", "fp16_tflops", "int8_tops", "watts")
    return [
        row["name"],
        row["compute_capability"] or "-",
        format_mib(row["memory_mib"]),
        f"{row['memory_gb_per_second']:g}",
        *(_short(row[name]) for name in rates),
        row["link"] or "-",
        format_usd(usd) if usd else "-",
        format_usd(per_tflop) if per_tflop else "-",
        offer["instance_type"] if offer else "-",
    ]


def _short(value: float | None) -> str:
    """Three digits: '-', '0.473', '8.14', '989', '1979'."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
