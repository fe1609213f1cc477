"""GPU memory by batch size, against what the card has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import Panel
from advisor.render.sizing.charts.paper import Paper
from advisor.render.sizing.charts.scales import scale_of
from advisor.render.sizing.charts.style import BLUE, VERMILION, WIDTH

HEIGHT = 170.0


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
    paper = Paper(WIDTH, HEIGHT)
    needed = [one.gib for one in points] + ([has_gib] if has_gib else [])
    panel = Panel(
        paper,
        scale_of([one.batch_size for one in points], 44, WIDTH - 20),
        scale_of(needed, 34, HEIGHT - 28, from_zero=True),
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
