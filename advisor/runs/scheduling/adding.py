"""A schedule that is to be kept: its name, its times, its command and its money, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from advisor.errors import UsageError
from advisor.quantities import parse_name
from advisor.runs.cron import CronLine
from advisor.runs.scheduling.checking import Checked, monthly_budget
from advisor.runs.scheduling.commands import kind_of
from sweeps.store.schedule_words import Misfire, NewSchedule, Reporting

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MISFIRES = tuple(one.value for one in Misfire)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When it is due, what becomes of times at which no daemon ran, and what a month may cost
    ('20USD'). Without a `name` it is called as its command."""

    cron: str
    timezone: str = "UTC"
    name: str | None = None
    misfire: str = Misfire.RUN_ONCE.value
    budget_per_month: str | None = None


def new_schedule(
    times: Times, checked: Checked, folder: str, now: float, reporting: Reporting | None = None
) -> tuple[NewSchedule, datetime]:
    """The schedule and its first due time; `UsageError` names what is wrong."""
    line = CronLine(times.cron, times.timezone)
    due = line.require_due(datetime.fromtimestamp(now, UTC))
    new = NewSchedule(
        name=_checked_name(times.name or "-".join(kind_of(checked.words) or ())),
        cron=line.text,
        timezone=times.timezone,
        command=checked.words,
        folder=folder,
        misfire=Misfire(parse_name(times.misfire, "misfire", MISFIRES)),
        budget_usd=monthly_budget(times.budget_per_month, checked),
        usd_per_hour=checked.usd_per_hour,
        run_usd=checked.run_usd,
        reporting=reporting,
    )
    return new, due


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name '{name}' must be up to 64 letters, digits, '.', '_' and '-', not beginning "
            "with one of the last three"
        )
    return name
