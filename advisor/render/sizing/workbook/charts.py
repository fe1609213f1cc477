"""Sheets with the data of every chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from advisor.render.sizing.workbook.columns import (
    WORKLOAD,
    Column,
    Look,
    Row,
    Sheet,
    field,
    with_workload,
)

_RATES = (
    field("Lower samples/s", "lower", Look.RATE),
    field("Median samples/s", "median", Look.RATE),
    field("Upper samples/s", "upper", Look.RATE),
    field("Bottleneck", "bottleneck"),
)


def price_rate_sheet(sections: Sequence[Row]) -> Sheet:
    """Price against throughput, with the front and the pick."""
    columns = [
        WORKLOAD,
        field("Instance type", "instance_type"),
        field("Cloud", "cloud"),
        field("Region", "region"),
        field("Market", "market"),
        field("Instances", "count", Look.WHOLE),
        field("GPU", "gpu"),
        field("GPUs", "gpu_count", Look.WHOLE),
        field("vCPUs", "vcpus", Look.NUMBER),
        field("Memory (MiB)", "memory_mib", Look.WHOLE),
        field("Disk (each)", "disk"),
        field("Batch size", "batch_size", Look.WHOLE),
        field("USD/hour", "total_usd_per_hour", Look.USD),
        *_RATES,
        field("USD/million samples", "usd_per_million_samples", Look.USD),
        field("Prediction", "provenance"),
        field("On the front", "on_front"),
        field("Meets the target", "answers"),
        field("Chosen", "chosen"),
    ]
    rows = with_workload(sections, lambda one: one["price_throughput"])
    return Sheet("Price and rate", "What each spec costs and reaches.", columns, rows)


def bottleneck_sheet(sections: Sequence[Row]) -> Sheet:
    """Each stage's own rate."""
    columns = [
        WORKLOAD,
        field("Stage", "stage"),
        field("Its own samples/s", "samples_per_second", Look.RATE),
        Column("Used (%)", Look.PERCENT, lambda row: 100 * row["utilization"]),
    ]
    rows = with_workload(sections, lambda one: (one["bottleneck"] or {}).get("stages", []))
    return Sheet("Bottleneck", "What each stage could do alone; the slowest binds.", columns, rows)


def curve_sheets(sections: Sequence[Row]) -> list[Sheet]:
    """Throughput over vCPUs, memory and disk; the measured points have a sheet of their own."""
    amounts = {
        "vcpus": ("Over vCPUs", [field("vCPUs (each)", "vcpus", Look.NUMBER),
                                 field("Physical cores", "physical_cores", Look.NUMBER)]),
        "memory": ("Over memory", [field("Memory (MiB, each)", "memory_mib", Look.WHOLE)]),
        "disk": ("Over disks", [
            field("Disk (each)", "order"), field("Disk type", "type"),
            field("Reads (MiB/s)", "read_mib_per_second", Look.NUMBER),
            field("Reads (IOPS)", "read_iops", Look.WHOLE),
            field("Disk USD/hour (each)", "usd_per_hour_each", Look.USD),
        ]),
    }  # fmt: skip
    note = "Everything else as the pick has it."
    return [
        Sheet(name, note, [WORKLOAD, *columns, *_RATES],
              with_workload(sections, partial(_points, at)))
        for at, (name, columns) in amounts.items()
    ]  # fmt: skip


def _points(at: str, section: Row) -> Sequence[Row]:
    points: Sequence[Row] = section["curves"][at]["points"] if section["curves"] else []
    return points


def measured_sheet(sections: Sequence[Row]) -> Sheet:
    """Every measurement of the networks that are asked about, and which charts show it."""
    columns = [
        WORKLOAD,
        field("Trial", "trial_id"),
        field("Network", "network"),
        field("Task", "task"),
        field("Batch size", "batch_size", Look.WHOLE),
        field("Precision", "precision"),
        field("Data set", "dataset"),
        field("vCPUs", "vcpus", Look.NUMBER),
        field("Memory (MiB)", "memory_mib", Look.WHOLE),
        field("Disk type", "disk_type"),
        field("Disk (MiB/s)", "disk_read_mib_per_second", Look.NUMBER),
        field("Accelerator", "accelerator"),
        field("CPU", "cpu_model"),
        field("Measured samples/s", "samples_per_second", Look.RATE),
        field("Known as", "provenance"),
        field("From", "origin"),
        field("Measured on", "measured_on", Look.DAY),
        field("Drawn over vCPUs", "over_vcpus"),
        field("Drawn over memory", "over_memory"),
        field("Drawn over disks", "over_disk"),
    ]
    rows = with_workload(sections, _measured)
    return Sheet("Measured", "Points that were measured, in the charts or beside.", columns, rows)


def _measured(section: Row) -> list[Row]:
    curves = section["curves"] or {}
    drawn = {f"over_{name}": set(curve["measured"]) for name, curve in curves.items()}
    names = ("over_vcpus", "over_memory", "over_disk")
    return [
        {**row, **{name: row["trial_id"] in drawn.get(name, ()) for name in names}}
        for row in section["measured"]
    ]


def gpu_memory_sheet(sections: Sequence[Row]) -> Sheet:
    """What each batch takes of one GPU."""
    columns = [
        WORKLOAD,
        field("GPU", "gpu"),
        field("Has (MiB)", "has_mib", Look.WHOLE),
        field("Batch size", "batch_size", Look.WHOLE),
        field("Needs (MiB)", "needed_mib", Look.WHOLE),
        Column("Used (%)", Look.PERCENT, lambda row: 100 * row["needed_mib"] / row["has_mib"],
               "100*{Needs (MiB)}/{Has (MiB)}"),
        field("Fits", "fits"),
        field("Chosen", "chosen"),
        field("Lower samples/s", "reached.lower", Look.RATE),
        field("Median samples/s", "reached.median", Look.RATE),
        field("Upper samples/s", "reached.upper", Look.RATE),
    ]  # fmt: skip
    rows = with_workload(sections, _batches)
    return Sheet("GPU memory", "Batches and the memory of one GPU.", columns, rows)


def _batches(section: Row) -> list[Row]:
    block = section["gpu_memory"]
    if block is None:
        return []
    card = {"gpu": block["gpu"], "has_mib": block["has_mib"]}
    return [{**card, **row} for row in block["batches"]]
