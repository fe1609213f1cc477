"""Trials of a sweep: their rows, their states, as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.domain import Measurement, Status, Trial
from advisor.sweeps.formats.serialization import trial_to_dict
from advisor.sweeps.measurement_store import Damaged, MeasurementStore, Stored
from advisor.sweeps.watching.shared import Snapshot

_ROWS_AT_ONCE = 200
_WAITING = "waiting"


class Shown(Struct, frozen=True):
    """The end of a trial, its cause, and its rate."""

    status: Status
    reason: str
    throughput_samples_per_second: float | None


def shown_rows(store: MeasurementStore, trials: Sequence[Trial]) -> tuple[dict[str, Shown], Stored]:
    """The rows of the trials by id, read in parts; and those that cannot be read."""
    rows: dict[str, Shown] = {}
    damaged: list[Damaged] = []
    for first in range(0, len(trials), _ROWS_AT_ONCE):
        part = store.read(trial.trial_id for trial in trials[first : first + _ROWS_AT_ONCE])
        damaged += part.damaged
        for row in part.measurements:
            rate = row.throughput_samples_per_second
            rows[row.trial.trial_id] = Shown(row.status, row.reason, rate)
    return rows, Stored((), tuple(damaged))


def trial_documents(trials: Sequence[Trial], rows: Mapping[str, Measurement | Shown]) -> list[dict[str, Any]]:
    """The trials with their state and rate, for JSON."""
    return [
        {
            **trial_document(trial),
            "state": state_of(trial, rows),
            "reason": row.reason if (row := rows.get(trial.trial_id)) else "",
            "throughput_samples_per_second": rate_of(trial, rows),
        }
        for trial in trials
    ]


def trial_document(trial: Trial) -> dict[str, Any]:
    """A trial, for JSON."""
    return {"trial_id": trial.trial_id, "trial": trial_to_dict(trial)}


def state_of(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> str:
    """The state of a trial; waiting where no row is."""
    row = rows.get(trial.trial_id)
    return row.status.value if row else _WAITING


def rate_of(trial: Trial, rows: Mapping[str, Measurement | Shown]) -> float | None:
    """Samples per second, where they were measured."""
    row = rows.get(trial.trial_id)
    return row.throughput_samples_per_second if row else None


SCHEMA = "advisor.sweep-status/1"


def snapshot_document(snapshot: Snapshot, trouble: str = "") -> dict[str, Any]:
    """The document of `schemas/sweep-status.schema.json`."""
    end, pace = snapshot.expected_end, snapshot.pace
    return {
        "schema": SCHEMA,
        "at": snapshot.at.isoformat(timespec="seconds"),
        "database": snapshot.database,
        "trouble": trouble,
        "trials": snapshot.total,
        "counts": counts_of(snapshot),
        "left": snapshot.left,
        "running": [
            {
                "trial_id": trial.trial_id,
                "trial": trial.label,
                "host": trial.host,
                "pid": trial.pid,
                "seconds": _rounded(trial.seconds_held),
                "lease_seconds_left": _rounded(trial.seconds_left),
            }
            for trial in snapshot.running
        ],
        "submitted": snapshot.submitted,
        "seconds_a_trial": _rounded(pace.seconds_a_trial) if pace else None,
        "pace_of_trials": pace.trials if pace else 0,
        "expected_end": end.isoformat(timespec="seconds") if end else None,
    }


def counts_of(snapshot: Snapshot) -> dict[str, int]:
    """The number of trials by state; those without a row wait."""
    waiting = {_WAITING: snapshot.left} if snapshot.left else {}
    return {**snapshot.counts, **waiting}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
