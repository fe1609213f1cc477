"""What every record refuses."""

from __future__ import annotations

import math
import sys


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
