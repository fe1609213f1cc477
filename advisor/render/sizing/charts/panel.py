"""A place of a chart with two scales: its frame, what stands on its axes, and values put on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.render.sizing.charts.paper import Paper, Points
from advisor.render.sizing.charts.scales import Scale
from advisor.render.sizing.charts.style import BLUE, FAINT, GRID, HAIR, PALE_BLUE, SMALL

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
        rows = [[(left, self.y.at(one)), (right, self.y.at(one))] for one in ys]
        columns = [[(self.x.at(one), low), (self.x.at(one), low - 3)] for one in xs]
        self.paper.line(*rows, colour=GRID, width=HAIR)
        self.paper.line([(left, low), (right, low)], *columns, colour=FAINT, width=HAIR)
        for one in xs:
            self.paper.text(self.x.at(one), low - 9, tick(one), anchor="center")
        self.paper.text((left + right) / 2, low - 21, x_name, anchor="center", colour=FAINT)
        if y_name:
            self._rates(ys, y_name)

    def _rates(self, ys: Sequence[float], y_name: str) -> None:
        left = self.x.start
        for one in ys:
            self.paper.text(left - 4, self.y.at(one), tick(one), anchor="right")
        self.paper.text(left, self.y.end + 9, y_name, colour=FAINT)

    def target(self, rate: float, words: str) -> None:
        """A dashed line across, with its words above its right end; above the left one where it
        lies high: curves and fronts rise to the right."""
        y = self.y.at(rate)
        self.paper.line([(self.x.start, y), (self.x.end, y)], dashed=True, width=1.1)
        if y > (self.y.start + self.y.end) / 2:
            self.paper.text(self.x.start + 2, y + 6, words, bold=True)
        else:
            self.paper.text(self.x.end, y + 6, words, anchor="right", bold=True)

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

    def name(self, x: float, y: float, words: str) -> None:
        """Words above and left of a place, where nothing of a front lies; right of it and lower
        where there is no room."""
        place, height = self.x.at(x), self.y.at(y)
        if place - len(words) * SMALL * _LETTER > self.x.start:
            self.paper.text(place - 6, height + 7, words, anchor="right")
        else:
            self.paper.text(place + 8, height - 6, words)


def tick(value: float) -> str:
    """'0.5', '2,000': a round value."""
    return f"{value:,.10g}"


def shortened(name: str, most: int) -> str:
    """A name that leaves room for the picture; the table beside it has all of it."""
    line = " ".join(name.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
