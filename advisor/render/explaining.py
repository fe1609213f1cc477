"""An explanation as JSON and as a few lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain import Stage
from advisor.domain.explanation import Distance, Explanation, Gain
from advisor.render.text import beside, folded, table
from advisor.units import format_rate

# Gains below this share of the rate are told as nothing.
NOTHING_PERCENT = 0.05


def explanation_document(instance_type: str, one: Explanation) -> dict[str, Any]:
    """JSON-ready values; `next_stage` is null where there is but one stage."""
    following = None
    if one.next_stage is not None and one.next_rate is not None:
        times = one.next_rate / one.bottleneck_rate
        following = {**_stage_document(one.next_stage, one.next_rate), "times": times}
    return {
        "instance_type": instance_type,
        "bottleneck": _stage_document(one.bottleneck, one.bottleneck_rate),
        "next_stage": following,
        "gains": [_gain_document(gain) for gain in one.gains],
        "measured_range": [_distance_document(distance) for distance in one.distances],
    }


def _stage_document(stage: Stage, rate: float) -> dict[str, Any]:
    return {"stage": str(stage), "samples_per_second": rate}


def _gain_document(gain: Gain) -> dict[str, Any]:
    return {
        "resource": gain.resource,
        "step": gain.step,
        "samples_per_second": gain.samples_per_second,
        "percent": gain.percent,
        "bottleneck": str(gain.bottleneck),
    }


def _distance_document(distance: Distance) -> dict[str, Any]:
    return {
        "subject": distance.subject,
        "stage": str(distance.stage),
        "matters": distance.matters,
        "inside": distance.inside,
        "times": distance.times,
        "detail": distance.detail,
    }


def explanation_text(instance_type: str, one: Explanation) -> str:
    """What binds, what one more of each resource brings, and what was measured."""
    telling = [distance for distance in one.distances if distance.matters]
    outside = [str(distance.detail) for distance in telling if not distance.inside]
    inside = [str(distance.detail) for distance in telling if distance.inside]
    lines = ["", f"Why {instance_type}", *folded("binds", [_binding_text(one)])]
    lines += beside("adding", table(*_gain_rows(one.gains), right=(1, 2))) if one.gains else []
    lines += folded("outside", outside)
    lines += folded("inside", inside)
    few = len(one.distances) - len(telling)
    if few:
        facts = "1 fact" if few == 1 else f"{few} facts"
        said = f"{facts} about stages that hardly matter here (-o json has all)"
        lines += folded("left out", [said])
    return "\n".join(lines)


def _binding_text(one: Explanation) -> str:
    """'host, 986/s by itself; next is storage, 1.6 times as fast (1,540/s)'."""
    said = f"{one.bottleneck}, {format_rate(one.bottleneck_rate)}/s by itself"
    if one.next_stage is None or one.next_rate is None:
        return f"{said}; there is no other stage"
    times = one.next_rate / one.bottleneck_rate
    rate = format_rate(one.next_rate)
    return f"{said}; next is {one.next_stage}, {times:,.3g} times as fast ({rate}/s)"


def _gain_rows(gains: Sequence[Gain]) -> tuple[list[str], list[list[str]]]:
    """A table without a header: `table` takes its first row for one."""
    rows = []
    for gain in gains:
        if abs(gain.percent) < NOTHING_PERCENT:
            rows.append([gain.step, "nothing", "", ""])
            continue
        sign = "+" if gain.percent > 0 else "-"
        rate, percent = format_rate(abs(gain.samples_per_second)), format_rate(abs(gain.percent))
        rows.append(
            [gain.step, f"{sign}{rate}/s", f"{sign}{percent} %", f"bound by {gain.bottleneck}"]
        )
    return rows[0], rows[1:]
