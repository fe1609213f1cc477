"""The trials of a sweep as a table or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from advisor.domain import Measurement, Trial
from advisor.errors import MeasuringError
from advisor.render.text import table
from advisor.runs.sweeps.rows import Shown, rate_of, state_of, trial_documents
from advisor.units import format_counted, format_mib, format_rate

if TYPE_CHECKING:
    from sweeps.driver.runner import Outcome

COLUMNS = ("trial", "network", "task", "accelerator", "batch", "vcpus", "memory", "disk", "cache")
RIGHT = (4, 5, 6)


def raise_failures(outcome: Outcome, again: str = "run the same command with") -> None:
    """`MeasuringError` where trials failed: that is for the user to mend; `again` says how they
    are measured `--retry-failed`."""
    if outcome.failed:
        raise MeasuringError(
            f"{outcome.failed} of {outcome.measured} trials failed, the first one: "
            f"{outcome.first_failure}; "
            f"mend that and {again} --retry-failed"
        )


def print_trials(
    output: str,
    schema: str,
    trials: Sequence[Trial],
    rows: Mapping[str, Measurement | Shown],
    **facts: Any,
) -> None:
    """The trials with their state and rate, waiting where no row is; `facts` stand in JSON."""
    if output == "json":
        print_json(schema, **facts, trials=trial_documents(trials, rows))
        return
    cells = [
        (
            *cells_of(trial),
            state_of(trial, rows).replace("_", " "),
            _shown_rate(rate_of(trial, rows)),
        )
        for trial in trials
    ]
    header = (*COLUMNS, "state", "samples/s")
    click.echo("\n".join(table(header, cells, right=(*RIGHT, len(header) - 1))))
    click.echo(f"\n{_summary(trials, rows)}")


def _summary(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> str:
    counts = Counter(state_of(trial, rows) for trial in trials)
    parts = [f"{count} {state.replace('_', ' ')}" for state, count in counts.most_common()]
    counted = format_counted(len(trials), "trial")
    return f"{counted}: {', '.join(parts)}." if trials else "No trials yet."


def cells_of(trial: Trial) -> tuple[str, ...]:
    """A trial in a line, as `COLUMNS` are headed."""
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


def _shown_rate(rate: float | None) -> str:
    return "-" if rate is None else format_rate(rate)


def print_json(schema: str, **content: Any) -> None:
    """A document of this schema on stdout."""
    click.echo(json.dumps({"schema": schema, **content}, indent=1))
