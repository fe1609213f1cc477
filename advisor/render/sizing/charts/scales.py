"""From values to places on paper, and which values to write on an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from math import ceil, floor, log10
from typing import NamedTuple

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


def scale_of(
    values: Iterable[float], start: float, end: float, *, from_zero: bool = False
) -> Scale:
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
    found: list[float] = []
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        powers = range(floor(log10(least)), ceil(log10(most)) + 1)
        found = [n * 10.0**power for power in powers for n in steps]
        found = [one for one in found if least <= one <= most]
        if len(found) >= min(wanted, 3):
            break
    return found[:: max(1, ceil(len(found) / (wanted + 2)))]
