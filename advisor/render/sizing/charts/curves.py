"""Throughput over vCPUs, RAM and disk, side by side, with what was measured on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import Panel, Scale, scale_of, within_reach
from advisor.render.sizing.charts.paper import BLUE, FAINT, INK, LIGHT_BLUE, VERMILION, WIDTH, Paper

HEIGHT = 196.0
_LEFT, _GAP, _BOTTOM, _TOP = 40.0, 16.0, 48.0, 24.0
# Shape and face of what stands beside a curve.
SHAPES = {
    "measured": ("o", INK),
    "emulated": ("o", "#ffffff"),
    "published": ("^", "#ffffff"),
}


class CurvePoint(NamedTuple):
    """A place of a curve: samples per second with their bounds."""

    x: float
    lower: float
    median: float
    upper: float


class MeasuredPoint(NamedTuple):
    """A rate in samples per second, and how it is known: one of `SHAPES`."""

    x: float
    rate: float
    known: str


class CurvePanel(NamedTuple):
    """One resource; what is sold in a few orders only is `apart`: dots with bars, no line."""

    x_name: str
    points: Sequence[CurvePoint]
    measured: Sequence[MeasuredPoint] = ()
    here: CurvePoint | None = None
    apart: bool = False


class CurveWords(NamedTuple):
    """What stands on the chart."""

    rate: str
    here: str
    target: str
    known: Mapping[str, str]


def curves_chart(panels: Sequence[CurvePanel], target: float | None, words: CurveWords) -> str:
    """SVG: the panels share the scale of rates."""
    shown = [one for one in panels if one.points]
    target = within_reach(target, [at.upper for one in shown for at in one.points])
    paper = Paper(WIDTH, HEIGHT)
    y = _rates(shown, target)
    wide = (WIDTH - _LEFT - _GAP * len(shown)) / max(len(shown), 1)
    for number, one in enumerate(shown):
        left = _LEFT + number * (wide + _GAP)
        xs = [place.x for place in one.points] + [place.x for place in one.measured]
        panel = Panel(paper, scale_of(xs, left, left + wide), y)
        panel.frame(one.x_name, words.rate if number == 0 else "", ticks=4)
        _draw(panel, one)
        if target:
            paper.line([(left, y.at(target)), (left + wide, y.at(target))], dashed=True, width=1.0)
    _key(paper, shown, words)
    if target:
        paper.line([(WIDTH - 110, 8), (WIDTH - 90, 8)], dashed=True, width=1.0)
        paper.text(WIDTH - 86, 8, words.target, colour=FAINT)
    return paper.svg()


def _rates(panels: Sequence[CurvePanel], target: float | None) -> Scale:
    rates = [one.upper for panel in panels for one in panel.points]
    rates += [one.rate for panel in panels for one in panel.measured]
    return scale_of([*rates, *([target] if target else [])], _BOTTOM, HEIGHT - _TOP, from_zero=True)


def _draw(panel: Panel, one: CurvePanel) -> None:
    ordered = sorted(one.points, key=lambda place: place.x)
    if one.apart:
        panel.intervals([(at.x, at.lower, at.upper) for at in ordered], LIGHT_BLUE)
        panel.paper.markers(panel.places([(at.x, at.median) for at in ordered]), "_", colour=BLUE)
    else:
        panel.band([(at.x, at.lower, at.median, at.upper) for at in ordered])
    for known, (shape, face) in SHAPES.items():
        values = [(at.x, at.rate) for at in one.measured if at.known == known]
        if values:
            panel.paper.markers(panel.places(values), shape, colour=INK, face=face, size=4.5)
    if one.here:
        place = panel.places([(one.here.x, one.here.median)])
        panel.paper.markers(place, "D", colour="#000000", face=VERMILION, size=7)


def _key(paper: Paper, panels: Sequence[CurvePanel], words: CurveWords) -> None:
    """What the shapes mean; only those that are there."""
    there = {at.known for panel in panels for at in panel.measured}
    entries = [("D", VERMILION, "#000000", words.here)] if any(one.here for one in panels) else []
    entries += [
        (shape, face, INK, words.known[name])
        for name, (shape, face) in SHAPES.items()
        if name in there
    ]
    x = _LEFT
    for shape, face, edge, text in entries:
        paper.markers([(x + 4, 8)], shape, colour=edge, face=face, size=5.5)
        paper.text(x + 12, 8, text, colour=FAINT)
        x += 130
