"""What the store tells of a sweep, as a document; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeps.watching.shared import Snapshot

SCHEMA = "advisor.sweep-status/1"
_WAITING = "waiting"


def snapshot_document(found: Snapshot, trouble: str = "") -> dict[str, Any]:
    """The document of `schemas/sweep-status.schema.json`."""
    end, pace = found.expected_end, found.pace
    return {
        "schema": SCHEMA,
        "at": found.at.isoformat(timespec="seconds"),
        "database": found.database,
        "trouble": trouble,
        "trials": found.total,
        "counts": counts_of(found),
        "left": found.left,
        "running": [
            {"trial_id": one.trial_id, "trial": one.label, "host": one.host, "pid": one.pid,
             "seconds": _rounded(one.seconds_held),
             "lease_seconds_left": _rounded(one.seconds_left)}
            for one in found.running
        ],
        "seconds_a_trial": _rounded(pace.seconds_a_trial) if pace else None,
        "pace_of_trials": pace.trials if pace else 0,
        "expected_end": end.isoformat(timespec="seconds") if end else None,
    }  # fmt: skip


def counts_of(found: Snapshot) -> dict[str, int]:
    """How many trials, by how they ended; those that have not wait."""
    waiting = {_WAITING: found.left} if found.left else {}
    return {**found.counts, **waiting}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
