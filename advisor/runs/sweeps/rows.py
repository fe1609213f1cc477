"""Trials with what is shown of their stored rows; step times of thousands would fill the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from advisor.domain import Measurement, Status, Trial
from sweeps.formats.serialization import trial_to_dict

if TYPE_CHECKING:
    from sweeps.store import Damaged, MeasurementStore, Stored

_ROWS_AT_ONCE = 200
_WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a trial ended, why, and how fast it was."""

    status: Status
    reason: str
    throughput_samples_per_second: float | None


def shown_rows(store: MeasurementStore, trials: Sequence[Trial]) -> tuple[dict[str, Shown], Stored]:
    """The rows of the trials by id, read in parts; and those that cannot be read."""
    from sweeps.store import Stored

    rows: dict[str, Shown] = {}
    damaged: list[Damaged] = []
    for first in range(0, len(trials), _ROWS_AT_ONCE):
        part = store.read(trial.trial_id for trial in trials[first : first + _ROWS_AT_ONCE])
        damaged += part.damaged
        for row in part.measurements:
            rate = row.throughput_samples_per_second
            rows[row.trial.trial_id] = Shown(row.status, row.reason, rate)
    return rows, Stored((), tuple(damaged))


def trial_documents(
    trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]
) -> list[dict[str, Any]]:
    """The trials with their state and rate, for JSON."""
    return [
        {**trial_document(trial), "state": state_of(trial, rows), "reason": reason_of(trial, rows),
         "throughput_samples_per_second": rate_of(trial, rows)}
        for trial in trials
    ]  # fmt: skip


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial, for JSON."""
    return {"trial_id": trial.trial_id, "trial": trial_to_dict(trial)}


def state_of(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> str:
    """How it ended; waiting where no row is."""
    row = rows.get(trial.trial_id)
    return row.status.value if row else _WAITING


def reason_of(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> str:
    """Why it did not end well."""
    row = rows.get(trial.trial_id)
    return row.reason if row else ""


def rate_of(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> float | None:
    """Samples per second, where they were measured."""
    row = rows.get(trial.trial_id)
    return row.throughput_samples_per_second if row else None
