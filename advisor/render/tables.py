"""Writes records as CSV and Markdown, such as the ranked specs of a recommendation for any task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.files import csv_of
from advisor.render.records import same_paths, spread_paths

Record = Mapping[str, Any]


# The total with its 90 % interval.
_TOTALS = same_paths("total_usd_per_hour total_low_usd_per_hour total_high_usd_per_hour", "price.")
_PLACE = same_paths("rank cloud region market instance_type count") | {
    "gpu": "gpu.name",
    "gpu_count": "gpu.count",
}
_RATE = spread_paths({"throughput": "predicted.throughput"})
_RUN = spread_paths({"run_hours": "run.hours", "run_usd": "run.usd"})
# The columns of a ranked spec, each with its path in a recommendation's document.
NETWORK = {
    **_PLACE,
    **same_paths("vcpus physical_cores memory_mib"),
    **{"disk_type": "disk.type", "disk_size_gib": "disk.size_gib", "disk_order": "disk.order"},
    **{"disk_read_iops": "disk.read_iops", "disk_read_mib_per_second": "disk.read_mib_per_second"},
    "batch_size": "batch_size",
    **_RATE,
    **{"latency_p50_ms": "latency.p50_ms", "latency_p99_ms": "latency.p99_ms"},
    **{"instance_usd_per_hour": "price.usd_per_hour", "disk_usd_per_hour": "price.disk_usd_per_hour"},
    **_TOTALS,
    "usd_per_million_samples": "cost.usd_per_million_samples",
    **same_paths("bottleneck risk"),
    **{"provenance": "predicted.provenance", "price_as_of": "price.as_of", "price_kind": "price.kind"},
    "run_samples": "run.samples",
    **_RUN,
    **{"price_source": "price.source", "disk_price_kind": "disk.price_kind"},
}
_MACHINE = {
    **same_paths("vcpus memory_mib"),
    **{"disk_order": "disk.order", "disk_read_mib_per_second": "disk.read_mib_per_second"},
    **_TOTALS,
    **{"price_as_of": "price.as_of", "price_kind": "price.kind"},
    **{"risk": "risk", "provenance": "predicted.provenance"},
}
_TIMES = "ttft_seconds tpot_seconds e2e_seconds"
SERVING = {
    **_PLACE,
    **same_paths("engine engine_version precision kv_precision", "serving."),
    **same_paths("tensor_parallel replicas link", "serving.placement."),
    "concurrency": "serving.rates.concurrency",
    **_RATE,
    **spread_paths(same_paths(f"requests_per_second {_TIMES}", "serving.rates.")),
    **spread_paths(same_paths("usd_per_million_output_tokens", "cost.")),
    "usd_per_million_input_tokens_median": "cost.usd_per_million_input_tokens.median",
    **same_paths(
        "weights_gib kv_gib free_gib largest_concurrency longest_context", "serving.memory_per_gpu."
    ),
    "ready_seconds": "serving.ready_seconds.total",
    "bottleneck": "bottleneck",
    **_MACHINE,
}
TUNING = {
    **_PLACE,
    **same_paths("method precision micro_batch checkpointing", "tuning."),
    **_RATE,
    **_RUN,
    **_MACHINE,
}
# Columns of a point of latency against throughput.
FRONT = {
    **same_paths("tensor_parallel replicas concurrency"),
    **spread_paths(same_paths(f"output_tokens_per_second {_TIMES}")),
    "answers": "answers",
}


def value_at(record: Any, path: str) -> Any:
    """Return the value at a path like 'price.as_of', or None if a part is missing."""
    for name in path.split("."):
        if record is None:
            return None
        record = record.get(name)
    return record


def flat_rows(records: Sequence[Record], columns: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the values of each record at the columns' paths."""
    return [{name: value_at(record, path) for name, path in columns.items()} for record in records]


def columns_of_task(document: Record) -> Mapping[str, str]:
    """Return the columns for the specs of a recommendation."""
    return {"generation": SERVING, "finetuning": TUNING}.get(document["request"]["task"], NETWORK)


def ranked_rows(document: Record) -> list[dict[str, Any]]:
    """Return the ranked specs as flat records, the recommended one first."""
    first = document["recommendation"]
    ranked = [first, *document["alternatives"]] if first else []
    rows = flat_rows(ranked, columns_of_task(document))
    for rank, row in enumerate(rows, start=1):
        row |= {"rank": rank, "gpu": row["gpu"] or "", "gpu_count": row["gpu_count"] or 0}
        for end in ("total_low_usd_per_hour", "total_high_usd_per_hour"):
            row[end] = row["total_usd_per_hour"] if row[end] is None else row[end]
    return rows


def recommendation_csv(document: Record) -> str:
    """Return one row per ranked spec, with unrounded numbers."""
    return csv_of(ranked_rows(document), tuple(columns_of_task(document)))


def records_markdown(rows: Sequence[Record], columns: Sequence[str]) -> str:
    """Return flat records as a Markdown table: numbers with four digits, null as a dash."""

    def cell(value: Any) -> str:
        if value is None:
            return "-"
        return short_number(value) if isinstance(value, float) else str(value)

    lines = [columns, ["---"] * len(columns), *([cell(row[name]) for name in columns] for row in rows)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def short_number(value: float) -> str:
    """Write four digits, but large numbers without an exponent: '0.221', '166', '42500'."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
