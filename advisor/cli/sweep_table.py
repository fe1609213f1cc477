"""The trials of a sweep as a table or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.sweep_rows import Shown
from advisor.domain import Measurement, Trial
from advisor.errors import MeasuringError
from advisor.report.text import table
from advisor.units import format_counted, format_mib, format_rate
from sweeps.serialization import trial_to_dict

if TYPE_CHECKING:
    from sweeps.runner import Outcome

COLUMNS = ("trial", "network", "task", "accelerator", "batch", "vcpus", "memory", "disk", "cache")
RIGHT = (4, 5, 6)
_WAITING = "waiting"


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
        documents = [
            {**trial_document(trial), "state": _state(trial, rows), "reason": _reason(trial, rows),
             "throughput_samples_per_second": _rate(trial, rows)}
            for trial in trials
        ]  # fmt: skip
        print_json(schema, **facts, trials=documents)
        return
    cells = [
        (*cells_of(trial), _state(trial, rows).replace("_", " "), _shown_rate(_rate(trial, rows)))
        for trial in trials
    ]
    header = (*COLUMNS, "state", "samples/s")
    click.echo("\n".join(table(header, cells, right=(*RIGHT, len(header) - 1))))
    click.echo(f"\n{_summary(trials, rows)}")


def _summary(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> str:
    counts = Counter(_state(trial, rows) for trial in trials)
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


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial, for JSON."""
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


def print_json(schema: str, **content: Any) -> None:
    """A document of this schema on stdout."""
    click.echo(json.dumps({"schema": schema, **content}, indent=1))
