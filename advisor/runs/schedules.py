"""A schedule that is to be kept: its name, its times, its command and its money, checked.

Its sweep is checked as the command itself would check it, when the schedule is added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from advisor.errors import UsageError
from advisor.messages import Message
from advisor.quantities import parse_name
from advisor.runs.adaptive.request import adaptive_from, checked_answers
from advisor.runs.cloud.request import owner_and_budget, refuse_without_aws, split_cloud
from advisor.runs.cron import CronLine
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.processes import ADVISOR
from advisor.runs.store.records import Misfire, NewSchedule, Reporting

# What may be scheduled, by its first words; everything else is refused.
ALLOWED = (("sweep", "run"), ("fit",), ("catalog", "refresh"))
SWEEP_RUN = ALLOWED[0]
# With one of these a sweep measures on other machines, and leaves this one's quiet.
_ELSEWHERE = ("--ray-address", "--on")


def kind_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The allowed command that these words begin with; None where they begin with none."""
    return next((one for one in ALLOWED if tuple(command[: len(one)]) == one), None)


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
MISFIRES = tuple(misfire.value for misfire in Misfire)
_NOT_OF_THE_SWEEP = ("executor", "retry_failed", "fresh_since")
_HOW_IT_COSTS = Message(
    "give the sweep --usd-per-hour or --instance, or a --budget of its own in USD"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """The words behind `advisor`, what its host costs, and what a run may cost at most."""

    words: tuple[str, ...]
    usd_per_hour: float | None = None
    run_usd: float | None = None


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
            "--name '{name}' must be up to 64 letters, digits, '.', '_' and '-', not beginning "
            "with one of the last three", name=name, field="name",
        )  # fmt: skip
    return name


def monthly_budget(text: str | None, checked: Checked) -> float | None:
    """'20USD' -> 20.0; `UsageError` for other budgets, and where no run has a price."""
    if text is None:
        return None
    try:
        usd = _usd_of(text)
    except UsageError:
        usd = None
    if usd is None:
        raise UsageError("--budget-per-month is money, as 20USD, not '{text}'", text=text,
                         field="budget_per_month")  # fmt: skip
    if checked.usd_per_hour is None and checked.run_usd is None:
        raise UsageError("--budget-per-month needs to know what a run costs", hint=_HOW_IT_COSTS,
                         field="budget_per_month")  # fmt: skip
    return usd


def checked_sweep(words: tuple[str, ...], parameters: Mapping[str, Any]) -> Checked:
    """As `sweep run` checks its options, before it looks at the machine (the daemon's may be
    another one than this), or asks AWS."""
    answers, cloud = split_cloud(parameters)
    answers.pop("output", None)
    if cloud["on"] == "aws":
        owner, usd = owner_and_budget(answers, cloud)
        # Of the sweep's id: who goes on with a run elsewhere must find what was launched for it.
        pinned = () if cloud["owner"] else ("--owner", owner)
        return Checked((*words, *pinned), None, usd)
    refuse_without_aws(cloud)
    return _checked_here(words, answers)


def _checked_here(words: tuple[str, ...], answers: dict[str, Any]) -> Checked:
    from advisor.runs.sweeps.data import plan_anywhere

    sweep = {name: value for name, value in answers.items() if name not in _NOT_OF_THE_SWEEP}
    options, _, adaptive = checked_answers(sweep, retry_failed=answers["retry_failed"])
    trials = plan_anywhere(options)
    if adaptive["adaptive"]:
        adaptive_from(trials, adaptive)
    budget, hourly = answers["budget"], host_usd_per_hour(answers)
    return Checked(words, hourly, _usd_of(budget) if budget else None)


def _usd_of(text: str) -> float | None:
    """The dollars of a budget; None where it counts trials or time."""
    from advisor.runs.budget import parse_budget

    return parse_budget(text, usd_per_hour=1.0).usd
