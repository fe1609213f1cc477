"""How wide a CPU's arithmetic units are, by its name."""

from __future__ import annotations

import math
import re
from functools import cache

# fp32 operations a core and cycle, from the makers' descriptions of their cores (2 x fused
# multiply-add units x lanes): AVX is 16 (one multiplier and one adder of 8 lanes), AVX2 32, AVX-512
# 64 with two units of 16 lanes; Zen 4 splits AVX-512 over units of 8 lanes; Arm Neon has 4 lanes a
# unit: N1 two units, V1, V2 and V3 as much as four.
_FLOPS_PER_CYCLE: tuple[tuple[str, int], ...] = (
    (r"Xeon.* E[57]-\d+( 0)?$", 16),
    (r"Xeon.* E[57]-\d+ ?v2", 16),
    (r"Xeon.* E[357]-\d+\w? ?v[34]", 32),
    (r"Xeon.* (Platinum|Gold|6\d{3}P)", 64),
    (r"EPYC 7\w\w1\b", 16),
    (r"EPYC (7|9\w\w4)", 32),
    (r"EPYC 9\w\w5", 64),
    (r"Cortex-A72", 8),
    (r"Neoverse-N1", 16),
    (r"Neoverse-V", 32),
)
# AMD's measured core (Zen 4).
REFERENCE_FLOPS_PER_CYCLE = 32


def flops_per_cycle(model: str) -> int | None:
    """What one core of a CPU can do in a cycle; None for a CPU that is not in the table."""
    return next((n for pattern, n in _FLOPS_PER_CYCLE if re.search(pattern, model)), None)


@cache
def relative_width(model: str) -> float:
    """How many times as wide as the measured CPU's its units are; nan for an unknown CPU."""
    width = flops_per_cycle(model)
    return width / REFERENCE_FLOPS_PER_CYCLE if width else math.nan
