"""Time zones by name, as this machine knows them."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from advisor.errors import UsageError, unknown_name

_UTC = "UTC"


def zone_of(name: str) -> tzinfo:
    """The clock of a place; UTC on every machine. `UsageError` names the nearest zone, or what
    tells a machine all of them."""
    if name == _UTC:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
    if known:
        raise unknown_name("time zone", name, known)
    raise UsageError(
        f"time zone '{name}': this machine knows none but UTC; install its package tzdata, or "
        "`pip install tzdata`"
    )
