"""`advisor sweep`: plan, run, status, list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.parameters import Name
from advisor.cli.stored import fail_if_damaged, stored_measurements, tell_damaged
from advisor.cli.sweep_adaptive import (
    adaptive_from,
    adaptive_options,
    doubt_text,
    plan_lines,
    refuse_without_adaptive,
    split_answers,
    standing_document,
)
from advisor.cli.sweep_options import asked_for_nothing, options_from, sweep_options
from advisor.cli.sweep_rows import Shown, shown_rows
from advisor.cli.sweep_simulate import simulate
from advisor.domain import Measurement, Trial
from advisor.errors import MeasuringError, UsageError
from advisor.operations.sweep_data import planned_data, prepared_data
from advisor.operations.sweeping import (
    EXECUTORS,
    execute_sweep,
    plan_sweep,
)
from advisor.report.text import table
from advisor.units import format_mib, format_rate
from sweeps.serialization import trial_to_dict

if TYPE_CHECKING:
    from sweeps.runner import Outcome
    from sweeps.store import MeasurementStore

_WAITING = "waiting"
_SECONDS_A_TRIAL = 15  # start-up, page cache, drained batches, the usual time box, the stages
_output_option = click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True,
)  # fmt: skip


@click.group()
def sweep() -> None:
    """Measure workloads on this machine, held to the resources of smaller ones.

    \b
    advisor sweep run --preset small
    advisor sweep run --networks googlenet --tasks inference --vcpus 0.5,1,2 \\
                      --memory 2GiB,4GiB --disks gp3,st1:500GiB --accelerator emulated:T4
    """


sweep.add_command(simulate)


@sweep.command()
@sweep_options
@adaptive_options
@_output_option
def plan(output: str, **answers: Any) -> None:
    """Show the trials that `run` would measure; nothing is measured or made."""
    grid, adaptive = split_answers(answers)
    refuse_without_adaptive(adaptive)
    options = options_from(grid)
    trials = plan_sweep(options, planned_data(options))
    if adaptive["adaptive"]:
        _plan_adaptively(trials, adaptive, output)
        return
    if output == "json":
        _print_json("advisor.sweep-plan/1", trials=[_trial_document(trial) for trial in trials])
        return
    click.echo("\n".join(table(_COLUMNS, [_cells(trial) for trial in trials], right=_RIGHT)))
    minutes = -(-len(trials) * _SECONDS_A_TRIAL // 60)
    counted = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
    click.echo(f"\n{counted}, about {minutes} min on a quiet machine.")


def _plan_adaptively(trials: Sequence[Trial], asked: dict[str, Any], output: str) -> None:
    from sweeps.runner import known_rows
    from sweeps.store import open_store

    sweep = adaptive_from(trials, asked)
    with closing(open_store(reading=True)) as store:
        standing = sweep.standing(known_rows(sweep.trials, store))
    planned = [item.trial for item in standing.next]
    if output == "json":
        documents = [_trial_document(trial) for trial in planned]
        _print_json("advisor.adaptive-plan/1", **standing_document(sweep, standing), next=documents)
        return
    if planned:
        click.echo(
            "\n".join(table(_COLUMNS, [_cells(one) for one in planned], right=_RIGHT)) + "\n"
        )
    click.echo("\n".join(plan_lines(sweep, standing)))


@sweep.command()
@sweep_options
@adaptive_options
@click.option(
    "--executor", type=Name("executor", EXECUTORS), default="ray", show_default=True,
    help="inline is for debugging: without limits, never fitted.",
)  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Measure failed and contaminated trials again.")
@_output_option
def run(output: str, executor: str, retry_failed: bool, **answers: Any) -> None:
    """Measure what is not measured yet; the same command again goes on where it stopped."""
    from advisor.cli.leaving import leaving_cleanly
    from advisor.cli.sweep_progress import Kept, dataset_progress, trial_progress
    from sweeps.store import open_store

    grid, adaptive = split_answers(answers)
    refuse_without_adaptive(adaptive)
    if adaptive["adaptive"] and retry_failed:
        raise UsageError("--adaptive goes on past failures; leave --retry-failed out")
    options, kept = options_from(grid), Kept(adaptive=bool(adaptive["adaptive"]))
    with leaving_cleanly(kept.words), closing(open_store()) as store:
        with dataset_progress() as making:
            data = prepared_data(options, making)
        trials = plan_sweep(options, data)
        if adaptive["adaptive"]:
            _run_adaptively(trials, adaptive, store, output, executor, options.ray_address)
            return
        with trial_progress() as told:
            outcome = execute_sweep(
                trials, store, executor=executor, ray_address=options.ray_address,
                retry_failed=retry_failed, on_progress=kept.noting(told),
            )  # fmt: skip
        rows, unreadable = shown_rows(store, trials)
    tell_damaged(unreadable)
    _print_trials(output, "advisor.sweep-run/1", trials, rows, measured_now=outcome.measured)
    _tell_failures(outcome)
    fail_if_damaged(unreadable)


def _run_adaptively(
    trials: Sequence[Trial],
    asked: dict[str, Any],
    store: MeasurementStore,
    output: str,
    executor: str,
    ray_address: str | None,
) -> None:
    from advisor.cli.sweep_progress import trial_progress
    from advisor.operations.adaptive import Standing, run_adaptive
    from sweeps.runner import Outcome

    sweep = adaptive_from(trials, asked)
    before = store.statuses()

    def tell(standing: Standing) -> None:
        if standing.done:
            click.echo(f"{len(standing.done)} done; {doubt_text(sweep, standing)}", err=True)

    with trial_progress() as told:
        standing = run_adaptive(
            sweep, store, executor=executor, ray_address=ray_address, on_progress=told,
            on_batch=tell,
        )  # fmt: skip
    rows, _ = shown_rows(store, trials)
    done = list({item.trial.trial_id: item.trial for item in standing.done}.values())
    new = sum(one.trial_id not in before for one in done)
    facts = {} if output == "table" else {"measured_now": new, **standing_document(sweep, standing)}
    _print_trials(output, "advisor.adaptive-run/1", done, rows, **facts)
    if output == "table":
        click.echo(f"Stopped: {standing.stopped}; {doubt_text(sweep, standing)}.")
    outcome = Outcome()
    for one in done:
        if one.trial_id not in before:
            outcome.count(rows[one.trial_id])
    _tell_failures(outcome)


@sweep.command()
@sweep_options
@_output_option
def status(output: str, **answers: Any) -> None:
    """How many trials are measured, by how they ended; of a described sweep, or of all."""
    with _known(answers) as (trials, rows):
        counts = Counter(_state(trial, rows) for trial in trials)
        if output == "json":
            _print_json("advisor.sweep-status/1", trials=len(trials), counts=dict(counts))
            return
        click.echo(f"{len(trials)} trials")
        for state, count in counts.most_common():
            click.echo(f"{count:6}  {state.replace('_', ' ')}")


@sweep.command("list")
@sweep_options
@_output_option
def list_(output: str, **answers: Any) -> None:
    """The trials of a described sweep, or of all, each with its state and rate."""
    with _known(answers) as (trials, rows):
        _print_trials(output, "advisor.sweep-list/1", trials, rows)


_COLUMNS = ("trial", "network", "task", "accelerator", "batch", "vcpus", "memory", "disk", "cache")
_RIGHT = (4, 5, 6)


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


def _tell_failures(outcome: Outcome) -> None:
    if outcome.failed:
        raise MeasuringError(
            f"{outcome.failed} of {outcome.measured} trials failed, the first one: "
            f"{outcome.first_failure}; "
            "mend that and run the same command with --retry-failed"
        )


def _print_trials(
    output: str,
    schema: str,
    trials: Sequence[Trial],
    rows: Mapping[str, Measurement | Shown],
    **facts: Any,
) -> None:
    if output == "json":
        documents = [
            {**_trial_document(trial), "state": _state(trial, rows), "reason": _reason(trial, rows),
             "throughput_samples_per_second": _rate(trial, rows)}
            for trial in trials
        ]  # fmt: skip
        _print_json(schema, **facts, trials=documents)
        return
    cells = [
        (*_cells(trial), _state(trial, rows).replace("_", " "), _shown_rate(_rate(trial, rows)))
        for trial in trials
    ]
    header = (*_COLUMNS, "state", "samples/s")
    click.echo("\n".join(table(header, cells, right=(*_RIGHT, len(header) - 1))))
    click.echo(f"\n{_summary(trials, rows)}")


def _summary(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> str:
    counts = Counter(_state(trial, rows) for trial in trials)
    parts = [f"{count} {state.replace('_', ' ')}" for state, count in counts.most_common()]
    return f"{len(trials)} trials: {', '.join(parts)}." if trials else "No trials yet."


def _cells(trial: Trial) -> tuple[str, ...]:
    workload, resources = trial.workload, trial.resources
    return (
        trial.trial_id[:8],
        workload.network,
        workload.task.value,
        trial.accelerator,
        str(workload.batch_size),
        f"{resources.vcpus:g}",
        format_mib(resources.memory_mib),
        disk_text(trial),
        trial.cache.value,
    )


def disk_text(trial: Trial) -> str:
    """'st1 20 MiB/s'; the type alone where the rate is not limited."""
    disk = trial.resources.disk
    rate = disk.read_mib_per_second
    return disk.type if rate is None else f"{disk.type} {rate:.4g} MiB/s"


def _trial_document(trial: Trial) -> dict[str, Any]:
    return {"trial_id": trial.trial_id, "trial": trial_to_dict(trial)}


def _state(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> str:
    row = rows.get(trial.trial_id)
    return row.status.value if row else _WAITING


def _reason(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> str:
    row = rows.get(trial.trial_id)
    return row.reason if row else ""


def _rate(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> float | None:
    row = rows.get(trial.trial_id)
    return row.throughput_samples_per_second if row else None


def _shown_rate(rate: float | None) -> str:
    return "-" if rate is None else format_rate(rate)


def _print_json(schema: str, **content: Any) -> None:
    click.echo(json.dumps({"schema": schema, **content}, indent=1))
