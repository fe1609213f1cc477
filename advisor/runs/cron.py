"""When a cron line is due, in a time zone, by Debian's rules for clock changes (`cronsim`).

A line with fixed hours follows the wall clock: each of its times comes once a day, the first of
two when clocks go back, and at the end of the gap when they skip it. A line with `*` for minutes
or hours follows time itself: every 30 minutes is every 30 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.questions.fields import wrong

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = 5


class CronLine:
    """A cron line in a time zone. `UsageError` says which field is wrong, or the nearest zone."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        self.text = " ".join(text.split())
        self.timezone = timezone
        self._zone = zone_of(timezone)
        self._expression = _expression(self.text)
        self._times_after(datetime.now(UTC))  # refuses a field that is wrong

    def after(self, instant: datetime) -> datetime | None:
        """The first due time after an instant, in UTC; None where there is none in 50 years."""
        return next(self._after(instant), None)

    def between(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The due times with first < due <= last, in order."""
        for due in self._after(first):
            if due > last:
                return
            yield due

    def require_due(self, now: datetime) -> datetime:
        """The next due time; `UsageError` where there is none."""
        due = self.after(now)
        if due is None:
            raise wrong(
                "cron", "{field} '{line}' never falls due", line=self.text, hint="is there such a day?"
            )
        return due

    def _after(self, instant: datetime) -> Iterator[datetime]:
        for due in self._times_after(instant):
            # In the hour that clocks show twice, a time of the first pass is over.
            if due.astimezone(UTC) > instant:
                yield due.astimezone(UTC)

    def _times_after(self, instant: datetime) -> CronSim:
        try:
            return CronSim(self._expression, instant.astimezone(self._zone))
        except CronSimError as error:
            raise wrong(
                "cron", "{field} '{line}': {reason}", line=self.text, reason=str(error).lower()
            ) from error


def zone_of(name: str) -> tzinfo:
    """The time zone of that name; UTC on every machine. `UsageError` names the nearest zone."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        names = available_timezones()
    if names:
        raise unknown_name("time zone", name, names, field="timezone")
    raise UsageError(
        "time zone '{name}': this machine has none but UTC",
        name=name,
        field="timezone",
        hint=Message("install its package tzdata, or `pip install tzdata`"),
    )


def _expression(text: str) -> str:
    """The five fields of a line, as cronsim takes them."""
    if text.startswith("@") and text.lower() not in _MACROS:
        raise unknown_name("cron line", text, _MACROS, field="cron")
    fields = _MACROS.get(text.lower(), text).upper().split()
    if len(fields) != _FIELDS:
        raise wrong(
            "cron",
            "{field} '{line}' has {count} fields, not 5 (minute, hour, day of month, month, day of week)",
            line=text,
            count=len(fields),
            hint="write it like '0 3 * * 1' for Mondays at 3:00",
        )
    fields[4] = fields[4].replace("-SUN", "-7")  # a week may end with Sunday: FRI-SUN
    return " ".join(fields)
