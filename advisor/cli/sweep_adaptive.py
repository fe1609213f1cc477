"""`--adaptive` of `advisor sweep plan` and `run`: sweeps that plan themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.units import format_counted, format_usd
from sweeps.planning.plan import USUAL_TRIAL_SECONDS

if TYPE_CHECKING:
    from advisor.runs.adaptive import AdaptiveSweep, Standing

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--adaptive", is_flag=True,
        help="Choose the trials that tell most, and stop when they tell enough.",
    ),
    click.option(
        "--budget", metavar="AMOUNT",
        help="Of --adaptive: 30trials, 2h, 90min, 5USD; of --on aws: 5USD.",
    ),
    click.option(
        "--target-throughput", metavar="RATE",
        help="Of --adaptive: learn which spec is the cheapest to reach so many samples/s.",
    ),
)  # fmt: skip


def adaptive_options(command: Command) -> Command:
    """Add the options to a command; it receives them under their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def forecast(sweep: AdaptiveSweep, standing: Standing) -> dict[str, Any]:
    """What is left at most: trials, minutes and dollars (None: no price is known)."""
    done = len(standing.done)
    each = standing.spent_seconds / done if done else USUAL_TRIAL_SECONDS
    open_trials = len(sweep.trials) - len({item.trial.trial_id for item in standing.done})
    most = min(open_trials, sweep.budget.trials_left(done, standing.spent_seconds, each))
    if not standing.next:
        most = 0
    hourly = sweep.budget.usd_per_hour
    hours = most * each / 3600
    return {
        "most_trials": most,
        "most_minutes": round(60 * hours, 1),
        "most_usd": None if hourly is None else round(hours * hourly, 4),
    }


def standing_document(sweep: AdaptiveSweep, standing: Standing) -> dict[str, Any]:
    """Where a sweep stands, for JSON."""
    return {
        "budget": sweep.budget.text,
        "candidates": len(sweep.trials),
        "refused_for_memory": len(sweep.refused),
        "done": len(standing.done),
        "doubt": None if standing.doubt is None else round(standing.doubt, 5),
        "doubt_is": "expected_price_regret" if sweep.target else "expected_surface_error",
        "spent_seconds": round(standing.spent_seconds, 1),
        "stopped": standing.stopped,
        **forecast(sweep, standing),
    }


def plan_lines(sweep: AdaptiveSweep, standing: Standing) -> list[str]:
    """What follows the table of a plan."""
    known = format_counted(len(sweep.trials), "trial")
    lines = [f"{format_counted(len(standing.next), 'trial')} next, of {known} to choose from."]
    if standing.stopped:
        lines = [f"Nothing next: {standing.stopped}."]
    if standing.done:
        lines.append(f"{len(standing.done)} done; {doubt_text(sweep, standing)}.")
    elif standing.next:
        lines.append(
            "They tell most of the model's parameters (D-optimal); the rest depends on them."
        )
    if sweep.refused:
        refused = format_counted(len(sweep.refused), "trial")
        lines.append(f"{refused} left out: they surely lack memory.")
    if standing.next:
        lines.append(_most_text(forecast(sweep, standing)))
    return lines


def doubt_text(sweep: AdaptiveSweep, standing: Standing) -> str:
    """'the surface is known to 4.2 %'."""
    if standing.doubt is None:
        return "nothing is known yet"
    percent = f"{100 * standing.doubt:.1f} %"
    if sweep.target:
        return f"the choice is expected to cost {percent} too much"
    return f"the surface is known to {percent}"


def _most_text(most: Mapping[str, Any]) -> str:
    minutes = f"about {math.ceil(most['most_minutes'])} min"
    cost = "" if most["most_usd"] is None else f", {format_usd(most['most_usd'])}"
    return f"At most {format_counted(most['most_trials'], 'trial')}, {minutes}{cost}."
