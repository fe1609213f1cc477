"""Token buckets: so many requests a second, and a burst, for each who asks."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from dataclasses import dataclass

_MOST_HOLDERS = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """Whether a request may pass, how many more may follow at once, and after how many seconds
    one may again."""

    allowed: bool
    left: int
    wait_seconds: float


class Buckets:
    """A bucket each holder: refilled at `rate` a second, up to `burst`.

    Of more than ten thousand holders the one that asked longest ago is forgotten: its bucket was
    full again long before, unless strangers of very many addresses ask at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, holder: str, now: float) -> Taken:
        """Take one token at `now` (seconds of a clock that never goes back)."""
        level, before = self._levels.pop(holder, (self.burst, now))
        level = min(self.burst, level + (now - before) * self.rate)
        allowed = level >= 1.0
        level -= 1.0 if allowed else 0.0
        self._levels[holder] = (level, now)
        if len(self._levels) > _MOST_HOLDERS:
            self._levels.popitem(last=False)
        wait = 0.0 if level >= 1.0 else (1.0 - level) / self.rate
        return Taken(allowed, math.floor(level), wait)


def place_of(address: str) -> str:
    """Whom an address belongs to: of IPv6 its /64, which is one customer's."""
    if ":" not in address:
        return address
    try:
        number = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if number.ipv4_mapped:
        return str(number.ipv4_mapped)
    return str(ipaddress.IPv6Network((number, 64), strict=False))
