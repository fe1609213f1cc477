"""A sheet to draw on: lines, marks, areas and texts as a small SVG document.

An image in a report needs these few elements alone, so that they are written here: the same bytes
for the same strokes, 4 kB a chart, and text stays text, in the reader's own fonts. Colours are of
Okabe and Ito's palette (jfly.uni-koeln.de/color, 2008), made for all kinds of colour vision, and
things are told apart by shape and lightness too. Sizes are in points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from advisor.render.content import Chart, Mark

INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
BLUE, LIGHT_BLUE, PALE_BLUE = "#0072B2", "#8fbfdc", "#d6e8f3"
VERMILION = "#D55E00"
WIDTH = 480.0
TEXT_SIZE, SMALL = 9.0, 8.0
LINE, HAIR = 1.4, 0.6
# What the first ones lack, the reader's system finds elsewhere.
FONTS = "DejaVu Sans,Verdana,sans-serif"


Points = Sequence[tuple[float, float]]
Anchor = Literal["left", "center", "right"]
_ANCHORS = {"left": "", "center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
# Marks as paths around a point, for a size of 2; `x` and `_` have no face.
_SHAPES = {
    # Four curves: an arc's flags are no lengths that could be scaled.
    "o": "m-1,0c0,-.55 .45,-1 1,-1s1,.45 1,1s-.45,1 -1,1s-1,-.45 -1,-1z",
    "s": "m-1,-1h2v2h-2z",
    "D": "m0,-1.4l1.4,1.4l-1.4,1.4l-1.4,-1.4z",
    "^": "m0,-1l1,2h-2z",
    "x": "m-1,-1l2,2m0,-2l-2,2",
    "_": "m-1,0h2",
}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")
# What XML has no place for.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# As xml.sax.saxutils escapes, which imports HTTP and mail.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Paper:
    """`width` x `height` points, from the lower left corner; what is drawn last lies on top."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._elements: list[str] = []

    def line(self, *strokes: Points, colour: str = INK, width: float = LINE, dashed: bool = False) -> None:
        """One or more strokes of one look."""
        dashes = f' stroke-dasharray="{_short(5 * width)} {_short(3 * width)}"' if dashed else ""
        path = "".join(f"M{'L'.join(map(self._point, stroke))}" for stroke in strokes if stroke)
        self._add(f'<path d="{path}" stroke="{colour}" stroke-width="{_short(width)}"{dashes}/>')

    def markers(
        self, places: Points, shape: str, *, colour: str, face: str | None = None, size: float = 5.0
    ) -> None:
        """A mark at each place: `face` fills it, `colour` is its edge."""
        mark = _NUMBER.sub(lambda number: _short(size / 2 * float(number[0])), _SHAPES[shape])
        path = "".join(f"M{self._point(place)}{mark}" for place in places)
        fill = f' fill="{face or colour}"' if mark.endswith("z") else ""
        self._add(f'<path d="{path}" stroke="{colour}"{fill}/>')

    def area(self, outline: Points, colour: str, *, edge: str | None = None) -> None:
        """A filled shape."""
        if len(outline) > 2:
            stroke = f' stroke="{edge}" stroke-width=".8"' if edge else ""
            path = "L".join(map(self._point, outline))
            self._add(f'<path d="M{path}z" fill="{colour}"{stroke}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: Anchor = "left",
        size: float = SMALL,
        colour: str = INK,
        bold: bool = False,
    ) -> None:
        """Words, the middle of their height at `y`."""
        look = _ANCHORS[anchor] + (' font-weight="bold"' if bold else "")
        look += "" if size == SMALL else f' font-size="{_short(size)}"'
        left, low = _short(x), _short(self.height - y + size * 0.36)
        text = _UNFIT.sub("\ufffd", text).translate(_ESCAPED)
        self._add(f'<text x="{left}" y="{low}" fill="{colour}"{look}>{text}</text>')

    def mark(self, x: float, y: float, text: str, href: str = "") -> Mark:
        """A place that can be pointed at."""
        return Mark(round(100 * x / self.width, 2), round(100 * (1 - y / self.height), 2), text, href)

    def svg(self) -> str:
        """What was drawn: the same for the same strokes."""
        width, height = _short(self.width), _short(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
            f'viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="{_short(SMALL)}" '
            f'fill="none">{"".join(self._elements)}</svg>'
        )

    def _add(self, element: str) -> None:
        self._elements.append(element)

    def _point(self, place: tuple[float, float]) -> str:
        return f"{_short(place[0])},{_short(self.height - place[1])}"


def _short(number: float) -> str:
    """To a tenth of a point, which is less than a printer's dot: '12', '0.5'."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def no_link(_record: object) -> str:
    """Where the places of a picture lead to in a report: nowhere."""
    return ""


def chart_of(paper: Paper, alt: str, marks: Sequence[Mark] = ()) -> Chart:
    """What was drawn, and its places from left to right."""
    return Chart(paper.svg(), alt, marks=sorted(marks))
