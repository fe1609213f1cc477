"""What a record takes as a number: above zero, or from one to another."""

from __future__ import annotations

import math
import sys

from advisor.records import dataclass


def require_positive(**values: float | None) -> None:
    """Refuse what is not a finite number above zero; None means unknown and passes."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0, not {value!r}")


def is_positive(value: object) -> bool:
    """Whether a number out of somebody's file is finite and above 0; true and "1" are none.

    JSON has whole numbers that no float can hold: they are not finite here.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value <= sys.float_info.max


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included; None leaves that end open."""

    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        require_positive(least=self.least, most=self.most)
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"nothing lies between {self.least:g} and {self.most:g}")

    @property
    def limits(self) -> bool:
        """Whether it leaves out anything at all."""
        return (self.least, self.most) != (None, None)

    def __contains__(self, value: float | None) -> bool:
        """What is not known lies in a range that leaves out nothing, and in no other."""
        if value is None:
            return not self.limits
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


ANY = Range()
