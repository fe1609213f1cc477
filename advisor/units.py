"""The only place where units are printed; `advisor.quantities` parses them.

Memory is binary throughout: MiB = 2**20 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from advisor.domain import Range


def format_range(limits: Range, write: Callable[[float], str]) -> str:
    """The text that `parse_range` reads: '4..16', '4..', or '8'."""
    if limits.limits and limits.least == limits.most:
        return write(limits.least or 0.0)
    ends = (write(end) if end is not None else "" for end in (limits.least, limits.most))
    return "..".join(ends)


def range_text(limits: Range, write: Callable[[float], str]) -> str | None:
    """The text that an option takes; None for a range that leaves out nothing."""
    return format_range(limits, write) if limits.limits else None


def size_text(mib: float) -> str:
    """24576 -> '24GiB': as options take a size, without loss."""
    gib = mib / 1024
    return f"{gib:g}GiB" if float(f"{gib:g}") == gib else f"{mib:.10g}MiB"


def gpus_text(names: Iterable[str], memory_mib: Range, capability: Range) -> str | None:
    """'A100,40GiB..,cc8.0..': as `--gpu` takes it; None where any GPU is meant."""
    parts = list(names)
    if memory_mib.limits:
        ends = (memory_mib.least, memory_mib.most)
        parts.append("..".join("" if end is None else size_text(end) for end in ends))
    if capability.limits:
        parts.append("cc" + format_range(capability, "{:.1f}".format))
    return ",".join(parts) or None


def format_mib(mib: float) -> str:
    """2048 -> '2 GiB', 1536 -> '1.5 GiB', 512 -> '512 MiB'."""
    if mib >= 1024**2:
        return f"{mib / 1024**2:.3g} TiB"
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:.4g} MiB"


def format_usd(usd: float) -> str:
    """Dollars with as many digits as prices have: '$0.526', '$12.24', '$1,035', '$0.0042', '-$0.500', '$0'.

    The digits are those of what is printed: 9.9996 is '$10.00'.
    """
    sign, amount = ("-" if usd < 0 else ""), abs(usd)
    if amount == 0:
        return "$0"
    if round(amount, 3) >= 10:
        return f"{sign}${amount:,.2f}" if round(amount, 2) < 100 else f"{sign}${amount:,.0f}"
    return f"{sign}${amount:.3f}" if round(amount, 4) >= 0.1 else f"{sign}${amount:.4f}"


def short_usd(usd: float) -> str:
    """A cost of a run or a trial: '$8.05', '$0.16', '$0.024', '$128'."""
    if 0 < usd < 0.0001:
        return "under $0.0001"
    return f"${usd:,.2f}" if 0.1 <= usd < 99.995 else f"${usd:,.0f}" if usd >= 1 else f"${usd:.2g}"


def format_rate(samples_per_second: float) -> str:
    """Three significant digits, thousands grouped: '1,230', '45.6', '0.789'."""
    if samples_per_second >= 100:
        digits = max(0, len(str(int(samples_per_second))) - 3)
        return f"{round(samples_per_second, -digits):,.0f}"
    return f"{samples_per_second:.3g}"


def format_target(samples_per_second: float) -> str:
    """A rate that somebody asked for, to its last digit: '1,961', '0.25'."""
    return f"{samples_per_second:,.12g}"


def format_count(count: float) -> str:
    """'900', '12,800', '1.28 million', '1.15 billion': three digits from a million on."""
    if count >= 1e9:
        return f"{format_rate(count / 1e9)} billion"
    return f"{format_rate(count / 1e6)} million" if count >= 1e6 else f"{count:,.0f}"


def format_counted(count: float, noun: str) -> str:
    """'1 epoch', '2.5 epochs', '1.28 million samples': with the plural of a regular noun."""
    text = f"{count:g}" if count < 1e4 else format_count(count)
    return f"{text} {noun}" if count == 1 else f"{text} {noun}s"


# Beyond so many hours minutes say nothing.
_WHOLE_HOURS = 48


def format_span(hours: float, *, up: bool = False) -> str:
    """How long a run takes, as people say it: '48 min', '11 h 3 min', '76 h'; rounded `up` where it is a
    bound."""
    if hours >= _WHOLE_HOURS:
        return f"{math.ceil(hours) if up else round(hours):,} h"
    step = 60 if hours > 1 / 40 else 1
    return format_duration(step * math.ceil(3600 / step * hours) if up else 3600 * hours)


def ceil_span(hours: float) -> float:
    """Hours rounded up to what `format_span` tells: more than a limit stays more than it."""
    parts = 1 if hours >= _WHOLE_HOURS else 60
    return math.ceil(parts * hours) / parts if math.isfinite(hours) else hours


def format_duration(seconds: float) -> str:
    """'45 s', '12 min', '3 h 20 min': of what runs, to the minute."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def ceil_significant(value: float) -> float:
    """Three significant digits, rounded up: a bound that is told must really hold."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.6g}")


def ceil_ms(seconds: float) -> float:
    """Seconds as milliseconds with three significant digits, rounded up."""
    return ceil_significant(seconds * 1000)


def floor_rate(samples_per_second: float) -> float:
    """Three significant digits, rounded down: a bound that is told must really hold."""
    if samples_per_second <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(samples_per_second)) - 2)
    return float(f"{math.floor(samples_per_second / step) * step:.6g}")
