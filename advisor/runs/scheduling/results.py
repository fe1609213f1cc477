"""What a finished command says of itself: trials and dollars, out of its JSON document."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.runs.scheduling.child import answer_path


@dataclass(frozen=True, slots=True)
class Result:
    """Trials measured now, and what a cloud took for them; None where that is not known, as with
    trials that an instance writes into a shared database by itself."""

    trials: int | None = None
    cost_usd: float | None = None


def result_of(log: Path) -> Result:
    """Out of the document beside a log: `measured_now`, and `spent_usd` of a sweep on hosts that
    it launched itself. A command that was cut off has printed none."""
    try:
        document = json.loads(answer_path(log).read_text())
    except (OSError, ValueError, RecursionError):
        return Result()
    if not isinstance(document, dict):
        return Result()
    trials, spent = document.get("measured_now"), document.get("spent_usd")
    return Result(
        trials=trials if isinstance(trials, int) and not isinstance(trials, bool) else None,
        cost_usd=_amount(spent),
    )


def _amount(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
