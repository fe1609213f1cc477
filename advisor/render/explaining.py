"""An explanation as JSON."""

from __future__ import annotations

from typing import Any

from advisor.domain import Stage
from advisor.domain.decision import Explanation
from advisor.render.records import fields


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
