"""How the pace of a long trial held: its end against its first minute; pure.

Clocks that fall with heat and credits that run out (burstable CPUs and disks) show after minutes
only, so a trial of up to a minute has none of this.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from advisor.domain.steps import typical_step_seconds

MINUTE_SECONDS = 60.0
_FEWEST_STEPS = 6


def pace(step_seconds: Sequence[float], samples_per_step: int, period: int = 1) -> dict[str, float]:
    """Samples per second of the first minute and of the last one (of what follows the first
    where that is shorter), and the seconds in which the last was seen.

    `step_seconds` are all steps in order, warm-up too: a burst at the start looks like one.
    Empty unless each part has at least six steps.
    """
    ends = list(itertools.accumulate(step_seconds))
    if not ends or ends[-1] <= MINUTE_SECONDS:
        return {}
    split = sum(end <= MINUTE_SECONDS for end in ends)
    begin = max(split, sum(end <= ends[-1] - MINUTE_SECONDS for end in ends))
    first, last = step_seconds[:split], step_seconds[begin:]
    if min(len(first), len(last)) < _FEWEST_STEPS:
        return {}
    return {
        "first_minute_samples_per_second": samples_per_step / typical_step_seconds(first, period),
        "sustained_samples_per_second": samples_per_step / typical_step_seconds(last, period),
        "sustained_over_seconds": sum(last),
    }
