"""Tokens that a picture takes in a prompt, by the model's published processor.

The table has a line for each processor, by the `model_type` of a configuration and by checkpoints' names; a
test holds it against the processors of transformers."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).parents[3] / "advisor" / "data" / "language" / "pictures.csv"


class Pictures(NamedTuple):
    """How pictures become tokens: `rule` makes rows of `each` tokens for a square of `side` pixels, within
    `least` and `most` (pixels of the picture or of a side, or squares, as the rule has it), with `between`
    tokens between rows and `ends` around all. The tower has `weights`, and reads `patches` for each token."""

    rule: str
    side: int
    least: int
    most: int
    each: int
    between: int
    ends: int
    patches: int
    weights: float

    def tokens(self, width: int, height: int) -> int:
        """Tokens of a picture of so many pixels."""
        rows, columns = _RULES[self.rule](self, height, width) if self.each else (0, 0)
        return rows * columns * self.each + max(rows - 1, 0) * self.between + self.ends

    @property
    def work(self) -> float:
        """Weights of the tower that a token of a picture is multiplied with."""
        return self.patches * self.weights


# A tower of a processor that the table does not have.
UNKNOWN = Pictures("", 0, 0, 0, 0, 0, 0, 0, 0.0)


class _Line(NamedTuple):
    kind: str
    names: str
    pictures: Pictures


@cache
def _table() -> list[_Line]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [
            _Line(
                line["kind"],
                line["names"],
                Pictures._make(
                    (
                        line["rule"],
                        *(int(line[name]) for name in Pictures._fields[1:-1]),
                        float(line["tower"] or 0),
                    )
                ),
            )
            for line in csv.DictReader(file)
        ]


def pictures_named(name: str, tower: float) -> Pictures | None:
    """Those of a checkpoint of the bundled table, whose tower has so many weights where the line does not
    say it; None where it reads none."""
    found = next((line.pictures for line in _table() if line.names and fnmatchcase(name, line.names)), None)
    return found and found._replace(weights=found.weights or tower)


def pictures_of_kind(kind: str, side: int | None, tower: float) -> Pictures:
    """The `Pictures` of configurations of a `model_type`; `side` is in pixels, if they state it."""
    found = next((line.pictures for line in _table() if line.kind == kind), UNKNOWN)
    return found._replace(weights=tower, side=side if side and found.each == 1 else found.side)


def _budget(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """Sides rounded to squares, and scaled where all pixels are too few or too many (Qwen's)."""
    rows, columns = round(height / of.side), round(width / of.side)
    if rows * columns * of.side**2 > of.most:
        by = math.sqrt(height * width / of.most) * of.side
        return max(1, math.floor(height / by)), max(1, math.floor(width / by))
    if rows * columns * of.side**2 < of.least:
        by = math.sqrt(of.least / (height * width)) / of.side
        return math.ceil(height * by), math.ceil(width * by)
    return rows, columns


def _shrink(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """Scaled down where a side is above `least`, or all patches too many, and padded (Kimi's)."""
    patch = of.side // 2
    patches = max(1, height // patch) * max(1, width // patch)
    by = min(1.0, math.sqrt(of.most / patch**2 / patches), of.least / height, of.least / width)
    return math.ceil(max(1, int(height * by)) / of.side), math.ceil(max(1, int(width * by)) / of.side)


def _fill(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """Scaled to as many squares as may be (Gemma 4's)."""
    by = math.sqrt(of.most / (height * width)) / of.side
    rows, columns, most = math.floor(height * by), math.floor(width * by), of.most // of.side**2
    if not rows:
        return 1, min(width // height, most)
    return (rows, columns) if columns else (min(height // width, most), 1)


def _longest(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """Scaled down where a side is too long, and padded (Pixtral's)."""
    by = max(height / of.most, width / of.most, 1.0)
    return math.ceil(math.floor(height / by) / of.side), math.ceil(math.floor(width / by) / of.side)


def _tiles(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """The tiles that enlarge a picture least, else shrink it least; none beside the whole where one does
    (Llama 4's)."""
    shapes = [(rows, columns) for rows in range(1, of.most + 1) for columns in range(1, of.most // rows + 1)]
    scales = {shape: min(shape[0] * of.side / height, shape[1] * of.side / width) for shape in shapes}
    larger = [scale for scale in scales.values() if scale >= 1]
    best = min(larger) if larger else max(scales.values())
    found = min((shape for shape, scale in scales.items() if scale == best), key=math.prod)
    return found if math.prod(found) > 1 else (0, 0)


def _windows(of: Pictures, height: int, width: int) -> tuple[int, int]:
    """Windows beside the whole, of an even width by how long a picture is (Step 3.7's)."""
    if min(height, width) < 32 and max(height, width) > 4 * min(height, width):
        height = width = max(height, width)
    if (longest := max(height, width)) > of.most:
        height, width = int(height * (of.most / longest)), int(width * (of.most / longest))
    short, long = min(height, width), max(height, width)
    window = min(short, of.side) if long > 4 * short else of.side
    if long <= of.least:
        window = short if long > 1.5 * short else 0
    if not window:
        return 0, 0
    rows, columns = (
        max(1, n // window + (n >= window and n % window > 0.2 * window)) for n in (height, width)
    )
    return rows, columns


_RULES: Mapping[str, Callable[[Pictures, int, int], tuple[int, int]]] = {
    "budget": _budget,
    "shrink": _shrink,
    "fill": _fill,
    "longest": _longest,
    "tiles": _tiles,
    "windows": _windows,
}
