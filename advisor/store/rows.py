"""A measurement as a row of the table, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.sweeps.formats.serialization import (
    SCHEMA_VERSION,
    NewerFormatError,
    measurement_from_dict,
    measurement_to_dict,
)
from advisor.sweeps.measurement_store import Damaged, Stored
from advisor.sweeps.quality.issues import is_stale

Row = Mapping[str, Any]


def row_of(measurement: Measurement) -> dict[str, Any]:
    """The columns of the measurement's row, but for its number. The payload holds raw values alone; the rate
    is for readers of an export."""
    trial, payload = measurement.trial, measurement_to_dict(measurement)
    del payload["throughput_samples_per_second"]
    return {
        "trial_id": trial.trial_id,
        "network": trial.workload.network,
        "task": trial.workload.task.value,
        "accelerator": str(trial.accelerator),
        "status": measurement.status.value,
        "limited_by": measurement.limited_by.value,
        "started_at": measurement.started_at,
        "schema_version": SCHEMA_VERSION,
        "payload": json.dumps(payload),
    }


def parsed(payload: str) -> Measurement:
    """The measurement of a row; `DataError` where it is damaged or of a later version."""
    try:
        return measurement_from_dict(json.loads(payload))
    except NewerFormatError:
        raise
    except (ValueError, AttributeError, RecursionError, DataError) as error:
        raise DataError("damaged ({error})", error=error) from error


def sorted_out(rows: Iterable[tuple[str, str]], database: str) -> Stored:
    """The measurements of (trial_id, payload), and the rows that hold none; one that a later version wrote is
    no damage, and raises."""
    good: list[Measurement] = []
    damaged: list[Damaged] = []
    for trial_id, payload in rows:
        try:
            good.append(parsed(payload))
        except NewerFormatError:
            raise
        except DataError as error:
            damaged.append(Damaged(trial_id, _reason(trial_id, database, error)))
    return Stored(tuple(good), tuple(damaged))


def _reason(trial_id: str, database: str, error: DataError) -> str:
    return (
        f"measurement {trial_id} in the database '{database}' is {error}; measure it again with "
        "`advisor sweep run .. --retry-failed`, or delete that row"
    )


def gives_way(existing: Any, row: Row, since: datetime | None) -> bool:
    """Whether the stored row (`status`, `started_at`, `payload`) gives way to one that comes in: that one
    ended well and the stored one did not, or has all its runs and more, or it alone began at `since` or
    later."""
    if row["status"] != Status.OK.value:
        return False
    if existing.status != Status.OK.value:
        return True
    if is_stale(existing.started_at, since) and not is_stale(row["started_at"], since):
        return True
    coming, stored = _runs(row["payload"]), _runs(existing.payload)
    return len(coming) > len(stored) and coming[: len(stored)] == stored


def _runs(payload: str) -> list[Any]:
    """The step times of every run; a payload that holds none has none."""
    try:
        document = json.loads(payload)
        return [entry["step_seconds"] for entry in (document, *document.get("repeats", ()))]
    except (ValueError, AttributeError, TypeError, KeyError):
        return []
