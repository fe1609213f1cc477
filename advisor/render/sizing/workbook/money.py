"""Sheets of money: what is picked, what it costs however it is paid for, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.render.sizing.workbook.columns import (
    WORKLOAD,
    Column,
    Look,
    Row,
    Sheet,
    field,
    with_workload,
)

# The cell that a buyer changes; the first sheet has it.
HOURS_NAME = "hours_per_month"
HOURS = "Hours/month"
USD_HOUR, USD_MONTH = "USD/hour", "USD/month"


def picks_sheet(document: Row) -> Sheet:
    """A row a workload, with its own hours a month, which follow the one cell until changed."""
    hours = document["totals"]["hours_per_month"]
    columns = [
        field("Workload", "name"),
        field("Status", "answer.status"),
        field("Instance type", "spec.instance_type"),
        field("Instances", "spec.count", Look.WHOLE, sums=True),
        field("Disk (each)", "spec.disk"),
        field("Region", "spec.region"),
        field("Market", "spec.market"),
        field(USD_HOUR, "spec.usd_per_hour", Look.USD, sums=True),
        Column(HOURS, Look.WHOLE, lambda row: row["spec"] and hours, HOURS_NAME),
        field(USD_MONTH, "spec.usd_per_month", Look.USD_MONTH, sums=True,
              formula=f"{{{USD_HOUR}}}*{{{HOURS}}}"),
        field("USD/million samples", "spec.usd_per_million_samples", Look.USD,
              formula=f"{{{USD_HOUR}}}/({{Median samples/s}}*3600)*1000000"),
        field("Target samples/s", "answer.target_throughput", Look.RATE),
        field("Lower samples/s", "spec.lower", Look.RATE),
        field("Median samples/s", "spec.median", Look.RATE),
        field("Upper samples/s", "spec.upper", Look.RATE),
        field("Confidence", "answer.confidence", Look.NUMBER),
        field("Bottleneck", "spec.bottleneck"),
        field("Prediction", "spec.provenance"),
        field("Risk (1-5)", "spec.risk", Look.WHOLE),
        field("Price", "spec.price_kind"),
        field("Price of", "spec.price_as_of", Look.DAY),
    ]  # fmt: skip
    note = f"Change {HOURS_NAME} above, or the hours of one workload: months and sums follow."
    return Sheet("Totals", note, columns, [_pick(one) for one in document["workloads"]])


def _pick(section: Row) -> dict[str, Any]:
    """Where nothing meets the target no spec is bought, and none is added up."""
    answered = section["answer"]["status"] == "answered"
    return {**section, "spec": section["answer"]["spec"] if answered else None}


def costs_sheet(sections: Sequence[Row]) -> Sheet:
    """Every way of paying that is known, of each pick."""
    columns = [
        WORKLOAD,
        field("Market", "market"),
        field("Asked for", "asked"),
        field("Terms", "terms"),
        field("Instances USD/hour", "instance_usd_per_hour", Look.USD),
        field("Disks USD/hour", "disk_usd_per_hour", Look.USD),
        field(USD_HOUR, "usd_per_hour", Look.USD,
              formula="{Instances USD/hour}+{Disks USD/hour}"),
        _month("usd_per_month"),
        field("USD/million samples", "usd_per_million_samples", Look.USD),
        field("Less than on demand (%)", "saving_percent", Look.PERCENT),
        field("Price", "kind"),
        field("Price of", "as_of", Look.DAY),
        field("Source", "source"),
    ]  # fmt: skip
    rows = with_workload(sections, lambda one: (one["costs"] or {}).get("choices", []))
    return Sheet("Costs", "The picks by every way of paying that is known.", columns, rows)


def regions_sheet(sections: Sequence[Row]) -> Sheet:
    """The picks where else they are sold."""
    columns = [
        WORKLOAD,
        field("Region", "region"),
        field("Chosen", "chosen"),
        field("Instances USD/hour", "usd_per_hour", Look.USD),
        field("Disks USD/hour", "disk_usd_per_hour", Look.USD),
        field(USD_HOUR, "total_usd_per_hour", Look.USD,
              formula="{Instances USD/hour}+{Disks USD/hour}"),
        _month("usd_per_month"),
        field("Price", "kind"),
        field("Price of", "as_of", Look.DAY),
        field("Source", "source"),
    ]  # fmt: skip
    rows = with_workload(sections, lambda one: one["regions"])
    return Sheet("Regions", "The same spec in other regions; empty: no price known.", columns, rows)


def break_even_sheet(sections: Sequence[Row]) -> Sheet:
    """Neighbours of the front of price and sure rate."""
    columns = [
        WORKLOAD,
        field("Cheaper", "cheaper.instance_type"),
        field("Its disk", "cheaper.disk"),
        field("Cheaper USD/hour", "cheaper.total_usd_per_hour", Look.USD),
        field("Cheaper lower samples/s", "cheaper.lower", Look.RATE),
        field("Dearer", "dearer.instance_type"),
        field("Disk of that", "dearer.disk"),
        field("Dearer USD/hour", "dearer.total_usd_per_hour", Look.USD),
        field("Dearer lower samples/s", "dearer.lower", Look.RATE),
        field("Dearer needed above samples/s", "at_samples_per_second", Look.RATE,
              formula="{Cheaper lower samples/s}"),
        field("More USD/hour", "more_usd_per_hour", Look.USD,
              formula="{Dearer USD/hour}-{Cheaper USD/hour}"),
        field("More samples/s", "more_samples_per_second", Look.RATE,
              formula="{Dearer lower samples/s}-{Cheaper lower samples/s}"),
        field("Dearer pays below USD/hour", "dearer_pays_below_usd_per_hour", Look.USD,
              formula="{Cheaper USD/hour}*{Dearer lower samples/s}/{Cheaper lower samples/s}"),
        field("Pays now", "dearer_pays_now"),
        field("Of the pick", "of_chosen"),
    ]  # fmt: skip
    rows = with_workload(sections, lambda one: one["break_even"])
    return Sheet(
        "Break-even", "At which rate, and at which price, the choice turns.", columns, rows
    )


def _month(name: str) -> Column:
    return field(USD_MONTH, name, Look.USD_MONTH, formula=f"{{{USD_HOUR}}}*{HOURS_NAME}")
