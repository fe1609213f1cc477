"""A sheet to draw on: matplotlib, with few artists, and the same bytes each time.

matplotlib's own axes cost 40 ms a chart, most of it for objects of ticks. A report of fifty
workloads has 250 charts: here an axis is one line and some texts on a figure that is used again,
7 ms a chart. Text stays text, in the reader's own fonts.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from advisor.render.sizing.charts.compact import compact
from advisor.render.sizing.charts.style import FONTS, INK, LINE, SMALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
Anchor = Literal["left", "center", "right"]
_POINTS_PER_INCH = 72.0
# Ids of markers are hashes of their shape and this.
_SALT = "advisor"
# One figure, one thread at a time: matplotlib is not made for several.
_DRAWING = threading.Lock()
_BREAK = (float("nan"), float("nan"))


class Paper:
    """`width` x `height` points, from the lower left corner; what is drawn last lies on top."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._artists: list[Any] = []

    def line(
        self, *strokes: Points, colour: str = INK, width: float = LINE, dashed: bool = False
    ) -> None:
        """One or more strokes of one look."""
        places = [place for stroke in strokes for place in (*stroke, _BREAK)]
        style = (0, (5, 3)) if dashed else "-"
        self._add_line(places, color=colour, linewidth=width, linestyle=style)

    def markers(
        self, places: Points, shape: str, *, colour: str, face: str | None = None, size: float = 5.0
    ) -> None:
        """A mark at each place: `face` fills it, `colour` is its edge."""
        self._add_line(
            places, linestyle="", marker=shape, markersize=size, markeredgecolor=colour,
            markerfacecolor=face or colour, markeredgewidth=1.0,
        )  # fmt: skip

    def area(self, outline: Points, colour: str, *, edge: str | None = None) -> None:
        """A filled shape."""
        from matplotlib.patches import Polygon

        if len(outline) > 2:
            self._artists.append(
                Polygon(outline, facecolor=colour, edgecolor=edge or "none", linewidth=0.8)
            )

    def text(
        self, x: float, y: float, words: str, *, anchor: Anchor = "left", size: float = SMALL,
        colour: str = INK, bold: bool = False, upwards: bool = False,
    ) -> None:  # fmt: skip
        """Words, taken as they are (`$` starts no formula), the middle of their height at `y`."""
        from matplotlib.text import Text

        self._artists.append(
            Text(
                x, y - size * 0.36, words, fontsize=size, color=colour, ha=anchor, va="baseline",
                weight="bold" if bold else "normal", rotation=90 if upwards else 0,
                rotation_mode="anchor", parse_math=False,
            )
        )  # fmt: skip

    def svg(self) -> str:
        """What was drawn, as a small SVG document: the same for the same strokes."""
        import matplotlib as mpl
        from matplotlib.transforms import IdentityTransform

        with _DRAWING, mpl.rc_context({"svg.hashsalt": _SALT, "svg.fonttype": "none"}):
            figure = _figure()
            figure.set_size_inches(self.width / _POINTS_PER_INCH, self.height / _POINTS_PER_INCH)
            for number, one in enumerate(self._artists):
                one.set_transform(IdentityTransform())
                one.set_zorder(number)
                figure.add_artist(one)
            try:
                return compact(_printed(figure), FONTS)
            finally:
                for one in self._artists:
                    one.remove()

    def _add_line(self, places: Points, **look: Any) -> None:
        from matplotlib.lines import Line2D

        xs, ys = [x for x, _ in places], [y for _, y in places]
        self._artists.append(Line2D(xs, ys, solid_capstyle="butt", **look))


@cache
def _figure() -> Figure:
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(dpi=_POINTS_PER_INCH, frameon=False)
    FigureCanvasSVG(figure)
    return figure


def _printed(figure: Figure) -> str:
    out = io.StringIO()
    with warnings.catch_warnings():
        # It measures texts with its own font, which lacks Chinese; the reader's font draws them.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure.canvas.print_svg(out, metadata={"Date": None, "Creator": None})  # type: ignore[attr-defined]
    return out.getvalue()
