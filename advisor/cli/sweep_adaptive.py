"""Sweeps that plan themselves: their options, their runs, what they print."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from advisor.cli.sweep_view import COLUMNS, RIGHT, cells_of, print_json, print_trials, raise_failures
from advisor.domain import Trial
from advisor.render.text import table
from advisor.runs.adaptive.planning import adaptive_from
from advisor.runs.adaptive.running import run_adaptive
from advisor.runs.sweep_questions import PlannedSweep, SweepRun
from advisor.runs.sweeps.status import shown_rows, trial_document
from advisor.sweeps.planning.plan import usual_seconds
from advisor.sweeps.quality.issues import is_stale
from advisor.units import format_counted, format_usd

if TYPE_CHECKING:
    from advisor.runs.adaptive.planning import AdaptiveSweep, SweepStatus
    from advisor.sweeps.driver.runner import Progress
    from advisor.sweeps.measurement_store import MeasurementStore


def forecast(sweep: AdaptiveSweep, status: SweepStatus) -> dict[str, Any]:
    """What is left at most: trials, minutes and dollars (None: no price is known)."""
    done = len(status.done)
    each = status.spent_seconds / done if done else usual_seconds(*sweep.trials)
    open_trials = len(sweep.trials) - len({item.trial.trial_id for item in status.done})
    most = min(open_trials, sweep.budget.trials_left(done, status.spent_seconds, each))
    if not status.next:
        most = 0
    hourly = sweep.budget.usd_per_hour
    hours = most * each / 3600
    return {
        "most_trials": most,
        "most_minutes": round(60 * hours, 1),
        "most_usd": None if hourly is None else round(hours * hourly, 4),
    }


def status_document(sweep: AdaptiveSweep, status: SweepStatus) -> dict[str, Any]:
    """Where a sweep stands, for JSON."""
    return {
        "budget": sweep.budget.text,
        "candidates": len(sweep.trials),
        "refused_for_memory": len(sweep.refused),
        "done": len(status.done),
        "doubt": None if status.doubt is None else round(status.doubt, 5),
        "doubt_is": "expected_price_regret" if sweep.target else "expected_surface_error",
        "spent_seconds": round(status.spent_seconds, 1),
        "stopped": status.stopped,
        **forecast(sweep, status),
    }


def plan_lines(sweep: AdaptiveSweep, status: SweepStatus) -> list[str]:
    """What follows the table of a plan."""
    counted = format_counted(len(sweep.trials), "trial")
    lines = [f"{format_counted(len(status.next), 'trial')} next, of {counted} to choose from."]
    if status.stopped:
        lines = [f"Nothing next: {status.stopped}."]
    if status.done:
        lines.append(f"{len(status.done)} done; {doubt_text(sweep, status)}.")
    elif status.next:
        lines.append("They tell most of the model's parameters (D-optimal); the rest depends on them.")
    if sweep.refused:
        refused = format_counted(len(sweep.refused), "trial")
        lines.append(f"{refused} left out: they lack memory.")
    if status.next:
        lines.append(_most_text(forecast(sweep, status)))
    return lines


def doubt_text(sweep: AdaptiveSweep, status: SweepStatus) -> str:
    """'the surface is known to 4.2 %'."""
    if status.doubt is None:
        return "nothing is known yet"
    percent = f"{100 * status.doubt:.1f} %"
    if sweep.target:
        return f"the choice is expected to cost {percent} too much"
    return f"the surface is known to {percent}"


def _most_text(most: Mapping[str, Any]) -> str:
    minutes = f"about {math.ceil(most['most_minutes'])} min"
    cost = "" if most["most_usd"] is None else f", {format_usd(most['most_usd'])}"
    return f"At most {format_counted(most['most_trials'], 'trial')}, {minutes}{cost}."


def plan_adaptively(trials: Sequence[Trial], question: PlannedSweep, output: str) -> None:
    """Show the trials that come next after what is stored."""
    from advisor.store.measurements import open_store
    from advisor.sweeps.driver.runner import current_rows

    sweep = adaptive_from(trials, question)
    with closing(open_store(reading=True)) as store:
        status = sweep.status(current_rows(sweep.trials, store))
    planned = [item.trial for item in status.next]
    if output == "json":
        documents = [trial_document(trial) for trial in planned]
        print_json("advisor.adaptive-plan/1", **status_document(sweep, status), next=documents)
        return
    if planned:
        click.echo("\n".join(table(COLUMNS, [cells_of(trial) for trial in planned], right=RIGHT)) + "\n")
    click.echo("\n".join(plan_lines(sweep, status)))


class AdaptiveRun(NamedTuple):
    """A sweep that has stopped, where it stands, and the trials that were done before."""

    sweep: AdaptiveSweep
    status: SweepStatus
    before: Set[str]


def run_adaptively(
    trials: Sequence[Trial],
    question: SweepRun,
    store: MeasurementStore,
    on_progress: Callable[[Progress], None],
    since: datetime | None,
) -> AdaptiveRun:
    """Measure what tells most; after each batch tell on stderr how well the answer is known."""
    sweep = adaptive_from(trials, question)
    before = {name for name, summary in store.summaries().items() if not is_stale(summary.started_at, since)}

    def show_batch(status: SweepStatus) -> None:
        if status.done:
            click.echo(f"{len(status.done)} done; {doubt_text(sweep, status)}", err=True)

    status = run_adaptive(
        sweep,
        store,
        executor=question.executor,
        ray_address=question.ray_address,
        on_progress=on_progress,
        on_batch=show_batch,
        since=since,
    )
    return AdaptiveRun(sweep, status, before)


def print_adaptive(run: AdaptiveRun, store: MeasurementStore, output: str) -> None:
    """What was measured and how well the answer is known; raises where trials failed now."""
    from advisor.sweeps.driver.runner import Outcome

    sweep, status, before = run
    done = list({item.trial.trial_id: item.trial for item in status.done}.values())
    rows, _ = shown_rows(store, done)
    new = [trial.trial_id for trial in done if trial.trial_id not in before]
    stands = status_document(sweep, status)
    facts = {} if output == "table" else {"measured_now": len(new), **stands}
    print_trials(output, "advisor.adaptive-run/1", done, rows, **facts)
    if output == "table":
        click.echo(f"Stopped: {status.stopped}; {doubt_text(sweep, status)}.")
    outcome = Outcome()
    for name in new:
        outcome.count(rows[name])
    # A sweep that plans itself goes on past failures: it never measures them again.
    raise_failures(outcome, "describe those trials to `sweep run` without --adaptive, with")
