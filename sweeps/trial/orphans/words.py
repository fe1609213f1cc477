"""One thing that was left, and which owners are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.trial.marks import Mark, own_mark

Asked = Callable[[Mark], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """`kind`: process, mount, loop device, cgroup or folder. `remove` is idempotent, and raises
    OSError or `MeasuringError` when it cannot; `command` does the same with more rights."""

    kind: str
    name: str
    owner: Mark
    command: str
    remove: Callable[[], None]


def of_the_gone(mark: Mark) -> bool:
    """What nobody has any more: the only thing that may be taken from others."""
    return mark.has_gone


def of_mine(mark: Mark) -> bool:
    """What this process took, and what was taken for it by others."""
    return mark == own_mark()
