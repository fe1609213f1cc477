"""Requests that come at a rate of their own (Poisson), instead of one as another ends.

How many are in flight follows from Little's law: rate x seconds of a request, whose seconds grow
with those in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from advisor.models.bayes import Floats

# An interval is cut into so many parts at once, so often: fewer calls than halving it 30 times.
_PARTS, _CUTS = 32, 6


class Flow(NamedTuple):
    """What a steady rate of requests leads to, each (n,); nan beyond capacity.

    `in_flight` counts requests that are worked on, `waiting_seconds` is spent before that, where
    as many are in flight as memory holds.
    """

    in_flight: Floats
    waiting_seconds: Floats


def open_loop(request_seconds: Callable[[Floats], Floats], rate: Floats, most_in_flight: Floats) -> Flow:
    """The flow of `rate` (n,) requests a second, found by cutting intervals.

    `request_seconds` has the seconds of a request (n,) with so many in flight (.., n), itself
    included. Who arrives sees the mean number in flight (Poisson arrivals see time averages).
    Before that it waits where all `most_in_flight` (n,) places are taken, by Sakasegawa's
    approximation of M/M/c (1977).
    """

    def lacking(in_flight: Floats) -> Floats:
        return in_flight / request_seconds(in_flight + 1) - rate

    low, high = np.zeros_like(rate), np.maximum(most_in_flight - 1, 0.0)
    capacity = most_in_flight / request_seconds(most_in_flight)
    steps = np.arange(1, _PARTS)[:, None]
    for _ in range(_CUTS):
        part = (high - low) / _PARTS
        short = lacking(low + steps * part) < 0
        low = low + short.sum(axis=0) * part
        high = low + part
    busy = rate / capacity
    seconds = request_seconds(high + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.maximum(most_in_flight, 1.0)
        wait = seconds * busy ** (np.sqrt(2 * (places + 1)) - 1) / (places * (1 - busy))
    within = busy < 1
    return Flow(np.where(within, high, np.nan), np.where(within, wait, np.nan))
