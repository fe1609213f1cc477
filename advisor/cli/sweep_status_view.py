"""What the store tells of a sweep, as lines and as a document; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.report.text import table
from advisor.units import format_counted, format_duration

if TYPE_CHECKING:
    from sweeps.store import Held
    from sweeps.watching.shared import Snapshot

SCHEMA = "advisor.sweep-status/1"
_COLUMNS = ("trial", "since", "lease left", "by", "running now")  # the widest last
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
        "counts": _counts(found),
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


def snapshot_lines(found: Snapshot, trouble: str = "") -> list[str]:
    """How many trials, by how they ended; what runs; until when."""
    lines = [format_counted(found.total, "trial")]
    lines += [f"{count:6}  {name.replace('_', ' ')}" for name, count in _counts(found).items()]
    if found.running:
        rows = [
            (one.trial_id[:8], _since(one), format_duration(one.seconds_left), one.driver,
             one.label or "-")
            for one in found.running
        ]  # fmt: skip
        lines += ["", *table(_COLUMNS, rows, right=(1, 2))]
    lines += ["", *_end_lines(found)] if found.left else []
    if trouble:
        seen = found.at.strftime("%H:%M:%S")
        lines += ["", f"As of {seen} UTC, since then: {trouble}"]
    return lines


def _end_lines(found: Snapshot) -> list[str]:
    if not found.running:
        return ["Nobody measures them now."]
    end, pace = found.expected_end, found.pace
    if end is None or pace is None:
        return ["Too few trials have ended to tell when the rest will."]
    left = format_duration((end - found.at).total_seconds())
    return [
        f"About {left} left, until {end:%H:%M} UTC: {pace.seconds_a_trial:.3g} s a trial "
        f"by the last {pace.trials} that began."
    ]


def _since(one: Held) -> str:
    return "-" if one.seconds_held is None else format_duration(one.seconds_held)


def _counts(found: Snapshot) -> dict[str, int]:
    waiting = {_WAITING: found.left} if found.left else {}
    return {**found.counts, **waiting}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
