"""`advisor sweep`: plan, run, list; `status` and `log` have files of their own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import click

from advisor.cli.parameters import Name
from advisor.cli.stored import fail_if_damaged, stored_measurements, tell_damaged
from advisor.cli.sweep_log import log
from advisor.cli.sweep_options import asked_for_nothing, options_from, sweep_options
from advisor.cli.sweep_status import status
from advisor.cli.sweep_watching import (
    watch_from,
    watch_options,
    watched_sweep,
    without_watch_options,
)
from advisor.domain import Measurement, Status, Trial
from advisor.errors import MeasuringError
from advisor.operations.sweep_data import planned_data, prepared_data
from advisor.operations.sweeping import (
    EXECUTORS,
    execute_sweep,
    plan_sweep,
)
from advisor.report.text import table
from advisor.units import format_mib, format_rate
from sweeps.serialization import trial_to_dict

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


sweep.add_command(status)
sweep.add_command(log)


@sweep.command()
@sweep_options
@_output_option
def plan(output: str, **answers: Any) -> None:
    """Show the trials that `run` would measure; nothing is measured or made."""
    options = options_from(answers)
    trials = plan_sweep(options, planned_data(options))
    if output == "json":
        _print_json("advisor.sweep-plan/1", trials=[_trial_document(trial) for trial in trials])
        return
    click.echo("\n".join(table(_COLUMNS, [_cells(trial) for trial in trials], right=_RIGHT)))
    minutes = -(-len(trials) * _SECONDS_A_TRIAL // 60)
    counted = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
    click.echo(f"\n{counted}, about {minutes} min on a quiet machine.")


@sweep.command()
@sweep_options
@click.option(
    "--executor", type=Name("executor", EXECUTORS), default="ray", show_default=True,
    help="inline is for debugging: without limits, never fitted.",
)  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Measure failed and contaminated trials again.")
@watch_options
@_output_option
def run(output: str, executor: str, retry_failed: bool, **answers: Any) -> None:
    """Measure what is not measured yet; the same command again goes on where it stopped."""
    from advisor.cli.sweep_progress import dataset_progress, trial_progress
    from sweeps.store import open_store

    options, watching = options_from(without_watch_options(answers)), watch_from(answers)
    with closing(open_store()) as store, watched_sweep(watching, options.ray_address) as watch:
        with dataset_progress() as making:
            data = prepared_data(options, making)
        trials = plan_sweep(options, data)
        watch.planned(trials, executor=executor, database=store.name)
        with trial_progress(watch.tally) as told:
            fresh = execute_sweep(
                trials, store, executor=executor, ray_address=options.ray_address,
                retry_failed=retry_failed, on_progress=watch.following(told),
            )  # fmt: skip
        stored = store.read(trial.trial_id for trial in trials)
    tell_damaged(stored)
    rows = {row.trial.trial_id: row for row in stored.measurements}
    _print_trials(output, "advisor.sweep-run/1", trials, rows, measured_now=len(fresh))
    _tell_failures(fresh)
    fail_if_damaged(stored)


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


def _tell_failures(fresh: Sequence[Measurement]) -> None:
    """Out of memory and contaminated are results; a failure is for the user to mend."""
    failed = [row for row in fresh if row.status in (Status.FAILED, Status.TIMED_OUT)]
    if failed:
        raise MeasuringError(
            f"{len(failed)} of {len(fresh)} trials failed, the first one: {failed[0].reason}; "
            "mend that and run the same command with --retry-failed"
        )


def _print_trials(
    output: str, schema: str, trials: Sequence[Trial], rows: dict[str, Measurement], **facts: Any
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


def _summary(trials: Sequence[Trial], rows: dict[str, Measurement]) -> str:
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


def _state(trial: Trial, rows: dict[str, Measurement]) -> str:
    row = rows.get(trial.trial_id)
    return row.status.value if row else _WAITING


def _reason(trial: Trial, rows: dict[str, Measurement]) -> str:
    row = rows.get(trial.trial_id)
    return row.reason if row else ""


def _rate(trial: Trial, rows: dict[str, Measurement]) -> float | None:
    row = rows.get(trial.trial_id)
    return row.throughput_samples_per_second if row else None


def _shown_rate(rate: float | None) -> str:
    return "-" if rate is None else format_rate(rate)


def _print_json(schema: str, **content: Any) -> None:
    click.echo(json.dumps({"schema": schema, **content}, indent=1))
