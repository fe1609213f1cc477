"""Small SVG documents: a sheet to draw on, and panels with two scales.

Charts in a report need few elements, so they are written directly. The same strokes give the same bytes, a
chart is about 4 kB, and text stays text in the reader's fonts. The colours are from Okabe and Ito's palette
(jfly.uni-koeln.de/color, 2008), which suits all kinds of colour vision; shape and lightness differ too. Sizes
are in points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import Literal, NamedTuple

from advisor.render.blocks import Chart, Mark

INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
BLUE, LIGHT_BLUE, PALE_BLUE = "#0072B2", "#8fbfdc", "#d6e8f3"
VERMILION = "#D55E00"
WIDTH = 480.0
SMALL = 8.0
# The average width of a letter, relative to the font size.
_LETTER = 0.56
LINE, HAIR = 1.4, 0.6
# Characters that these fonts lack come from other fonts on the reader's system.
FONTS = "DejaVu Sans,Verdana,sans-serif"


Points = Sequence[tuple[float, float]]
Anchor = Literal["left", "center", "right"]
_ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
# Marks as paths around a point, for a size of 2; `_` cannot be filled.
_SHAPES = {
    # Four curves instead of an arc, whose flags must not be scaled like lengths.
    "o": "m-1,0c0,-.55 .45,-1 1,-1s1,.45 1,1s-.45,1 -1,1s-1,-.45 -1,-1z",
    "s": "m-1,-1h2v2h-2z",
    "D": "m0,-1.4l1.4,1.4l-1.4,1.4l-1.4,-1.4z",
    "_": "m-1,0h2",
}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")
# Characters that XML does not allow.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# The same as xml.sax.saxutils.escape, whose import loads HTTP and mail modules.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Paper:
    """A sheet of `width` x `height` points from the lower left corner; later drawings cover earlier ones."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._elements: list[str] = []

    def line(self, *strokes: Points, colour: str = INK, width: float = LINE, dashed: bool = False) -> None:
        """Draw one or more lines of the same style."""
        dashes = f' stroke-dasharray="{_short(5 * width)} {_short(3 * width)}"' if dashed else ""
        path = "".join(f"M{'L'.join(map(self._point, stroke))}" for stroke in strokes if stroke)
        self._elements.append(f'<path d="{path}" stroke="{colour}" stroke-width="{_short(width)}"{dashes}/>')

    def markers(
        self, places: Points, shape: str, *, colour: str, face: str | None = None, size: float = 5.0
    ) -> None:
        """Draw a mark at each place, filled with `face` and edged with `colour`."""
        mark = _NUMBER.sub(lambda number: _short(size / 2 * float(number[0])), _SHAPES[shape])
        path = "".join(f"M{self._point(point)}{mark}" for point in places)
        fill = f' fill="{face or colour}"' if mark.endswith("z") else ""
        self._elements.append(f'<path d="{path}" stroke="{colour}"{fill}/>')

    def area(self, outline: Points, colour: str) -> None:
        """Draw a filled shape."""
        if len(outline) > 2:
            path = "L".join(map(self._point, outline))
            self._elements.append(f'<path d="M{path}z" fill="{colour}"/>')

    def text(
        self, x: float, y: float, text: str, *, anchor: Anchor = "left", colour: str = INK, bold: bool = False
    ) -> None:
        """Draw words whose vertical centre is at `y`."""
        look = _ANCHORS[anchor] + (' font-weight="bold"' if bold else "")
        left, low = _short(x), _short(self.height - y + SMALL * 0.36)
        text = _UNFIT.sub("\ufffd", text).translate(_ESCAPED)
        self._elements.append(f'<text x="{left}" y="{low}" fill="{colour}"{look}>{text}</text>')

    def svg(self) -> str:
        """Return the picture as SVG; equal strokes give equal text."""
        width, height = _short(self.width), _short(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
            f'viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="{_short(SMALL)}" '
            f'fill="none">{"".join(self._elements)}</svg>'
        )

    def _point(self, point: tuple[float, float]) -> str:
        return f"{_short(point[0])},{_short(self.height - point[1])}"


def _short(number: float) -> str:
    """Round to a tenth of a point, which is finer than a printer's dot: '12', '0.5'."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def no_link(_record: object) -> str:
    """Return no link: in a report, the points of a picture link to nothing."""
    return ""


def chart_of(paper: Paper, alt: str, marks: Sequence[Mark]) -> Chart:
    """Return the drawing as a chart, with its places from left to right."""
    return Chart(paper.svg(), alt, marks=sorted(marks))


# From this ratio of largest to smallest value on, the axis is logarithmic.
WIDE = 12.0
# A target more than this many times the highest rate is not drawn.
_FAR = 3.0


class Scale(NamedTuple):
    """Maps `least` to `most` onto `start` to `end` in points; `logarithmic` scales by ratio."""

    least: float
    most: float
    start: float
    end: float
    logarithmic: bool = False

    def position(self, value: float) -> float:
        """Return the position of a value in points; values out of range are drawn at the ends."""
        value = min(max(value, self.least), self.most)
        share = (
            log10(value / self.least) / log10(self.most / self.least)
            if self.logarithmic
            else (value - self.least) / (self.most - self.least)
        )
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Return round values within the scale, about `most` of them."""
        if self.logarithmic:
            return _ratio_ticks(self.least, self.most, most)
        # The step is 1, 2 or 5 times a power of ten.
        least = (self.most - self.least) / most
        power = 10.0 ** floor(log10(least))
        step = next((n * power for n in (1, 2, 5) if n * power >= least * (1 - 1e-9)), 10 * power)
        first, last = ceil(self.least / step - 1e-9), floor(self.most / step + 1e-9)
        return [step * number for number in range(first, last + 1)]


def scale_of(values: Iterable[float], start: float, end: float, *, from_zero: bool = False) -> Scale:
    """Return a scale with room for all values, also for just one; wide ranges are logarithmic."""
    known = sorted(values) or [1.0]
    least, most = known[0], known[-1]
    if from_zero or least <= 0:
        return Scale(0.0, most * 1.06 if most > 0 else 1.0, start, end)
    if most / least > WIDE:
        return Scale(least / 1.3, most * 1.3, start, end, logarithmic=True)
    room = (most - least) * 0.08 or least * 0.1
    return Scale(max(least - room, 0.0), most + room, start, end)


def within_reach(target: float | None, rates: Iterable[float]) -> float | None:
    """Return the target unless it is so far above the rates that they would look flat, else None."""
    return target if target and target <= _FAR * max(rates, default=math.inf) else None


def _ratio_ticks(least: float, most: float, wanted: int) -> list[float]:
    """Return powers of ten and, if those are too few, values between them (3, or 2 and 5)."""
    ticks: list[float] = []
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        powers = range(floor(log10(least)), ceil(log10(most)) + 1)
        ticks = [n * 10.0**power for power in powers for n in steps]
        ticks = [value for value in ticks if least <= value <= most]
        if len(ticks) >= min(wanted, 3):
            break
    return ticks[:: max(1, ceil(len(ticks) / (wanted + 2)))]


class Panel(NamedTuple):
    """A chart area on `paper`; `x` and `y` turn values into points."""

    paper: Paper
    x: Scale
    y: Scale

    def places(self, values: Sequence[tuple[float, float]]) -> Points:
        """Return values as points of the paper."""
        return [(self.x.position(x), self.y.position(y)) for x, y in values]

    def mark(self, x: float, y: float, text: str, href: str) -> Mark:
        """Return a place that readers can point at."""
        left, top = self.x.position(x) / self.paper.width, 1 - self.y.position(y) / self.paper.height
        return Mark(round(100 * left, 2), round(100 * top, 2), text, href)

    def frame(self, x_name: str, y_name: str, *, ticks: int = 6) -> Paper:
        """Draw the grid, values and names of both axes, for `y` only if it has a name. Return the paper."""
        xs, ys = self.x.ticks(ticks), self.y.ticks()
        left, right, low = self.x.start, self.x.end, self.y.start
        rows = [[(left, self.y.position(y)), (right, self.y.position(y))] for y in ys]
        columns = [[(self.x.position(x), low), (self.x.position(x), low - 3)] for x in xs]
        self.paper.line(*rows, colour=GRID, width=HAIR)
        self.paper.line([(left, low), (right, low)], *columns, colour=FAINT, width=HAIR)
        for x in xs:
            self.paper.text(self.x.position(x), low - 9, f"{x:,.10g}", anchor="center")
        self.paper.text((left + right) / 2, low - 21, x_name, anchor="center", colour=FAINT)
        for y in ys if y_name else ():
            self.paper.text(left - 4, self.y.position(y), f"{y:,.10g}", anchor="right")
        if y_name:
            self.paper.text(left, self.y.end + 9, y_name, colour=FAINT)
        return self.paper

    def target(self, rate: float, text: str) -> None:
        """Draw a dashed line across, with its label above the right end, or above the left if it is high."""
        y = self.y.position(rate)
        self.paper.line([(self.x.start, y), (self.x.end, y)], dashed=True, width=1.1)
        if y > (self.y.start + self.y.end) / 2:
            self.paper.text(self.x.start + 2, y + 6, text, bold=True)
        else:
            self.paper.text(self.x.end, y + 6, text, anchor="right", bold=True)

    def intervals(self, values: Sequence[tuple[float, float, float]], colour: str) -> None:
        """Draw a bar from lower to upper for each `(x, lower, upper)`."""
        bars = [self.places([(x, lower), (x, upper)]) for x, lower, upper in values]
        self.paper.line(*bars, colour=colour, width=1.0)

    def band(self, values: Sequence[tuple[float, float, float, float]]) -> None:
        """Draw `(x, lower, median, upper)` as a band with a line for the median."""
        outline = [(x, lower) for x, lower, _, _ in values]
        outline += [(x, upper) for x, _, _, upper in reversed(values)]
        self.paper.area(self.places(outline), PALE_BLUE)
        self.paper.line(self.places([(x, median) for x, _, median, _ in values]), colour=BLUE)

    def names(self, named: Sequence[tuple[float, float, str]], marks: Sequence[tuple[float, float]]) -> None:
        """Draw words next to their places, each on the side that has more room. The first words are always
        drawn, the others only where they cover no words before them and none of `marks`."""
        taken = [(x, x, y) for x, y in self.places(marks)]
        for number, (x, y, text) in enumerate(named):
            right = 2 * self.x.position(x) > self.x.start + self.x.end
            start, base = self.x.position(x) + (-6 if right else 8), self.y.position(y) + (7 if right else -6)
            wide = len(text) * SMALL * _LETTER
            left = start - wide if right else start
            clear = (
                left > end or left + wide < begin or abs(base - line) > SMALL for begin, end, line in taken
            )
            if number == 0 or all(clear):
                taken.append((left, left + wide, base))
                self.paper.text(start, base, text, anchor="right" if right else "left")
