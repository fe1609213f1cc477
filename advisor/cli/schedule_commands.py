"""What may be scheduled: parsed and checked as the command itself would, when it is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import click
from click.core import ParameterSource

from advisor.cli.host_price import host_usd_per_hour
from advisor.errors import UsageError
from advisor.operations.scheduling.commands import ALLOWED, is_sweep, kind_of

# The schedule decides these itself.
_OURS = {
    "output": "leave -o out: the schedule reads the command's JSON, and `schedule show` tells it",
    "fresh_since": "leave --fresh-since out: the schedule sets it to each run's due time",
    "dry_run": "leave --dry-run out: nothing would be measured",
}
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


def checked_command(words: Sequence[str]) -> Checked:
    """The command that is asked for; `UsageError`, or click's own, for what the command would
    refuse, and for commands that are not to be scheduled."""
    if words and PurePath(words[0]).name == "advisor":
        words = words[1:]
    kind = kind_of(words)
    if kind is None:
        known = ", ".join(f"`{' '.join(one)}`" for one in ALLOWED)
        given = f"`{' '.join(words[:2])}` cannot be scheduled" if words else "no command is given"
        raise UsageError(f"{given}; write one of {known} behind --")
    command, rest = _click_command(kind), list(words[len(kind) :])
    context = command.make_context(f"advisor {' '.join(kind)}", rest)
    for name, reason in _OURS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(reason)
    if not is_sweep(words):
        return Checked(tuple(words))
    return _checked_sweep(tuple(words), context.params)


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


def _click_command(kind: tuple[str, ...]) -> click.Command:
    if kind == ("fit",):
        from advisor.cli.fit import fit

        return fit
    if kind == ("catalog", "refresh"):
        from advisor.cli.catalog_refresh import refresh

        return refresh
    from advisor.cli.sweep import run

    return run


def _checked_sweep(words: tuple[str, ...], parameters: Mapping[str, Any]) -> Checked:
    """As `sweep run` checks its options, before it looks at the machine (the daemon's may be
    another one than this), or asks AWS."""
    from advisor.cli.cloud_options import refuse_without_aws
    from advisor.cli.sweep_cloud import split_cloud

    answers, cloud = split_cloud(parameters)
    del answers["output"]
    if cloud["on"] == "aws":
        from advisor.cli.sweep_cloud_run import owner_and_budget

        owner, usd = owner_and_budget(answers, cloud)
        # Of the sweep's id: who goes on with a run elsewhere must find what was launched for it.
        pinned = () if cloud["owner"] else ("--owner", owner)
        return Checked((*words, *pinned), None, usd)
    refuse_without_aws(cloud)
    return _checked_here(words, answers)


def _checked_here(words: tuple[str, ...], answers: dict[str, Any]) -> Checked:
    from advisor.cli.sweep import checked_answers
    from advisor.cli.sweep_adaptive import adaptive_from
    from advisor.operations.sweep_checking import plan_anywhere

    asked = {name: one for name, one in answers.items() if name not in _NOT_OF_THE_SWEEP}
    options, _, adaptive = checked_answers(asked, retry_failed=answers["retry_failed"])
    trials = plan_anywhere(options)
    if adaptive["adaptive"]:
        adaptive_from(trials, adaptive)
    budget, hourly = answers["budget"], host_usd_per_hour(answers)
    return Checked(words, hourly, _usd_of(budget) if budget else None)


def _usd_of(text: str) -> float | None:
    """The dollars of a budget; None where it counts trials or time."""
    from advisor.operations.adaptive.budget import parse_budget

    return parse_budget(text, usd_per_hour=1.0).usd
