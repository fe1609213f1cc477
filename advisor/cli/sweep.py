"""`advisor sweep`: the commands `plan`, `run` and `list`. The others are in `sweep_status`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import sweep_view
from advisor.cli.main import leaving_cleanly
from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import SectionedCommand, output_option, question_options, typed_option
from advisor.cli.sweep_status import log, status, stop
from advisor.domain import Measurement, Trial
from advisor.messages import format_counted, format_usd
from advisor.runs.adaptive import adaptive_from, run_adaptive
from advisor.runs.fields import Moment
from advisor.runs.sweep_questions import PlannedSweep, SweepGrid, SweepRun, Watching
from advisor.runs.sweeps.data import planned_data, prepared_data
from advisor.runs.sweeps.status import driving, shown_rows, trial_document, watched
from advisor.runs.sweeps.sweeping import execute_sweep, executor_name, host_usd_per_hour, plan_sweep
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.planning.plan import usual_seconds, wanted_runs
from advisor.sweeps.quality.issues import is_stale
from advisor.sweeps.watching.progress import HERE

if TYPE_CHECKING:
    from advisor.runs.adaptive import AdaptiveSweep, SweepStatus
    from advisor.sweeps.measurement_store import MeasurementStore
    from advisor.sweeps.run.runner import Progress

_KEPT = "interrupted; what was measured is stored; the same command goes on"
# Printed if the advisor chose the executor.
_EXECUTORS = {
    "process": "one trial at a time, each in a process: with one GPU or none, Ray brings nothing",
    "ray": "trials run side by side, placed by Ray",
}


class GridCommand(SectionedCommand):
    """A command on a grid of trials; its short help lists the options that are most used for grids."""

    usual = (
        *("preset", "networks", "tasks", "vcpus", "memory", "disks", "accelerator", "batch_sizes", "data"),
        *("precision", "adaptive", "budget", "on", "dry_run", "instance", "output"),
    )


@click.group()
def sweep() -> None:
    """Measure workloads on this machine under the limits of smaller ones.

    \b
    advisor sweep run --preset small
    advisor sweep run --networks googlenet --tasks inference --vcpus 0.5,1,2 \\
                      --memory 2GiB,4GiB --disks gp3,st1:500GiB --accelerator emulated:T4"""


for _command in (status, stop, log):
    sweep.add_command(_command)
with suppress(ModuleNotFoundError):  # only a checkout has it, not the wheel
    from advisor.infra.build.search.command import simulate

    sweep.add_command(simulate)


@sweep.command(cls=GridCommand)
@question_options(PlannedSweep)
@output_option
def plan(question: PlannedSweep, output: str) -> None:
    """Show the trials that `run` would measure; measures nothing.

    \b
    advisor sweep plan --preset small
    advisor sweep plan --networks googlenet --tasks inference --vcpus 1,2 --memory 4GiB --disks gp3

    A sweep needs --preset, or all of --networks, --tasks, --vcpus, --memory and --disks.
    What `run` would rent on AWS: advisor sweep run .. --on aws --dry-run"""
    hourly = host_usd_per_hour(question)
    with sweep_view.dataset_progress("fetching", "files") as fetching:
        data = planned_data(question, fetching)
    trials = plan_sweep(question, data)
    if question.adaptive:
        _plan_adaptively(trials, question, output)
    else:
        document = {"schema": "advisor.sweep-plan/1", "trials": list(map(trial_document, trials))}
        print_answer(
            output, document, lambda: [*sweep_view.trial_table(trials), "", _forecast(trials, hourly)]
        )


def _forecast(trials: Sequence[Trial], usd_per_hour: float | None) -> str:
    counted = format_counted(len(trials), "trial")
    runs = sum(map(wanted_runs, trials))
    if runs > len(trials):
        counted += f" in {format_counted(runs, 'run')}"
    if any("iterations" in trial.plan for trial in trials):
        return f"{counted}; --iterations has each take as long as its steps do."
    minutes = math.ceil(runs * usual_seconds(*trials) / 60)
    cost = "" if usd_per_hour is None else f", {format_usd(usd_per_hour * minutes / 60)}"
    return f"{counted}, about {minutes} min{cost} on a quiet machine."


@sweep.command(cls=GridCommand)
@question_options(SweepRun)
@question_options(Watching, "watching")
@typed_option(
    Moment(),
    "--fresh-since",
    envvar="ADVISOR_FRESH_SINCE",
    show_envvar=True,
    help="Repeat trials measured before this time: 2026-11-21T03:00Z.",
)
@output_option
def run(question: SweepRun, watching: Watching, fresh_since: datetime | None, output: str) -> int:
    """Measure the trials that are not measured yet. Run the same command again to continue.

    It needs --preset, or all of --networks, --tasks, --vcpus, --memory and --disks; with --on aws also
    --instance and --budget."""
    if question.on_aws:
        from advisor.cli.sweep_cloud import run_on_aws

        watching.refuse_elsewhere()
        return run_on_aws(question, fresh_since, output)
    _run_here(question, watching, fresh_since, output)
    return 0


def _run_here(question: SweepRun, watching: Watching, fresh_since: datetime | None, output: str) -> None:
    from advisor.store.measurements import open_store

    with leaving_cleanly(lambda: _KEPT), closing(open_store()) as store, driving(store.identity):
        with _followed(question, watching, store.name) as (trials, following):
            if question.adaptive:
                ended = _run_adaptively(trials, question, store, following, fresh_since)
            else:
                outcome = execute_sweep(trials, question, store, on_progress=following, since=fresh_since)
        if question.adaptive:
            _print_adaptive(*ended, store, output)
            return
        rows, unreadable = shown_rows(store, trials)
    sweep_view.print_damaged(unreadable)
    counts = {"measured_now": outcome.measured, "usable_now": outcome.usable}
    sweep_view.print_trials(output, "advisor.sweep-run/1", trials, rows, **counts)
    sweep_view.raise_failures(outcome)
    sweep_view.fail_if_damaged(unreadable)


@contextmanager
def _followed(
    question: SweepRun, watching: Watching, database: str
) -> Iterator[tuple[list[Trial], Callable[[Progress], None]]]:
    """Prepare a sweep's data; yield its trials and a function that takes progress, shows and publishes it."""
    where = "" if question.ray_address else HERE
    with watched(watching, usd_per_hour=host_usd_per_hour(question), where=where) as watch:
        if watch.address:
            tell(f"metrics at {watch.address}")
        doing = ("fetching", "files") if is_address(question.data or "") else ("making", "images")
        with sweep_view.dataset_progress(*doing) as making:
            data = prepared_data(question, making)
        trials = plan_sweep(question, data)
        executor = executor_name(question.executor, question.ray_address, trials)
        if not question.executor:
            tell(_EXECUTORS[executor])
        watch.planned(trials, executor=executor, database=database)
        with sweep_view.trial_progress(watch.tally) as show:
            yield trials, watch.following(show)


@sweep.command("list", cls=GridCommand)
@question_options(SweepGrid)
@output_option
def list_(question: SweepGrid, output: str) -> None:
    """List the trials of a sweep, or of the whole store, with state and rate."""
    with sweep_view.stored_measurements() as stored:
        rows: dict[str, Measurement] = {row.trial.trial_id: row for row in stored}
        trials = [row.trial for row in rows.values()]
        if not question.is_empty:
            trials = plan_sweep(question, planned_data(question))
        sweep_view.print_trials(output, "advisor.sweep-list/1", trials, rows)


def _most_left(sweep: AdaptiveSweep, status: SweepStatus) -> dict[str, Any]:
    """Upper bounds of the remaining trials, minutes and USD (None if the machine has no known price)."""
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


def _status_document(sweep: AdaptiveSweep, status: SweepStatus) -> dict[str, Any]:
    return {
        "budget": sweep.budget.text,
        "candidates": len(sweep.trials),
        "refused_for_memory": len(sweep.refused),
        "done": len(status.done),
        "doubt": None if status.doubt is None else round(status.doubt, 5),
        "doubt_is": "expected_price_regret" if sweep.target else "expected_surface_error",
        "spent_seconds": round(status.spent_seconds, 1),
        "stopped": status.stopped,
        **_most_left(sweep, status),
    }


def _plan_lines(sweep: AdaptiveSweep, status: SweepStatus) -> list[str]:
    counted = format_counted(len(sweep.trials), "trial")
    lines = [f"{format_counted(len(status.next), 'trial')} next, of {counted} to choose from."]
    if status.stopped:
        lines = [f"Nothing next: {status.stopped}."]
    if status.done:
        lines.append(f"{len(status.done)} done; {_doubt_text(sweep, status)}.")
    elif status.next:
        lines.append("They tell most of the rates beforehand; the rest depends on them.")
    if sweep.refused:
        lines.append(f"{format_counted(len(sweep.refused), 'trial')} left out: they lack memory.")
    if status.next:
        most = _most_left(sweep, status)
        cost = "" if most["most_usd"] is None else f", {format_usd(most['most_usd'])}"
        counted = format_counted(most["most_trials"], "trial")
        lines.append(f"At most {counted}, about {math.ceil(most['most_minutes'])} min{cost}.")
    return lines


def _doubt_text(sweep: AdaptiveSweep, status: SweepStatus) -> str:
    """How well the answer is known, such as 'the surface is known to 4.2 %'."""
    if status.doubt is None:
        return "nothing is known yet"
    percent = f"{100 * status.doubt:.1f} %"
    if sweep.target:
        return f"the choice is expected to cost {percent} too much"
    return f"the surface is known to {percent}"


def _plan_adaptively(trials: Sequence[Trial], question: PlannedSweep, output: str) -> None:
    """Print the trials that an adaptive sweep would measure next, given the stored measurements."""
    from advisor.store.measurements import open_store
    from advisor.sweeps.run.runner import current_rows

    sweep = adaptive_from(trials, question)
    with closing(open_store(reading=True)) as store:
        status = sweep.status(current_rows(sweep.trials, store))
    planned = [item.trial for item in status.next]
    document = {"schema": "advisor.adaptive-plan/1", **_status_document(sweep, status)}
    document["next"] = list(map(trial_document, planned))
    shown = [*sweep_view.trial_table(planned), ""] if planned else []
    print_answer(output, document, lambda: [*shown, *_plan_lines(sweep, status)])


def _run_adaptively(
    trials: Sequence[Trial],
    question: SweepRun,
    store: MeasurementStore,
    on_progress: Callable[[Progress], None],
    since: datetime | None,
) -> tuple[AdaptiveSweep, SweepStatus, Set[str]]:
    """Measure the most informative trials in batches; after each, print on stderr how well the answer is
    known. Returns the sweep, its final status, and the ids of trials that had been measured before."""
    sweep = adaptive_from(trials, question)
    before = {name for name, summary in store.summaries().items() if not is_stale(summary.started_at, since)}

    def show_batch(status: SweepStatus) -> None:
        if status.done:
            tell(f"{len(status.done)} done; {_doubt_text(sweep, status)}")

    status = run_adaptive(sweep, question, store, on_progress=on_progress, on_batch=show_batch, since=since)
    return sweep, status, before


def _print_adaptive(
    sweep: AdaptiveSweep, status: SweepStatus, before: Set[str], store: MeasurementStore, output: str
) -> None:
    """Print the measurements and how well the answer is known; raise `MeasuringError` if trials failed."""
    from advisor.sweeps.run.runner import Outcome

    done = list({item.trial.trial_id: item.trial for item in status.done}.values())
    rows, _ = shown_rows(store, done)
    new = [trial.trial_id for trial in done if trial.trial_id not in before]
    facts = {} if output == "table" else {"measured_now": len(new), **_status_document(sweep, status)}
    sweep_view.print_trials(output, "advisor.adaptive-run/1", done, rows, **facts)
    if output == "table":
        click.echo(f"Stopped: {status.stopped}; {_doubt_text(sweep, status)}.")
    outcome = Outcome()
    for name in new:
        outcome.count(rows[name].status, rows[name].reason)
    # An adaptive sweep never measures failed trials again.
    sweep_view.raise_failures(outcome, "describe those trials to `sweep run` without --adaptive, with")
