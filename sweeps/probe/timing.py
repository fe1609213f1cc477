"""Times calls: warm-up, then repeats that each last long enough for the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

LEAST_REPEATS = 5
_MOST_REPEATS = 30
# A repeat shorter than this is mostly the noise of clock, scheduler and synchronisation.
_SHORTEST_REPEAT_SECONDS = 0.004
_WARMUP_SHARE = 0.2
_MOST_CALLS_A_REPEAT = 2000

Clock = Callable[[], float]


def time_calls(
    call: Callable[[], object],
    seconds: float,
    *,
    synchronize: Callable[[], object] = lambda: None,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Seconds a call in each of 5 to 30 repeats that take about `seconds` together.

    The first call (allocation, compilation, choice of algorithm) never counts; then a fifth of
    the time warms caches and clocks. A repeat holds as many calls as last 4 ms, with the device
    synchronised at both ends.
    """

    def repeat(calls: int) -> float:
        synchronize()
        start = clock()
        for _ in range(calls):
            call()
        synchronize()
        return (clock() - start) / calls

    repeat(1)
    once = max(repeat(1), 1e-9)
    calls = min(_MOST_CALLS_A_REPEAT, math.ceil(_SHORTEST_REPEAT_SECONDS / once))
    once = _warmed_up(repeat, calls, seconds * _WARMUP_SHARE, once)
    affordable = int(seconds * (1 - _WARMUP_SHARE) / (once * calls))
    return [repeat(calls) for _ in range(max(LEAST_REPEATS, min(_MOST_REPEATS, affordable)))]


def _warmed_up(repeat: Callable[[int], float], calls: int, seconds: float, once: float) -> float:
    """Repeat for `seconds`, uncounted; the seconds a call took at the end."""
    spent = 0.0
    while spent < seconds:
        once = max(repeat(calls), 1e-9)
        spent += once * calls
    return once


def largest_affordable(
    sizes: Sequence[int], seconds_of: Callable[[int], float], seconds: float, *, growth: float
) -> int:
    """The largest of rising `sizes` whose warm-up and repeats fit in `seconds`.

    `seconds_of` runs one size once; the next one's time is predicted by the power `growth` of
    the sizes' ratio (3 for matrix products), so that none is run that is far too large.
    """
    chosen = sizes[0]
    for size, following in zip(sizes, [*sizes[1:], None], strict=True):
        took = seconds_of(size)
        chosen = size
        if following is None:
            break
        if took * (following / size) ** growth * (LEAST_REPEATS + 3) > seconds:
            break
    return chosen
