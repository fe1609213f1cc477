"""What the store tells of a sweep, as lines; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.render.text import table
from advisor.runs.sweeps.standing import counts_of
from advisor.units import format_counted, format_duration

if TYPE_CHECKING:
    from sweeps.store import Held
    from sweeps.watching.shared import Snapshot

_COLUMNS = ("trial", "since", "lease left", "by", "running now")  # the widest last


def snapshot_lines(found: Snapshot, trouble: str = "") -> list[str]:
    """How many trials, by how they ended; what runs; until when."""
    lines = [format_counted(found.total, "trial")]
    lines += [f"{count:6}  {name.replace('_', ' ')}" for name, count in counts_of(found).items()]
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
