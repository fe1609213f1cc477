"""How far each stage is used, and which one binds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import shortened
from advisor.render.sizing.charts.paper import Paper
from advisor.render.sizing.charts.style import BLUE, FAINT, LIGHT_BLUE, WIDTH

_ROW = 22.0
_LEFT, _RIGHT = 120.0, 150.0


class StageBar(NamedTuple):
    """A stage: the share of it that is used, and what stands beside its bar."""

    name: str
    share: float
    words: str
    binds: bool


def stages_chart(bars: Sequence[StageBar]) -> str:
    """SVG: a bar a stage, full at all of it; the one that binds is darker and told in bold."""
    height = _ROW * len(bars) + 8
    paper = Paper(WIDTH, height)
    room = WIDTH - _LEFT - _RIGHT
    for number, one in enumerate(bars):
        y = height - _ROW * (number + 0.5) - 4
        long = room * min(max(one.share, 0.0), 1.0)
        paper.area(_box(_LEFT, y, room), "#ffffff", edge=FAINT)
        paper.area(_box(_LEFT, y, long), BLUE if one.binds else LIGHT_BLUE)
        paper.text(_LEFT - 6, y, shortened(one.name, 20), anchor="right", bold=one.binds)
        paper.text(_LEFT + room + 6, y, one.words, bold=one.binds)
    return paper.svg()


def _box(left: float, middle: float, width: float) -> list[tuple[float, float]]:
    low, high = middle - 7, middle + 7
    return [(left, low), (left + width, low), (left + width, high), (left, high)]
