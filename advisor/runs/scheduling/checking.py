"""A sweep that is to be scheduled, checked as the command itself would, when it is added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.errors import UsageError
from advisor.runs.cloud.asking import refuse_without_aws
from advisor.runs.cloud.sweep_asking import owner_and_budget, split_cloud
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.sweeps.adaptive_asking import adaptive_from
from advisor.runs.sweeps.run_asking import checked_answers

_NOT_OF_THE_SWEEP = ("executor", "retry_failed", "fresh_since")
_HOW_IT_COSTS = (
    "--budget-per-month needs to know what a run costs: give the sweep --usd-per-hour or "
    "--instance, or a --budget of its own in USD"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """The words behind `advisor`, what its host costs, and what a run may cost at most."""

    words: tuple[str, ...]
    usd_per_hour: float | None = None
    run_usd: float | None = None


def monthly_budget(text: str | None, checked: Checked) -> float | None:
    """'20USD' -> 20.0; `UsageError` for other budgets, and where no run has a price."""
    if text is None:
        return None
    try:
        usd = _usd_of(text)
    except UsageError:
        usd = None
    if usd is None:
        raise UsageError(f"--budget-per-month is money, as 20USD, not '{text}'")
    if checked.usd_per_hour is None and checked.run_usd is None:
        raise UsageError(_HOW_IT_COSTS)
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
    from advisor.runs.sweeps.checking import plan_anywhere

    asked = {name: one for name, one in answers.items() if name not in _NOT_OF_THE_SWEEP}
    options, _, adaptive = checked_answers(asked, retry_failed=answers["retry_failed"])
    trials = plan_anywhere(options)
    if adaptive["adaptive"]:
        adaptive_from(trials, adaptive)
    budget, hourly = answers["budget"], host_usd_per_hour(answers)
    return Checked(words, hourly, _usd_of(budget) if budget else None)


def _usd_of(text: str) -> float | None:
    """The dollars of a budget; None where it counts trials or time."""
    from advisor.runs.adaptive.budget import parse_budget

    return parse_budget(text, usd_per_hour=1.0).usd
