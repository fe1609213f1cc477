"""A sweep on a screen: plain lines from where it stands; pure, so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from advisor.units import format_duration, format_usd

if TYPE_CHECKING:
    from sweeps.watching.tally import Running, SweepProgress

_BAR = 24
_SHOWN_RUNNING = 8
_NAME_COLUMNS = 62


def view_lines(standing: SweepProgress) -> list[str]:
    """'sweep', 'ended', 'time', 'cost' and 'runs', each with what it is."""
    if not standing.total:
        return [f"sweep  starting, {format_duration(standing.elapsed_seconds)}"]
    return [
        f"sweep  {_bar(standing)}  {standing.total - standing.left} of {standing.total} done, "
        f"{standing.left} left",
        *_ended_lines(standing),
        f"time   {_time_text(standing)}",
        *([f"cost   {_cost_text(standing)}"] if standing.usd is not None else []),
        *_running_lines(standing.running),
    ]


def _bar(standing: SweepProgress) -> str:
    done = standing.total - standing.left
    filled = _BAR * done // standing.total
    return "█" * filled + "░" * (_BAR - filled)


def _ended_lines(standing: SweepProgress) -> list[str]:
    counts = standing.counts.items()
    parts = [f"{count} {status.value.replace('_', ' ')}" for status, count in counts]
    if standing.skipped:
        parts.append(f"{standing.skipped} measured before")
    return [f"ended  {', '.join(parts)}"] if parts else []


def _time_text(standing: SweepProgress) -> str:
    elapsed = format_duration(standing.elapsed_seconds)
    if not standing.left:
        return elapsed
    return f"{elapsed}, about {format_duration(standing.rest_seconds)} left (by {standing.basis})"


def _cost_text(standing: SweepProgress) -> str:
    assert standing.usd is not None
    assert standing.expected_usd is not None
    return f"{format_usd(standing.usd)}, about {format_usd(standing.expected_usd)} in the end"


def _running_lines(running: Sequence[Running]) -> list[str]:
    times = [format_duration(one.seconds) for one in running[:_SHOWN_RUNNING]]
    width = max(map(len, times), default=0)
    shown = [
        f"{'' if number else 'runs':4}   {seconds:>{width}}  {one.where or '-'}  "
        f"{one.name[:_NAME_COLUMNS]}{_attempt_text(one)}"
        for number, (seconds, one) in enumerate(zip(times, running, strict=False))
    ]
    more = len(running) - len(shown)
    return [*shown, f"       and {more} more"] if more > 0 else shown


def _attempt_text(one: Running) -> str:
    return f", attempt {one.attempt}" if one.attempt > 1 else ""
