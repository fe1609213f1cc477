"""Why types were passed over, as lines of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain import Recommendation, Rejected
from advisor.units import format_usd

# Reasons of types that run the workload and still do not answer.
RAN = frozenset(
    {
        "too_slow",
        "latency",
        "too_long",
        "over_max_cost",
        "over_max_price",
        "no_interval",
        "gpu_memory",
        "memory",
        "no_disk",
        "quota",
    }
)


# How the engine says that a type was ruled out before its whole rate was predicted: less telling.
_WITHOUT_DECODING = "without decoding"


def tempting(
    rejected: Sequence[Mapping[str, Any]], pick: Mapping[str, Any] | None
) -> list[Mapping[str, Any]]:
    """Of a document's rejected types those that cost less than its pick: those that run it and
    fall short first, the dearest at the head."""
    cheaper = [one for one in rejected if pick is None or _is_cheaper(one, pick)]
    cheaper.sort(key=lambda one: -(one["usd_per_hour"] or 0.0))
    cheaper.sort(key=lambda one: (one["reason"] not in RAN, _WITHOUT_DECODING in one["detail"]))
    return cheaper


def _is_cheaper(one: Mapping[str, Any], pick: Mapping[str, Any]) -> bool:
    """One without a known price is not."""
    price = one["usd_per_hour"]
    return price is not None and price < pick["price"]["total_usd_per_hour"]


def rejection_lines(answer: Recommendation, most: int | None) -> list[str]:
    """The `most` telling ones that would cost less; all, however dear, where it is None."""
    chosen = answer.chosen
    cheaper = list(answer.rejected)
    if chosen is not None:
        limit = chosen.spec.total_usd_per_hour
        cheaper = [one for one in cheaper if _price_of(one, limit) < limit]
    told = {one.candidate.spec.offer.instance.name for one in answer.close_calls[:1]}
    untold = [one for one in cheaper if one.instance_type not in told]
    telling = _next_cheaper(untold) if chosen else _one_of_each_reason(untold)
    shown = list(answer.rejected) if most is None else telling[:most]
    if not shown:
        return []
    counts = ", ".join(f"{count} {reason}" for reason, count in answer.rejected_by_reason.items())
    title = f"Cheaper, but ({len(cheaper)} in all)" if chosen else f"Why not ({counts})"
    title = title if most is not None else f"Rejected {len(answer.rejected)}: {counts}"
    return ["", title, *map(_rejection, shown)]


def _price_of(one: Rejected, unknown: float) -> float:
    return unknown if one.usd_per_hour is None else one.usd_per_hour


def _next_cheaper(cheaper: Sequence[Rejected]) -> list[Rejected]:
    """Those that could have been bought and run come first, the dearest at the head: they tempt."""
    falling = sorted(cheaper, key=lambda one: one.usd_per_hour or 0.0, reverse=True)
    return sorted(falling, key=lambda one: one.reason not in RAN)


def _one_of_each_reason(rejected: Sequence[Rejected]) -> list[Rejected]:
    """Where nothing answers: the cheapest of each reason, those that would run first; then the
    others. Hundreds that are too slow would hide the few that lack a disk.
    """
    rising = sorted(rejected, key=lambda one: (one.reason not in RAN, _price_of(one, math.inf)))
    first = {one.reason: one for one in reversed(rising)}
    return sorted(rising, key=lambda one: first[one.reason] is not one)


def _rejection(one: Rejected) -> str:
    price = "" if one.usd_per_hour is None else f" {format_usd(one.usd_per_hour)}/h"
    return f"  {one.instance_type}{price}: {one.detail}"
