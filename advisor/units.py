"""Prints all quantities with their units; `advisor.quantities` parses them.

Sizes are binary: 1 MiB is 2**20 bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from advisor.domain import Range


def format_range(limits: Range, write: Callable[[float], str]) -> str:
    """The range as `parse_range` reads it: '4..16', '4..', or '8'; `write` formats each end."""
    if limits.limits and limits.least == limits.most:
        return write(limits.least or 0.0)
    ends = (write(end) if end is not None else "" for end in (limits.least, limits.most))
    return "..".join(ends)


def range_text(limits: Range, write: Callable[[float], str]) -> str | None:
    """The range as an option takes it; None for a range without limits."""
    return format_range(limits, write) if limits.limits else None


def size_text(mib: float) -> str:
    """The exact size as options take it: 24576 -> '24GiB'."""
    gib = mib / 1024
    return f"{gib:g}GiB" if float(f"{gib:g}") == gib else f"{mib:.10g}MiB"


def gpus_text(names: Iterable[str], memory_mib: Range, capability: Range) -> str | None:
    """A choice of GPUs as `--gpu` takes it: 'A100,40GiB..,cc8.0..'; None for any GPU."""
    parts = list(names)
    if memory_mib.limits:
        ends = (memory_mib.least, memory_mib.most)
        parts.append("..".join("" if end is None else size_text(end) for end in ends))
    if capability.limits:
        parts.append("cc" + format_range(capability, "{:.1f}".format))
    return ",".join(parts) or None


def format_mib(mib: float) -> str:
    """The size in a suitable unit: 2048 -> '2 GiB', 1536 -> '1.5 GiB', 512 -> '512 MiB'."""
    if mib >= 1024**2:
        return f"{mib / 1024**2:.3g} TiB"
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:.4g} MiB"


def format_usd(usd: float) -> str:
    """Dollars with as many digits as prices have: '$0.526', '$12.24', '$1,035', '$0.0042', '-$0.500', '$0'.

    The number of digits depends on the rounded amount: 9.9996 is '$10.00'."""
    sign, amount = ("-" if usd < 0 else ""), abs(usd)
    if amount == 0:
        return "$0"
    if round(amount, 3) >= 10:
        return f"{sign}${amount:,.2f}" if round(amount, 2) < 100 else f"{sign}${amount:,.0f}"
    return f"{sign}${amount:.3f}" if round(amount, 4) >= 0.1 else f"{sign}${amount:.4f}"


def short_usd(usd: float) -> str:
    """The cost of a run or a trial in few digits: '$8.05', '$0.16', '$0.024', '$128'."""
    if 0 < usd < 0.0001:
        return "under $0.0001"
    return f"${usd:,.2f}" if 0.1 <= usd < 99.995 else f"${usd:,.0f}" if usd >= 1 else f"${usd:.2g}"


def format_rate(samples_per_second: float) -> str:
    """A rate with three significant digits and grouped thousands: '1,230', '45.6', '0.789'."""
    if samples_per_second >= 100:
        digits = max(0, len(str(int(samples_per_second))) - 3)
        return f"{round(samples_per_second, -digits):,.0f}"
    return f"{samples_per_second:.3g}"


def format_target(samples_per_second: float) -> str:
    """A target rate with all its digits: '1,961', '0.25'."""
    return f"{samples_per_second:,.12g}"


def format_count(count: float) -> str:
    """A count as '900', '12,800', '1.28 million' or '1.15 billion': three digits from a million on."""
    if count >= 1e9:
        return f"{format_rate(count / 1e9)} billion"
    return f"{format_rate(count / 1e6)} million" if count >= 1e6 else f"{count:,.0f}"


def format_counted(count: float, noun: str) -> str:
    """A count with a regular noun: '1 epoch', '2.5 epochs', '1.28 million samples'."""
    text = f"{count:g}" if count < 1e4 else format_count(count)
    return f"{text} {noun}" if count == 1 else f"{text} {noun}s"


# From this many hours on, minutes are left out.
_WHOLE_HOURS = 48


def format_span(hours: float, *, up: bool = False) -> str:
    """The duration of a run as '48 min', '11 h 3 min' or '76 h'. It is rounded up if `up`, which an upper
    bound needs."""
    if hours >= _WHOLE_HOURS:
        return f"{math.ceil(hours) if up else round(hours):,} h"
    step = 60 if hours > 1 / 40 else 1
    return format_duration(step * math.ceil(3600 / step * hours) if up else 3600 * hours)


def ceil_span(hours: float) -> float:
    """Hours rounded up to the resolution of `format_span`, so that a value above a limit stays above it."""
    parts = 1 if hours >= _WHOLE_HOURS else 60
    return math.ceil(parts * hours) / parts if math.isfinite(hours) else hours


def format_duration(seconds: float) -> str:
    """A duration as '45 s', '12 min' or '3 h 20 min': to the second below 90 s, else to the minute."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def ceil_significant(value: float) -> float:
    """The value rounded up to three significant digits, so that a printed upper bound holds."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.6g}")


def ceil_ms(seconds: float) -> float:
    """Milliseconds from seconds, rounded up to three significant digits."""
    return ceil_significant(seconds * 1000)


def floor_rate(samples_per_second: float) -> float:
    """The rate rounded down to three significant digits, so that a printed lower bound holds."""
    if samples_per_second <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(samples_per_second)) - 2)
    return float(f"{math.floor(samples_per_second / step) * step:.6g}")
