"""Bars and dots: how far stages are used, what workloads cost, which batches fit a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import Panel, scale_of, shortened
from advisor.render.sizing.charts.paper import BLUE, FAINT, LIGHT_BLUE, VERMILION, WIDTH, Paper

_STAGE_ROW = 22.0
_STAGE_LEFT, _STAGE_RIGHT = 120.0, 150.0


class StageBar(NamedTuple):
    """A stage: the share of it that is used, and what stands beside its bar."""

    name: str
    share: float
    words: str
    binds: bool


def stages_chart(bars: Sequence[StageBar]) -> str:
    """SVG: a bar a stage, full at all of it; the one that binds is darker and told in bold."""
    height = _STAGE_ROW * len(bars) + 8
    paper = Paper(WIDTH, height)
    room = WIDTH - _STAGE_LEFT - _STAGE_RIGHT
    for number, one in enumerate(bars):
        y = height - _STAGE_ROW * (number + 0.5) - 4
        long = room * min(max(one.share, 0.0), 1.0)
        paper.area(_box(_STAGE_LEFT, y, room), "#ffffff", edge=FAINT)
        paper.area(_box(_STAGE_LEFT, y, long), BLUE if one.binds else LIGHT_BLUE)
        paper.text(_STAGE_LEFT - 6, y, shortened(one.name, 20), anchor="right", bold=one.binds)
        paper.text(_STAGE_LEFT + room + 6, y, one.words, bold=one.binds)
    return paper.svg()


def _box(left: float, middle: float, width: float) -> list[tuple[float, float]]:
    low, high = middle - 7, middle + 7
    return [(left, low), (left + width, low), (left + width, high), (left, high)]


_COST_ROW = 15.0
_COST_LEFT, _COST_RIGHT = 190.0, 80.0


class CostBar(NamedTuple):
    """A workload, its dollars a month, and how they are written."""

    name: str
    usd: float
    words: str


def totals_chart(bars: Sequence[CostBar]) -> str:
    """SVG: a bar a workload, in the order given."""
    height = _COST_ROW * len(bars) + 8
    paper, room = Paper(WIDTH, height), WIDTH - _COST_LEFT - _COST_RIGHT
    most = max((one.usd for one in bars), default=0.0) or 1.0
    for number, one in enumerate(bars):
        y = height - _COST_ROW * (number + 0.5) - 4
        right = _COST_LEFT + room * one.usd / most
        box = [(_COST_LEFT, y - 5), (right, y - 5), (right, y + 5), (_COST_LEFT, y + 5)]
        paper.area(box, BLUE)
        paper.text(_COST_LEFT - 6, y, shortened(one.name, 32), anchor="right")
        paper.text(right + 5, y, one.words)
    return paper.svg()


MEMORY_HEIGHT = 170.0


class MemoryPoint(NamedTuple):
    """A batch and the GiB that it needs."""

    batch_size: float
    gib: float
    fits: bool


class MemoryWords(NamedTuple):
    """What stands on the chart."""

    batch: str
    gib: str
    has: str


def memory_chart(points: Sequence[MemoryPoint], has_gib: float | None, words: MemoryWords) -> str:
    """SVG: a dot a batch, a cross where it does not fit; a dashed line is what there is."""
    paper = Paper(WIDTH, MEMORY_HEIGHT)
    needed = [one.gib for one in points] + ([has_gib] if has_gib else [])
    panel = Panel(
        paper,
        scale_of([one.batch_size for one in points], 44, WIDTH - 20),
        scale_of(needed, 34, MEMORY_HEIGHT - 28, from_zero=True),
    )
    panel.frame(words.batch, words.gib)
    ordered = sorted(points)
    paper.line(panel.places([(one.batch_size, one.gib) for one in ordered]), colour=BLUE)
    fitting = [(one.batch_size, one.gib) for one in ordered if one.fits]
    beyond = [(one.batch_size, one.gib) for one in ordered if not one.fits]
    if fitting:
        paper.markers(panel.places(fitting), "o", colour=BLUE)
    if beyond:
        paper.markers(panel.places(beyond), "x", colour=VERMILION, size=7)
    if has_gib:
        panel.target(has_gib, words.has)
    return paper.svg()
