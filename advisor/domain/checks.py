"""What every record refuses."""

from __future__ import annotations

import math


def require_positive(**values: float | None) -> None:
    """Refuse what is not a finite number above zero; None means unknown and passes."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a number above 0, not {value!r}")
