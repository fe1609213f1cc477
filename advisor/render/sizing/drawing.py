"""Rows of the chart of price against rate, and where the choice between two neighbours turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

# A step of the front brings a hundredth more: nobody pays for less, and the rates are told in three
# digits.
_MORE = 1.01


class Drawn(NamedTuple):
    """A spec as the recommendation's document tells it, whether it answers, and is recommended."""

    spec: Mapping[str, Any]
    answers: bool
    chosen: bool


def drawn_rows(specs: Sequence[Drawn]) -> list[dict[str, Any]]:
    """Rows by price; `on_front`: surely a hundredth faster, at least, than all of the front that is
    as cheap."""
    ordered = sorted(specs, key=lambda one: _order(one.spec))
    best = 0.0
    rows = []
    for one in ordered:
        lower = one.spec["predicted"]["throughput"]["lower"]
        leads = lower > _MORE * best
        rows.append(_row(one, on_front=leads))
        best = lower if leads else best
    return rows


def _order(spec: Mapping[str, Any]) -> tuple[float, float, str, str]:
    total, lower = spec["price"]["total_usd_per_hour"], spec["predicted"]["throughput"]["lower"]
    return total, -lower, spec["instance_type"], spec["disk"]["order"]


def _row(one: Drawn, *, on_front: bool) -> dict[str, Any]:
    spec = one.spec
    gpu = spec["gpu"] or {}
    same = ("instance_type", "cloud", "region", "market", "count")
    return {
        **{name: spec[name] for name in same},
        "gpu": gpu.get("name"),
        "gpu_count": gpu.get("count", 0),
        **{name: spec[name] for name in ("vcpus", "memory_mib", "batch_size")},
        "disk": spec["disk"]["order"],
        "total_usd_per_hour": spec["price"]["total_usd_per_hour"],
        **spec["predicted"]["throughput"],
        "usd_per_million_samples": spec["cost"]["usd_per_million_samples"],
        "bottleneck": spec["bottleneck"],
        "provenance": spec["predicted"]["provenance"],
        "on_front": on_front,
        "answers": one.answers,
        "chosen": one.chosen,
    }


def break_evens(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Between neighbours of the front: above which sure rate the dearer one is needed, and at
    which price of the dearer one a sure sample costs the same on both (below it, the dearer
    machine is the cheaper one for whoever keeps it busy).
    """
    front = [one for one in rows if one["on_front"]]
    return [_between(one, other) for one, other in pairwise(front)]


def _between(cheaper: Mapping[str, Any], dearer: Mapping[str, Any]) -> dict[str, Any]:
    even_usd = cheaper["total_usd_per_hour"] * dearer["lower"] / cheaper["lower"]
    return {
        "cheaper": _named(cheaper),
        "dearer": _named(dearer),
        "at_samples_per_second": cheaper["lower"],
        "more_usd_per_hour": dearer["total_usd_per_hour"] - cheaper["total_usd_per_hour"],
        "more_samples_per_second": dearer["lower"] - cheaper["lower"],
        "dearer_pays_below_usd_per_hour": even_usd,
        "dearer_pays_now": dearer["total_usd_per_hour"] <= even_usd,
        "of_chosen": cheaper["chosen"] or dearer["chosen"],
    }


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("instance_type", "count", "region", "disk", "total_usd_per_hour", "lower")
    return {name: row[name] for name in names}
