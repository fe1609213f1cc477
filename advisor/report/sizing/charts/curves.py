"""Throughput over vCPUs, RAM and disk, side by side, with what was measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.report.sizing.charts.panel import Panel, shortened
from advisor.report.sizing.charts.paper import Paper
from advisor.report.sizing.charts.scales import Scale, scale_of
from advisor.report.sizing.charts.style import FAINT, HAIR, INK, VERMILION, WIDTH

HEIGHT = 210.0
_LEFT, _GAP, _BOTTOM, _TOP = 40.0, 16.0, 66.0, 24.0
# What was measured, and what others published: told apart by shape.
SHAPES = {"measured": "o", "published": "^"}


class CurvePoint(NamedTuple):
    """A place of a curve: samples per second with their bounds."""

    x: float
    lower: float
    median: float
    upper: float
    name: str = ""


class MeasuredPoint(NamedTuple):
    """A rate that was measured or published, in samples per second."""

    x: float
    rate: float
    provenance: str


class CurvePanel(NamedTuple):
    """One resource; places with names (disks) stand in a row, others on a scale."""

    x_name: str
    points: Sequence[CurvePoint]
    measured: Sequence[MeasuredPoint] = ()
    here: CurvePoint | None = None

    @property
    def named(self) -> bool:
        """Whether its places are names."""
        return any(one.name for one in self.points)


class CurveWords(NamedTuple):
    """What stands on the chart."""

    rate: str
    here: str
    target: str
    provenance: dict[str, str]


def curves_chart(panels: Sequence[CurvePanel], target: float | None, words: CurveWords) -> str:
    """SVG: the panels share the scale of rates."""
    shown = [one for one in panels if one.points]
    paper = Paper(WIDTH, HEIGHT)
    y = _rates(shown, target)
    wide = (WIDTH - _LEFT - _GAP * len(shown)) / max(len(shown), 1)
    for number, one in enumerate(shown):
        left = _LEFT + number * (wide + _GAP)
        panel = Panel(paper, _places(one, left, left + wide), y)
        _draw(panel, one, first=number == 0, rate=words.rate)
        if target:
            paper.line([(left, y.at(target)), (left + wide, y.at(target))], dashed=True, width=1.0)
    if target and shown:
        paper.text(WIDTH - _GAP, y.at(target) + 6, words.target, anchor="right", bold=True)
    _key(paper, shown, words)
    return paper.svg()


def _rates(panels: Sequence[CurvePanel], target: float | None) -> Scale:
    rates = [one.upper for panel in panels for one in panel.points]
    rates += [one.rate for panel in panels for one in panel.measured]
    return scale_of([*rates, *([target] if target else [])], _BOTTOM, HEIGHT - _TOP, from_zero=True)


def _places(one: CurvePanel, left: float, right: float) -> Scale:
    if one.named:
        return Scale(-0.5, len(one.points) - 0.5, left, right)
    xs = [place.x for place in (*one.points, *one.measured)]
    return scale_of(xs, left, right)


def _draw(panel: Panel, one: CurvePanel, *, first: bool, rate: str) -> None:
    if one.named:
        _named_frame(panel, one)
    else:
        panel.frame(one.x_name, rate if first else "", ticks=4)
    ordered = sorted(one.points, key=lambda place: place.x)
    panel.band([(at.x, at.lower, at.median, at.upper) for at in ordered])
    for provenance, shape in SHAPES.items():
        values = [(at.x, at.rate) for at in one.measured if at.provenance == provenance]
        face = INK if provenance == "measured" else "#ffffff"
        if values:
            panel.paper.markers(panel.places(values), shape, colour=INK, face=face, size=4.5)
    if one.here:
        place = panel.places([(one.here.x, one.here.median)])
        panel.paper.markers(place, "D", colour="#000000", face=VERMILION, size=7)


def _named_frame(panel: Panel, one: CurvePanel) -> None:
    """Names stand upwards below their places."""
    left, right, low = panel.x.start, panel.x.end, panel.y.start
    rows = [[(left, panel.y.at(y)), (right, panel.y.at(y))] for y in panel.y.ticks()]
    panel.paper.line(*rows, colour="#dddddd", width=HAIR)
    panel.paper.line([(left, low), (right, low)], colour=FAINT, width=HAIR)
    for at in one.points:
        x = panel.x.at(at.x) + 3
        panel.paper.text(x, low - 4, shortened(at.name, 10), anchor="right", size=7, upwards=True)


def _key(paper: Paper, panels: Sequence[CurvePanel], words: CurveWords) -> None:
    """What the shapes mean; only those that are there."""
    there = {at.provenance for panel in panels for at in panel.measured}
    entries = [("D", VERMILION, "#000000", words.here)] if any(one.here for one in panels) else []
    entries += [
        (shape, INK if name == "measured" else "#ffffff", INK, words.provenance[name])
        for name, shape in SHAPES.items()
        if name in there
    ]
    x = _LEFT
    for shape, face, edge, text in entries:
        paper.markers([(x + 4, 8)], shape, colour=edge, face=face, size=5.5)
        paper.text(x + 12, 8, text, colour=FAINT)
        x += 150
