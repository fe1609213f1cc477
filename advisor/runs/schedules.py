"""A schedule that is to be kept: its name, its times, its command and its money, checked.

Its sweep is checked as the command itself would check it, when the schedule is added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.fields import wrong
from advisor.runs.budget import parse_budget
from advisor.runs.cron import CronLine
from advisor.runs.processes import ADVISOR
from advisor.runs.questions import ScheduleRequest
from advisor.runs.sweep_questions import SweepRun
from advisor.runs.sweeps.data import plan_anywhere
from advisor.runs.sweeps.sweeping import host_usd_per_hour
from advisor.store.records import Misfire, NewSchedule, Reporting

# What may be scheduled, by its first words; everything else is refused.
ALLOWED = (("sweep", "run"), ("fit",), ("catalog", "refresh"))
SWEEP_RUN = ALLOWED[0]
# With one of these a sweep measures on other machines, and leaves this one's quiet.
_ELSEWHERE = ("--ray-address", "--on")


def kind_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The allowed command that these words begin with; None where they begin with none."""
    return next((words for words in ALLOWED if tuple(command[: len(words)]) == words), None)


def is_sweep(command: Sequence[str]) -> bool:
    """Whether it measures."""
    return kind_of(command) == SWEEP_RUN


def works_elsewhere(command: Sequence[str]) -> bool:
    """Whether other runs may go on beside it: two on one machine would measure each other."""
    names = {word.partition("=")[0] for word in command}
    return is_sweep(command) and bool(names & set(_ELSEWHERE))


def started_as(command: Sequence[str], due_at: float) -> list[str]:
    """The whole command line of a run, with a JSON document on its stdout.

    A sweep measures anew what is older than its due time (seconds since 1970): what an attempt
    that was cut off has measured since then is not measured again.
    """
    since = datetime.fromtimestamp(due_at, UTC).isoformat()
    fresh = ["--fresh-since", since] if is_sweep(command) else []
    return [*ADVISOR, *command, *fresh, "-o", "json"]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW_IT_COSTS = Message(
    "give the sweep {price} or {instance}, or a {budget} of its own in USD",
    price=FieldName("usd_per_hour"),
    instance=FieldName("instance"),
    budget=FieldName("budget"),
)


class Checked(Struct, frozen=True):
    """The words behind `advisor`, what its host costs, and what a run may cost at most."""

    words: tuple[str, ...]
    usd_per_hour: float | None = None
    run_usd: float | None = None


def new_schedule(
    times: ScheduleRequest, checked: Checked, folder: str, now: float, reporting: Reporting | None = None
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
        misfire=Misfire(times.misfire),
        budget_usd=monthly_budget(times.budget_per_month, checked),
        usd_per_hour=checked.usd_per_hour,
        run_usd=checked.run_usd,
        reporting=reporting,
    )
    return new, due


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise wrong(
            "name",
            "{field} '{name}' must be up to 64 letters, digits, '.', '_' and '-', not "
            "beginning with one of the last three",
            name=name,
        )
    return name


def monthly_budget(text: str | None, checked: Checked) -> float | None:
    """'20USD' -> 20.0; `UsageError` for other budgets, and where no run has a price."""
    if text is None:
        return None
    try:
        usd = parse_budget(text).usd
    except UsageError:
        usd = None
    if usd is None:
        raise wrong("budget_per_month", "{field} is money, as 20USD, not '{text}'", text=text)
    if checked.usd_per_hour is None and checked.run_usd is None:
        raise wrong("budget_per_month", "{field} needs to know what a run costs", hint=_HOW_IT_COSTS)
    return usd


def checked_sweep(words: Sequence[str], sweep: SweepRun) -> Checked:
    """As `sweep run` checks its options, before it looks at the machine (the daemon's may be
    another one than this), or asks AWS."""
    if sweep.on_aws:
        from advisor.runs.cloud.launches import launches

        shares = launches(sweep)
        # Of the sweep's id: who goes on with a run elsewhere must find what was launched for it.
        pinned = () if sweep.owner else ("--owner", shares[0].owner)
        return Checked((*words, *pinned), run_usd=sum(share.budget_usd for share in shares))
    trials = plan_anywhere(sweep)
    if sweep.adaptive:
        from advisor.runs.adaptive.planning import adaptive_from  # loads SciPy

        adaptive_from(trials, sweep)
    run_usd = sweep.budget.usd if sweep.budget else None
    return Checked(tuple(words), host_usd_per_hour(sweep), run_usd)
