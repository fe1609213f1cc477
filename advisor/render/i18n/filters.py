"""Numbers as templates print them: of the page and of reports."""

from __future__ import annotations

from advisor.domain import HOURS_PER_MONTH
from advisor.units import ceil_ms, floor_rate, format_hours, format_mib, format_rate, format_usd


def lower_rate(rate: float) -> str:
    """A lower bound: rounded down."""
    return f"{floor_rate(rate):,g}"


def per_month(usd_per_hour: float) -> str:
    """Dollars of 730 hours, in whole dollars from ten on."""
    usd = usd_per_hour * HOURS_PER_MONTH
    return f"${usd:,.0f}" if usd >= 10 else format_usd(usd)


def percent(share: float) -> str:
    """'41 %'."""
    return f"{100 * share:.0f}\u00a0%"


def plain(number: float) -> str:
    """'500', '1.014': a number as a parameter has it."""
    return f"{number:.12g}"


FILTERS = {
    "usd": format_usd,
    "rate": format_rate,
    "mib": format_mib,
    "hours": format_hours,
    "ms": lambda ms: f"{ceil_ms(ms / 1000):,g} ms",
    "lower": lower_rate,
    "per_month": per_month,
    "percent": percent,
    "plain": plain,
}
