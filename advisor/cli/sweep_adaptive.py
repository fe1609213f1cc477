"""Sweeps that plan themselves: their options, their runs, what they print."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer, tell
from advisor.cli.sweep_view import print_trials, raise_failures, trial_table
from advisor.domain import Trial
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


def _plan_lines(sweep: AdaptiveSweep, status: SweepStatus) -> list[str]:
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
        most = forecast(sweep, status)
        cost = "" if most["most_usd"] is None else f", {format_usd(most['most_usd'])}"
        counted = format_counted(most["most_trials"], "trial")
        lines.append(f"At most {counted}, about {math.ceil(most['most_minutes'])} min{cost}.")
    return lines


def doubt_text(sweep: AdaptiveSweep, status: SweepStatus) -> str:
    """'the surface is known to 4.2 %'."""
    if status.doubt is None:
        return "nothing is known yet"
    percent = f"{100 * status.doubt:.1f} %"
    if sweep.target:
        return f"the choice is expected to cost {percent} too much"
    return f"the surface is known to {percent}"


def plan_adaptively(trials: Sequence[Trial], question: PlannedSweep, output: str) -> None:
    """Show the trials that come next after what is stored."""
    from advisor.store.measurements import open_store
    from advisor.sweeps.driver.runner import current_rows

    sweep = adaptive_from(trials, question)
    with closing(open_store(reading=True)) as store:
        status = sweep.status(current_rows(sweep.trials, store))
    planned = [item.trial for item in status.next]
    document = {"schema": "advisor.adaptive-plan/1", **status_document(sweep, status)}
    document["next"] = list(map(trial_document, planned))
    shown = [*trial_table(planned), ""] if planned else []
    print_answer(output, document, lambda: [*shown, *_plan_lines(sweep, status)])


def run_adaptively(
    trials: Sequence[Trial],
    question: SweepRun,
    store: MeasurementStore,
    on_progress: Callable[[Progress], None],
    since: datetime | None,
) -> tuple[AdaptiveSweep, SweepStatus, Set[str]]:
    """Measure what tells most; after each batch tell on stderr how well the answer is known. Returns the
    sweep that has stopped, where it stands, and the trials that were done before."""
    sweep = adaptive_from(trials, question)
    before = {name for name, summary in store.summaries().items() if not is_stale(summary.started_at, since)}

    def show_batch(status: SweepStatus) -> None:
        if status.done:
            tell(f"{len(status.done)} done; {doubt_text(sweep, status)}")

    status = run_adaptive(
        sweep,
        store,
        executor=question.executor,
        ray_address=question.ray_address,
        on_progress=on_progress,
        on_batch=show_batch,
        since=since,
    )
    return sweep, status, before


def print_adaptive(
    sweep: AdaptiveSweep, status: SweepStatus, before: Set[str], store: MeasurementStore, output: str
) -> None:
    """What was measured and how well the answer is known; raises where trials failed now."""
    from advisor.sweeps.driver.runner import Outcome

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
