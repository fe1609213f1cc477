"""What each workload costs a month, beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import shortened
from advisor.render.sizing.charts.paper import Paper
from advisor.render.sizing.charts.style import BLUE, WIDTH

_ROW = 15.0
_LEFT, _RIGHT = 190.0, 80.0


class CostBar(NamedTuple):
    """A workload, its dollars a month, and how they are written."""

    name: str
    usd: float
    words: str


def totals_chart(bars: Sequence[CostBar]) -> str:
    """SVG: a bar a workload, in the order given."""
    height = _ROW * len(bars) + 8
    paper, room = Paper(WIDTH, height), WIDTH - _LEFT - _RIGHT
    most = max((one.usd for one in bars), default=0.0) or 1.0
    for number, one in enumerate(bars):
        y = height - _ROW * (number + 0.5) - 4
        right = _LEFT + room * one.usd / most
        box = [(_LEFT, y - 5), (right, y - 5), (right, y + 5), (_LEFT, y + 5)]
        paper.area(box, BLUE)
        paper.text(_LEFT - 6, y, shortened(one.name, 32), anchor="right")
        paper.text(right + 5, y, one.words)
    return paper.svg()
