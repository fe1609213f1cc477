"""Open loops: how times grow with the offered load, predicted against measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.infra.build.language_sources.rows import ServingRow
from benchmarks.truth.language.asking import scored
from benchmarks.truth.language.scores import RowAnswer, figures

# Of the largest rate that was measured of a deployment: up to here a queue does not grow.
_CAPACITY_SHARE = 0.8


def figures_of(
    rows: Sequence[ServingRow], answers: Mapping[int, RowAnswer | str]
) -> dict[str, dict[str, Any]]:
    """Figures of TTFT and TPOT of open loops up to 80 % of the capacity that was measured."""
    capacity: dict[tuple[str, ...], float] = {}
    for row in rows:
        if row.kind == "open" and not math.isnan(row.requests_per_second):
            key = _deployment(row)
            capacity[key] = max(capacity.get(key, 0.0), row.requests_per_second)
    found = [
        one
        for place, row in enumerate(rows)
        if row.kind == "open"
        and row.requests_per_second_offered <= _CAPACITY_SHARE * capacity.get(_deployment(row), 0)
        and isinstance(answer := answers.get(place), RowAnswer)
        for one in scored(row, answer)
    ]
    return {
        name: figures(same)
        for name in ("ttft", "tpot")
        if (same := [one for one in found if one.quantity == name])
    }


def _deployment(row: ServingRow) -> tuple[str, ...]:
    lengths = f"{row.input_tokens:.0f} {row.output_tokens:.0f}" if "tensorrt" in row.source else ""
    return (row.source, row.model, row.gpu, str(row.gpus), row.precision, lengths)
