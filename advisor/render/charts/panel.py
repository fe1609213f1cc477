"""A place of a chart with two scales: values put on it, its frame, and what stands on its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

from advisor.render.charts.paper import BLUE, FAINT, GRID, HAIR, PALE_BLUE, SMALL, Paper, Points

# From here on a linear axis would crowd the small values into one spot.
WIDE = 12.0
# So many times what is reached is no place on the same paper.
_FAR = 3.0


class Scale(NamedTuple):
    """`least` to `most` over `start` to `end` points; by ratios where `logarithmic`."""

    least: float
    most: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Where a value lies, in points; what is beyond the ends lies at the end."""
        value = min(max(value, self.least), self.most)
        share = (
            log10(value / self.least) / log10(self.most / self.least)
            if self.logarithmic
            else (value - self.least) / (self.most - self.least)
        )
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within it, about `most` of them."""
        if self.logarithmic:
            return _ratio_ticks(self.least, self.most, most)
        step = _round_step((self.most - self.least) / most)
        first, last = ceil(self.least / step - 1e-9), floor(self.most / step + 1e-9)
        return [step * number for number in range(first, last + 1)]


def scale_of(values: Iterable[float], start: float, end: float, *, from_zero: bool = False) -> Scale:
    """A scale that has room for all of them, wide ranges by ratios; any one value will do."""
    known = sorted(values) or [1.0]
    least, most = known[0], known[-1]
    if from_zero or least <= 0:
        return Scale(0.0, _roomy(most), start, end)
    if most / least > WIDE:
        return Scale(least / 1.3, most * 1.3, start, end, logarithmic=True)
    room = (most - least) * 0.08 or least * 0.1
    return Scale(max(least - room, 0.0), most + room, start, end)


def within_reach(target: float | None, rates: Iterable[float]) -> float | None:
    """The target, if it can be drawn beside the rates: far above them it would flatten them all."""
    return target if target and target <= _FAR * max(rates, default=math.inf) else None


def _roomy(most: float) -> float:
    return most * 1.06 if most > 0 else 1.0


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not less than `step`."""
    power = 10.0 ** floor(log10(step))
    return next((n * power for n in (1, 2, 5) if n * power >= step * (1 - 1e-9)), 10 * power)


def _ratio_ticks(least: float, most: float, wanted: int) -> list[float]:
    """Powers of ten, with 2 and 5 between where they leave too few."""
    ticks: list[float] = []
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        powers = range(floor(log10(least)), ceil(log10(most)) + 1)
        ticks = [n * 10.0**power for power in powers for n in steps]
        ticks = [value for value in ticks if least <= value <= most]
        if len(ticks) >= min(wanted, 3):
            break
    return ticks[:: max(1, ceil(len(ticks) / (wanted + 2)))]


# Letters of this size are so wide, on the average.
_LETTER = 0.56


class Panel(NamedTuple):
    """Drawn on `paper`; `x` and `y` take values to points."""

    paper: Paper
    x: Scale
    y: Scale

    def places(self, values: Sequence[tuple[float, float]]) -> Points:
        """Values as points of the paper."""
        return [(self.x.at(x), self.y.at(y)) for x, y in values]

    def frame(self, x_name: str, y_name: str, *, ticks: int = 6) -> None:
        """Grid, values and names of both axes; the values of `y` only where it has a name."""
        xs, ys = self.x.ticks(ticks), self.y.ticks()
        left, right, low = self.x.start, self.x.end, self.y.start
        rows = [[(left, self.y.at(y)), (right, self.y.at(y))] for y in ys]
        columns = [[(self.x.at(x), low), (self.x.at(x), low - 3)] for x in xs]
        self.paper.line(*rows, colour=GRID, width=HAIR)
        self.paper.line([(left, low), (right, low)], *columns, colour=FAINT, width=HAIR)
        for x in xs:
            self.paper.text(self.x.at(x), low - 9, tick(x), anchor="center")
        self.paper.text((left + right) / 2, low - 21, x_name, anchor="center", colour=FAINT)
        if y_name:
            self._rates(ys, y_name)

    def _rates(self, ys: Sequence[float], y_name: str) -> None:
        left = self.x.start
        for y in ys:
            self.paper.text(left - 4, self.y.at(y), tick(y), anchor="right")
        self.paper.text(left, self.y.end + 9, y_name, colour=FAINT)

    def target(self, rate: float, text: str) -> None:
        """A dashed line across, with its words above its right end; above the left one where it
        lies high: curves and fronts rise to the right."""
        y = self.y.at(rate)
        self.paper.line([(self.x.start, y), (self.x.end, y)], dashed=True, width=1.1)
        if y > (self.y.start + self.y.end) / 2:
            self.paper.text(self.x.start + 2, y + 6, text, bold=True)
        else:
            self.paper.text(self.x.end, y + 6, text, anchor="right", bold=True)

    def intervals(self, values: Sequence[tuple[float, float, float]], colour: str) -> None:
        """A bar from the lower to the upper of each `(x, lower, upper)`."""
        bars = [self.places([(x, lower), (x, upper)]) for x, lower, upper in values]
        self.paper.line(*bars, colour=colour, width=1.0)

    def band(self, values: Sequence[tuple[float, float, float, float]]) -> None:
        """`(x, lower, median, upper)` as a band with a line in it."""
        outline = [(x, lower) for x, lower, _, _ in values]
        outline += [(x, upper) for x, _, _, upper in reversed(values)]
        self.paper.area(self.places(outline), PALE_BLUE)
        self.paper.line(self.places([(x, median) for x, _, median, _ in values]), colour=BLUE)

    def name(self, x: float, y: float, text: str) -> None:
        """Words above and left of a place, where nothing of a front lies; right of it and lower
        where there is no room."""
        place, height = self.x.at(x), self.y.at(y)
        if place - len(text) * SMALL * _LETTER > self.x.start:
            self.paper.text(place - 6, height + 7, text, anchor="right")
        else:
            self.paper.text(place + 8, height - 6, text)


def tick(value: float) -> str:
    """'0.5', '2,000': a round value."""
    return f"{value:,.10g}"
