"""Commands that may be scheduled: which one it is, where it works, how it is started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from advisor.runs.processes import ADVISOR

# What may be scheduled, by its first words; everything else is refused.
ALLOWED = (("sweep", "run"), ("fit",), ("catalog", "refresh"))
SWEEP_RUN = ALLOWED[0]
# With one of these a sweep measures on other machines, and leaves this one's quiet.
_ELSEWHERE = ("--ray-address", "--on")


def kind_of(command: Sequence[str]) -> tuple[str, ...] | None:
    """The allowed command that these words begin with; None where they begin with none."""
    return next((one for one in ALLOWED if tuple(command[: len(one)]) == one), None)


def is_sweep(command: Sequence[str]) -> bool:
    """Whether it measures."""
    return kind_of(command) == SWEEP_RUN


def works_elsewhere(command: Sequence[str]) -> bool:
    """Whether other runs may go on beside it: two on one machine would measure each other."""
    names = {word.partition("=")[0] for word in command}
    return is_sweep(command) and bool(names & set(_ELSEWHERE))


def started_as(command: Sequence[str], due_at: float) -> list[str]:
    """The whole command line of a run, with a JSON document on its stdout.

    A sweep measures anew what is older than its due time (seconds since 1970): what an attempt
    that was cut off has measured since then is not measured again.
    """
    since = datetime.fromtimestamp(due_at, UTC).isoformat()
    fresh = ["--fresh-since", since] if is_sweep(command) else []
    return [*ADVISOR, *command, *fresh, "-o", "json"]
