"""Finds what was left, and removes it in an order in which each can go."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import MeasuringError
from advisor.places import datasets_folder
from sweeps.trial.orphans.devices import left_loops, left_mounts
from sweeps.trial.orphans.folders import left_folders
from sweeps.trial.orphans.groups import left_groups
from sweeps.trial.orphans.processes import left_processes
from sweeps.trial.orphans.words import Asked, Leftover, of_mine, of_the_gone

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stuck:
    """What could not be removed, and why."""

    leftover: Leftover
    reason: str


@dataclass(frozen=True, slots=True)
class Removed:
    """What is gone, and what is not."""

    gone: tuple[Leftover, ...]
    stuck: tuple[Stuck, ...]


def find_leftovers(asked: Asked = of_the_gone, made_in: Path | None = None) -> list[Leftover]:
    """Everything on this machine whose owner is asked about, in the order of removal.

    Processes first, since they use the rest; mounts before the loop devices beneath them, both
    before the folders that they lie in.
    """
    return [
        *left_processes(asked),
        *left_mounts(asked),
        *left_loops(asked),
        *left_groups(asked),
        *left_folders(asked, made_in or datasets_folder()),
    ]


def remove(leftovers: Iterable[Leftover]) -> Removed:
    """Remove them one after the other; one that stays holds up none of the others."""
    gone, stuck = [], []
    for one in leftovers:
        try:
            one.remove()
        except (OSError, MeasuringError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            stuck.append(Stuck(one, words or str(error)))
        else:
            gone.append(one)
    return Removed(tuple(gone), tuple(stuck))


def clean_up() -> int:
    """Remove what killed sweeps left; returns how many things. What stays is told, with the
    command for it, and stops nothing."""
    removed = remove(find_leftovers())
    for one in removed.stuck:
        _LOG.warning(
            "%s %s of a killed sweep cannot be removed (%s): %s",
            one.leftover.kind, one.leftover.name, one.reason, one.leftover.command,
        )  # fmt: skip
    return len(removed.gone)


def give_back_own() -> int:
    """Remove whatever this process still has, wherever it was interrupted; returns how many
    things. Nothing that it has may be in use any more."""
    return len(remove(find_leftovers(of_mine)).gone)
