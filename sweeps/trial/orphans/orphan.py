"""One thing that was left, and which owners are asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.trial.ownership import OwnerTag, own_tag

OwnerFilter = Callable[[OwnerTag], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """`kind`: process, mount, loop device, cgroup or folder. `remove` is idempotent, and raises
    OSError or `MeasuringError` when it cannot; `command` does the same with more rights."""

    kind: str
    name: str
    owner: OwnerTag
    command: str
    remove: Callable[[], None]


def owner_has_gone(tag: OwnerTag) -> bool:
    """What nobody has any more: the only thing that may be taken from others."""
    return tag.has_gone


def owner_is_me(tag: OwnerTag) -> bool:
    """What this process took, and what was taken for it by others."""
    return tag == own_tag()
