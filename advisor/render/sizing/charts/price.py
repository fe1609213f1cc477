"""Price against throughput: every spec with its interval, the target, the front, and the pick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.panel import Panel, scale_of, shortened, within_reach
from advisor.render.sizing.charts.paper import BLUE, FAINT, LIGHT_BLUE, VERMILION, WIDTH, Paper

HEIGHT = 250.0
# Names nearer than this in height would touch.
_APART = 26.0


class PriceDot(NamedTuple):
    """A spec: dollars an hour, and samples per second with their bounds."""

    name: str
    usd_per_hour: float
    lower: float
    median: float
    upper: float
    on_front: bool = False
    chosen: bool = False


class PriceWords(NamedTuple):
    """What stands on the chart."""

    price: str
    rate: str
    target: str
    chosen: str
    front: str
    other: str


def price_chart(dots: Sequence[PriceDot], target: float | None, words: PriceWords) -> str:
    """SVG; `dots` may be one, and lie anywhere."""
    paper = Paper(WIDTH, HEIGHT)
    rates = [rate for one in dots for rate in (one.lower, one.upper)]
    target = within_reach(target, rates)
    panel = Panel(
        paper,
        scale_of([one.usd_per_hour for one in dots], 44, WIDTH - 70),
        scale_of([*rates, *([target] if target else [])], 46, HEIGHT - 32),
    )
    panel.frame(words.price, words.rate)
    front = sorted(one for one in dots if one.on_front)
    _front_line(panel, front)
    _dots(panel, [one for one in dots if not one.on_front and not one.chosen], "o", LIGHT_BLUE)
    _dots(panel, [one for one in front if not one.chosen], "s", BLUE)
    if target:
        panel.target(target, words.target)
    _dots(panel, [one for one in dots if one.chosen], "D", VERMILION, size=8)
    _names(panel, dots)
    _key(paper, words)
    return paper.svg()


def _front_line(panel: Panel, front: Sequence[PriceDot]) -> None:
    """Steps: a price buys the most of what costs no more."""
    ordered = sorted(front, key=lambda one: (one.usd_per_hour, one.median))
    steps: list[tuple[float, float]] = []
    for one in ordered:
        if steps:
            steps.append((one.usd_per_hour, steps[-1][1]))
        steps.append((one.usd_per_hour, one.lower))
    if len(steps) > 1:
        panel.paper.line(panel.places(steps), colour=BLUE, width=0.9)


def _dots(
    panel: Panel, dots: Sequence[PriceDot], shape: str, colour: str, size: float = 5.5
) -> None:
    if not dots:
        return
    panel.intervals([(one.usd_per_hour, one.lower, one.upper) for one in dots], colour)
    values = [(one.usd_per_hour, one.median) for one in dots]
    face = "#ffffff" if shape == "o" else colour
    edge = "#000000" if shape == "D" else colour
    panel.paper.markers(panel.places(values), shape, colour=edge, face=face, size=size)


def _names(panel: Panel, dots: Sequence[PriceDot]) -> None:
    """The pick, and what of the front has room for its name beside it."""
    ordered = sorted(dots, key=lambda one: (not one.chosen, not one.on_front, one.usd_per_hour))
    taken: list[float] = []
    for one in ordered:
        height = panel.y.at(one.median)
        free = all(abs(height - other) > _APART for other in taken)
        if (one.chosen or one.on_front) and free:
            taken.append(height)
            panel.name(one.usd_per_hour, one.median, shortened(one.name, 22))


def _key(paper: Paper, words: PriceWords) -> None:
    """What the shapes mean, in a row below."""
    entries = (
        ("D", VERMILION, "#000000", words.chosen),
        ("s", BLUE, BLUE, words.front),
        ("o", "#ffffff", LIGHT_BLUE, words.other),
    )
    x = 44.0
    for shape, face, edge, text in entries:
        paper.markers([(x + 4, 8)], shape, colour=edge, face=face, size=6)
        paper.text(x + 12, 8, text, colour=FAINT)
        x += 120
