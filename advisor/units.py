"""The only place where units are parsed and printed.

Memory is binary throughout: `GB` from a user means GiB, as clouds and tools print it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from advisor.domain import Range
from advisor.errors import UsageError

_MIB_PER_UNIT = {"mib": 1.0, "mb": 1.0, "m": 1.0, "gib": 1024.0, "gb": 1024.0, "g": 1024.0}
_MIB_PER_UNIT |= {"tib": 1024.0**2, "tb": 1024.0**2, "t": 1024.0**2}
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)\s*$")


def parse_memory_mib(text: str) -> float:
    """'2GiB' -> 2048.0. A bare number has no unit and is refused."""
    match = _QUANTITY.match(text)
    unit = match.group(2).lower() if match else ""
    if not match or unit not in _MIB_PER_UNIT:
        raise UsageError(f"'{text}' is not a size; write it like 512MiB, 4GiB or 1TiB")
    size = float(match.group(1)) * _MIB_PER_UNIT[unit]
    if not (math.isfinite(size) and size > 0):
        raise UsageError(f"'{text}' is not a size above 0")
    return size


def parse_rate_mib_per_second(text: str) -> float:
    """'50MiB/s' -> 50.0."""
    amount, slash, per = text.strip().partition("/")
    if not slash or per.strip().lower() not in ("s", "sec", "second"):
        raise UsageError(f"'{text}' is not a rate; write it like 50MiB/s or 1GiB/s")
    return parse_memory_mib(amount)


def parse_range(text: str, parse: Callable[[str], float]) -> Range:
    """'4..16', '4..', '..16', or '8' for 8 alone; `parse` reads an end."""
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not (first or last):
        raise UsageError(f"'{text}' is no range; write it like 4..16, 4.. or ..16")
    least = parse(first) if first else None
    most = (parse(last) if last else None) if dots else least
    if least is not None and most is not None and least > most:
        raise UsageError(f"'{text}' is empty: write the lower end first")
    return Range(least, most)


def format_range(limits: Range, write: Callable[[float], str]) -> str:
    """As `parse_range` takes it: '4..16', '4..', or '8'."""
    if limits.limits and limits.least == limits.most:
        return write(limits.least or 0.0)
    ends = (write(end) if end is not None else "" for end in (limits.least, limits.most))
    return "..".join(ends)


def parse_positive(text: str, what: str) -> float:
    """A finite number above 0, or a `UsageError` that names `what`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{what} must be a number above 0, not '{text}'")
    return value


def format_mib(mib: float) -> str:
    """2048 -> '2 GiB', 1536 -> '1.5 GiB', 512 -> '512 MiB'."""
    if mib >= 1024**2:
        return f"{mib / 1024**2:.3g} TiB"
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:.4g} MiB"


def format_usd(usd: float) -> str:
    """Dollars with as many digits as prices have: '$0.526', '$12.24', '$0.0042', '$0'."""
    if usd == 0:
        return "$0"
    if usd >= 10:
        return f"${usd:,.2f}"
    return f"${usd:.3f}" if usd >= 0.1 else f"${usd:.4f}"


def format_rate(samples_per_second: float) -> str:
    """Three significant digits, thousands grouped: '1,230', '45.6', '0.789'."""
    if samples_per_second >= 100:
        digits = max(0, len(str(int(samples_per_second))) - 3)
        return f"{round(samples_per_second, -digits):,.0f}"
    return f"{samples_per_second:.3g}"


def format_count(count: float) -> str:
    """'900', '12,800', '1.28 million', '1,150 million': three digits from a million on."""
    return f"{format_rate(count / 1e6)} million" if count >= 1e6 else f"{count:,.0f}"


def format_counted(count: float, noun: str) -> str:
    """'1 epoch', '2.5 epochs', '1.28 million samples': with the plural of a regular noun."""
    text = f"{count:g}" if count < 1e4 else format_count(count)
    return f"{text} {noun}" if count == 1 else f"{text} {noun}s"


def format_hours(hours: float, *, up: bool = False) -> str:
    """'34.2 h', '1,230 h', '48 min', '5.2 s'; three digits, rounded `up` where it is a bound."""
    amount, unit = hours, "h"
    if hours < 1 / 60:
        amount, unit = hours * 3600, "s"
    elif hours < 1:
        amount, unit = hours * 60, "min"
    return f"{ceil_significant(amount) if up else float(f'{amount:.3g}'):,g} {unit}"


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
