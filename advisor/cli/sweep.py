"""`advisor sweep`: plan, run, list; `status`, `log` and `simulate` have files of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.host_price import host_price_options
from advisor.cli.questions import Instant, Name
from advisor.cli.stored import fail_if_damaged, print_damaged, stored_measurements
from advisor.cli.sweep_adaptive import (
    adaptive_options,
    plan_adaptively,
    print_adaptive,
    run_adaptively,
)
from advisor.cli.sweep_cloud import cloud_options
from advisor.cli.sweep_options import sweep_options, watch_options, watched_sweep
from advisor.cli.sweep_simulate import simulate
from advisor.cli.sweep_status import log, status
from advisor.cli.sweep_view import (
    COLUMNS,
    RIGHT,
    cells_of,
    print_json,
    print_trials,
    raise_failures,
)
from advisor.domain import Measurement, Trial
from advisor.render.text import table
from advisor.runs.adaptive.request import checked_answers, refuse_without_adaptive, split_answers
from advisor.runs.cloud.request import refuse_without_aws, split_cloud
from advisor.runs.host_price import host_usd_per_hour
from advisor.runs.sweeps.data import planned_data, prepared_data
from advisor.runs.sweeps.request import asked_for_nothing, options_from
from advisor.runs.sweeps.status import shown_rows, trial_document
from advisor.runs.sweeps.sweeping import (
    EXECUTORS,
    SweepOptions,
    execute_sweep,
    plan_sweep,
)
from advisor.units import format_counted, format_usd
from sweeps.planning.plan import USUAL_TRIAL_SECONDS
from sweeps.planning.repeating import wanted_runs

if TYPE_CHECKING:
    from advisor.cli.sweep_view import Kept
    from advisor.runs.sweeps.watching import WatchOptions
    from sweeps.driver.runner import Progress

_output_option = click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip


@click.group()
def sweep() -> None:
    """Measure workloads on this machine under the limits of smaller ones.

    \b
    advisor sweep run --preset small
    advisor sweep run --networks googlenet --tasks inference --vcpus 0.5,1,2 \\
                      --memory 2GiB,4GiB --disks gp3,st1:500GiB --accelerator emulated:T4
    """


for _command in (status, log, simulate):
    sweep.add_command(_command)


@sweep.command()
@sweep_options
@adaptive_options
@host_price_options
@_output_option
def plan(output: str, **answers: Any) -> None:
    """Show the trials that `run` would measure; measures nothing."""
    grid, adaptive = split_answers(answers)
    refuse_without_adaptive(adaptive)
    options, hourly = options_from(grid), host_usd_per_hour(adaptive)
    data = planned_data(options)
    trials = plan_sweep(options, data)
    if adaptive["adaptive"]:
        plan_adaptively(trials, adaptive, output)
    else:
        _print_plan(trials, hourly, output)
    if output == "table" and not all(Path(one.path).exists() for one in data.stored):
        click.echo("The data set is made first, once: a minute more; it settles the trials' ids.")


def _print_plan(trials: Sequence[Trial], hourly: float | None, output: str) -> None:
    if output == "json":
        print_json("advisor.sweep-plan/1", trials=[trial_document(trial) for trial in trials])
        return
    click.echo("\n".join(table(COLUMNS, [cells_of(trial) for trial in trials], right=RIGHT)))
    click.echo(f"\n{_forecast(trials, hourly)}")


def _forecast(trials: Sequence[Trial], usd_per_hour: float | None) -> str:
    """How many runs, how long they take and what that costs."""
    counted = format_counted(len(trials), "trial")
    runs = sum(map(wanted_runs, trials))
    if runs > len(trials):
        counted += f" in {format_counted(runs, 'run')}"
    if any("iterations" in trial.plan for trial in trials):
        return f"{counted}; --iterations has each take as long as its steps do."
    minutes = math.ceil(runs * USUAL_TRIAL_SECONDS / 60)
    cost = "" if usd_per_hour is None else f", {format_usd(usd_per_hour * minutes / 60)}"
    return f"{counted}, about {minutes} min{cost} on a quiet machine."


@sweep.command()
@sweep_options
@adaptive_options
@host_price_options
@click.option(
    "--executor", type=Name("executor", EXECUTORS), default="ray", show_default=True,
    help="How trials run; inline is for debugging (no limits, never fitted).",
)  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Repeat failed and contaminated trials.")
@click.option(
    "--fresh-since", type=Instant("--fresh-since (or ADVISOR_FRESH_SINCE)"),
    envvar="ADVISOR_FRESH_SINCE", show_envvar=True,
    help="Repeat trials measured before this time: 2026-11-21T03:00Z.",
)  # fmt: skip
@cloud_options
@watch_options
@_output_option
def run(
    output: str, executor: str, retry_failed: bool, fresh_since: datetime | None, **answers: Any
) -> int:
    """Measure the trials that are not measured yet. Run the same command again to continue."""
    answers, cloud = split_cloud(answers)
    if cloud["on"] == "aws":
        from advisor.cli.sweep_cloud import run_on_aws

        there = {
            **answers, "executor": executor, "retry_failed": retry_failed,
            "fresh_since": fresh_since,
        }  # fmt: skip
        return run_on_aws(output, there, cloud)
    refuse_without_aws(cloud)
    _run_here(output, executor, retry_failed, fresh_since, answers)
    return 0


def _run_here(
    output: str,
    executor: str,
    retry_failed: bool,
    fresh_since: datetime | None,
    answers: dict[str, Any],
) -> None:
    from advisor.cli.leaving import leaving_cleanly
    from advisor.cli.sweep_view import Kept
    from sweeps.store import open_store

    options, watching, adaptive = checked_answers(answers, retry_failed=retry_failed)
    address, kept = options.ray_address, Kept(adaptive=bool(adaptive["adaptive"]))
    with leaving_cleanly(kept.words), closing(open_store()) as store:
        with _followed(options, watching, kept, executor, store.name) as (trials, following):
            if adaptive["adaptive"]:
                ended = run_adaptively(
                    trials, adaptive, store, executor=executor, ray_address=address,
                    on_progress=following, since=fresh_since,
                )  # fmt: skip
            else:
                outcome = execute_sweep(
                    trials, store, executor=executor, ray_address=address,
                    retry_failed=retry_failed, on_progress=following, since=fresh_since,
                )  # fmt: skip
        if adaptive["adaptive"]:
            print_adaptive(ended, store, output)
            return
        rows, unreadable = shown_rows(store, trials)
    print_damaged(unreadable)
    print_trials(output, "advisor.sweep-run/1", trials, rows, measured_now=outcome.measured)
    raise_failures(outcome)
    fail_if_damaged(unreadable)


@contextmanager
def _followed(
    options: SweepOptions, watching: WatchOptions, kept: Kept, executor: str, database: str
) -> Iterator[tuple[list[Trial], Callable[[Progress], None]]]:
    """The trials of a described sweep, whose data are there now, and what its progress is to be
    told to; the sweep is watched meanwhile."""
    from advisor.cli.sweep_view import dataset_progress, trial_progress

    with watched_sweep(watching, options.ray_address) as watch:
        with dataset_progress() as making:
            data = prepared_data(options, making)
        trials = plan_sweep(options, data)
        watch.planned(trials, executor=executor, database=database)
        with trial_progress(watch.tally) as told:
            yield trials, watch.following(kept.noting(told))


@sweep.command("list")
@sweep_options
@_output_option
def list_(output: str, **answers: Any) -> None:
    """List the trials of a sweep, or of the whole store, with state and rate."""
    with _known(answers) as (trials, rows):
        print_trials(output, "advisor.sweep-list/1", trials, rows)


@contextmanager
def _known(answers: dict[str, Any]) -> Iterator[tuple[list[Trial], dict[str, Measurement]]]:
    """The trials asked about (by default all that are stored), and the rows of the store."""
    with stored_measurements() as found:
        rows = {row.trial.trial_id: row for row in found}
        if asked_for_nothing(answers):
            yield [row.trial for row in rows.values()], rows
            return
        options = options_from(answers)
        yield plan_sweep(options, planned_data(options)), rows
