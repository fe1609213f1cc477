"""What is shown of a stored row; step times of thousands of trials would fill the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.domain import Status, Trial

if TYPE_CHECKING:
    from sweeps.store import Damaged, MeasurementStore, Stored

_ROWS_AT_ONCE = 200


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
