"""How charts look: told apart by shape and lightness too, for print and for every eye.

The colours are of Okabe and Ito's palette (jfly.uni-koeln.de/color, 2008), made for all kinds of
colour vision. Sizes are in points.
"""

from __future__ import annotations

INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
BLUE, LIGHT_BLUE, PALE_BLUE = "#0072B2", "#8fbfdc", "#d6e8f3"
VERMILION = "#D55E00"
WIDTH = 480.0
TEXT_SIZE, SMALL = 9.0, 8.0
LINE, HAIR = 1.4, 0.6
# What the first ones lack, the reader's system finds elsewhere.
FONTS = "DejaVu Sans,Verdana,sans-serif"
