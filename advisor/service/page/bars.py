"""Where the parts of a bar stand, in percent of its width: what SVG draws without any style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.records import dataclass
from advisor.units import format_rate

# The widest thing on the bar ends here, so that its label has room.
_FILLED = 92.0
# Labels beyond these hang to one side.
_LEFT, _RIGHT = 15.0, 85.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBar:
    """An interval of rates with its likely rate and a target; None where there is no target."""

    lower: float
    width: float
    median: float
    target: float | None
    target_text: str
    target_anchor: str


def interval_bar(
    rates: Mapping[str, Any], target: float | None, target_word: str, full: float | None = None
) -> IntervalBar:
    """The bar of `lower`, `median` and `upper`; `full` is the rate at its end where bars share one
    scale."""
    most = full or max(rates["upper"], target or 0.0)
    scale = _FILLED / most
    at = None if target is None else round(min(target * scale, 100.0), 2)
    return IntervalBar(
        lower=round(rates["lower"] * scale, 2),
        width=round((rates["upper"] - rates["lower"]) * scale, 2),
        median=round(rates["median"] * scale, 2),
        target=at,
        target_text="" if target is None else f"{target_word} {format_rate(target)}",
        target_anchor=_anchor(at or 0.0),
    )


def _anchor(percent: float) -> str:
    if percent < _LEFT:
        return "start"
    return "end" if percent > _RIGHT else "middle"
