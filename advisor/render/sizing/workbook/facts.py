"""Sheets of what stands beside the numbers: other specs, reasons, evidence, ages, digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.render.sizing.workbook.columns import (
    WORKLOAD,
    Look,
    Row,
    Sheet,
    field,
    with_workload,
)


def alternatives_sheet(sections: Sequence[Row]) -> Sheet:
    """The ranked specs, the pick first."""
    columns = [
        WORKLOAD,
        field("Place", "place", Look.WHOLE),
        field("Instance type", "instance_type"),
        field("Cloud", "cloud"),
        field("Region", "region"),
        field("Market", "market"),
        field("Instances", "count", Look.WHOLE),
        field("Disk (each)", "disk.order"),
        field("Instance USD/hour (each)", "price.usd_per_hour", Look.USD),
        field("Disk USD/hour (each)", "price.disk_usd_per_hour", Look.USD),
        field("USD/hour", "price.total_usd_per_hour", Look.USD,
              formula="{Instances}*({Instance USD/hour (each)}+{Disk USD/hour (each)})"),
        field("Lower samples/s", "predicted.throughput.lower", Look.RATE),
        field("Median samples/s", "predicted.throughput.median", Look.RATE),
        field("Upper samples/s", "predicted.throughput.upper", Look.RATE),
        field("USD/million samples", "cost.usd_per_million_samples", Look.USD),
        field("Bottleneck", "bottleneck"),
        field("Risk (1-5)", "risk", Look.WHOLE),
        field("Price", "price.kind"),
        field("Price of", "price.as_of", Look.DAY),
        field("Note", "note"),
    ]  # fmt: skip
    rows = with_workload(sections, _ranked)
    return Sheet("Alternatives", "What meets the target, the pick first.", columns, rows)


def _ranked(section: Row) -> list[Row]:
    told = section["recommendation"]
    found = [one for one in (told["recommendation"], *told["alternatives"]) if one]
    return [{"place": at, **one} for at, one in enumerate(found, start=1)]


def rejected_sheet(sections: Sequence[Row]) -> Sheet:
    """Every type that was passed over."""
    columns = [
        WORKLOAD,
        field("Instance type", "instance_type"),
        field("Reason", "reason"),
        field("In detail", "detail"),
        field("Instance USD/hour", "usd_per_hour", Look.USD),
    ]
    rows = with_workload(sections, lambda one: one["recommendation"]["rejected"])
    return Sheet("Rejected", "What was passed over, and why.", columns, rows)


def sensitivity_sheet(sections: Sequence[Row]) -> Sheet:
    """One step more of each resource."""
    columns = [
        WORKLOAD,
        field("Resource", "resource"),
        field("One step more", "step"),
        field("Has", "has", Look.NUMBER),
        field("Unit", "unit"),
        field("More samples/s", "samples_per_second", Look.RATE),
        field("More (%)", "percent", Look.PERCENT),
        field("Bottleneck then", "bottleneck"),
        field("Flat after", "flat_after", Look.NUMBER),
    ]
    rows = with_workload(sections, lambda one: one["sensitivity"])
    return Sheet("Sensitivity", "What one step more of each resource brings.", columns, rows)


def evidence_sheet(sections: Sequence[Row]) -> Sheet:
    """What was measured, published or modelled."""
    columns = [
        WORKLOAD,
        field("About", "subject"),
        field("Stage", "stage"),
        field("Matters", "matters"),
        field("Inside what was measured", "inside"),
        field("Times beyond", "times", Look.NUMBER),
        field("In detail", "detail"),
    ]
    rows = with_workload(sections, lambda one: one["evidence"])
    return Sheet("Evidence", "What each prediction stands on.", columns, rows)


def ages_sheet(sections: Sequence[Row]) -> Sheet:
    """How old the data is."""
    columns = [
        WORKLOAD,
        field("What", "what"),
        field("Of", "as_of", Look.DAY),
        field("Age (days)", "age_days", Look.WHOLE),
        field("Known as", "kind"),
        field("Source", "source"),
    ]
    rows = with_workload(sections, lambda one: one["data_ages"])
    return Sheet("Data age", "Dates of what decided, on the report's day.", columns, rows)


def notes_sheet(sections: Sequence[Row]) -> Sheet:
    """Warnings, assumptions and commands."""
    columns = [WORKLOAD, field("Kind", "kind"), field("Text", "text")]
    return Sheet("Notes", "Warnings, assumptions, and how to ask each workload alone.", columns,
                 with_workload(sections, _notes))  # fmt: skip


def _notes(section: Row) -> list[Row]:
    told = section["recommendation"]
    kinds = {
        "warning": told["warnings"],
        "assumption": told["assumptions"],
        "relax": [_relaxed(one) for one in told["relax"]],
        "command": [section["command"]] if section["command"] else [],
    }
    return [{"kind": kind, "text": text} for kind, texts in kinds.items() for text in texts]


def _relaxed(one: Row) -> str:
    """'--max-price 1.014': what to ask for instead, and what that gives."""
    changes = [
        f"{change['option']} {change['to']}" if change["to"] else f"no {change['option']}"
        for change in one["changes"]
    ]
    gives = one["gives"]
    return f"{' '.join(changes)}: {gives['instance_type']} in {gives['region']}"


def reproducibility_sheet(document: Row) -> Sheet:
    """Everything that it takes to get the same report again, a fact a row."""
    rows = [{"what": name, "value": value} for name, value in _flat(document["reproducibility"])]
    columns = [field("What", "what"), field("Value", "value", Look.NUMBER)]
    return Sheet("Reproducibility", "Versions, digests, and the command.", columns, rows)


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for at, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{at}")
    else:
        yield name, value
