"""An explanation as JSON and as a few lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.domain import Stage
from advisor.domain.explanation import Explanation, Gain
from advisor.render.records import fields
from advisor.render.text import beside, folded, table
from advisor.units import format_rate

# Gains below this share of the rate are told as nothing.
NOTHING_PERCENT = 0.05


def explanation_document(instance_type: str, explanation: Explanation) -> dict[str, Any]:
    """JSON-ready values; `next_stage` is null where there is but one stage."""
    following = None
    if explanation.next_stage is not None and explanation.next_rate is not None:
        times = explanation.next_rate / explanation.bottleneck_rate
        following = {**_stage_document(explanation.next_stage, explanation.next_rate), "times": times}
    return {
        "instance_type": instance_type,
        "bottleneck": _stage_document(explanation.bottleneck, explanation.bottleneck_rate),
        "next_stage": following,
        "gains": [
            fields(gain, "resource step samples_per_second percent") | {"bottleneck": str(gain.bottleneck)}
            for gain in explanation.gains
        ],
        "measured_range": [
            fields(distance, "subject stage matters inside times detail") | {"stage": str(distance.stage)}
            for distance in explanation.distances
        ],
    }


def _stage_document(stage: Stage, rate: float) -> dict[str, Any]:
    return {"stage": str(stage), "samples_per_second": rate}


def explanation_text(instance_type: str, explanation: Explanation) -> str:
    """The bottleneck, the gain of one more of each resource, and the measured facts behind them."""
    telling = [distance for distance in explanation.distances if distance.matters]
    outside = [str(distance.detail) for distance in telling if not distance.inside]
    inside = [str(distance.detail) for distance in telling if distance.inside]
    lines = ["", f"Why {instance_type}", *folded("binds", [_binding_text(explanation)])]
    lines += (
        beside("adding", table(*_gain_rows(explanation.gains), right=(1, 2))) if explanation.gains else []
    )
    lines += folded("outside", outside)
    lines += folded("inside", inside)
    few = len(explanation.distances) - len(telling)
    if few:
        facts = "1 fact" if few == 1 else f"{few} facts"
        note = f"{facts} about stages that hardly matter here (-o json has all)"
        lines += folded("left out", [note])
    return "\n".join(lines)


def _binding_text(explanation: Explanation) -> str:
    """'host, 986/s by itself; next is storage, 1.6 times as fast (1,540/s)'."""
    text = f"{explanation.bottleneck}, {format_rate(explanation.bottleneck_rate)}/s by itself"
    if explanation.next_stage is None or explanation.next_rate is None:
        return f"{text}; there is no other stage"
    times = explanation.next_rate / explanation.bottleneck_rate
    rate = format_rate(explanation.next_rate)
    return f"{text}; next is {explanation.next_stage}, {times:,.3g} times as fast ({rate}/s)"


def _gain_rows(gains: Sequence[Gain]) -> tuple[list[str], list[list[str]]]:
    """A table without a header: `table` takes its first row for one."""
    rows = []
    for gain in gains:
        if abs(gain.percent) < NOTHING_PERCENT:
            rows.append([gain.step, "nothing", "", ""])
            continue
        sign = "+" if gain.percent > 0 else "-"
        rate, percent = format_rate(abs(gain.samples_per_second)), format_rate(abs(gain.percent))
        rows.append([gain.step, f"{sign}{rate}/s", f"{sign}{percent} %", f"bound by {gain.bottleneck}"])
    return rows[0], rows[1:]
