"""Finds what was left, and removes it in an order in which each can go."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import MeasuringError
from advisor.places import datasets_folder
from sweeps.trial.orphans.devices import orphan_loops, orphan_mounts
from sweeps.trial.orphans.folders import orphan_folders
from sweeps.trial.orphans.groups import orphan_groups
from sweeps.trial.orphans.orphan import Orphan, OwnerFilter, owner_has_gone, owner_is_me
from sweeps.trial.orphans.processes import orphan_processes

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stuck:
    """What could not be removed, and why."""

    orphan: Orphan
    reason: str


@dataclass(frozen=True, slots=True)
class Removed:
    """What is gone, and what is not."""

    gone: tuple[Orphan, ...]
    stuck: tuple[Stuck, ...]


def find_orphans(
    of_owner: OwnerFilter = owner_has_gone, made_in: Path | None = None
) -> list[Orphan]:
    """Everything on this machine whose owner is asked about, in the order of removal.

    Processes first, since they use the rest; mounts before the loop devices beneath them, both
    before the folders that they lie in.
    """
    return [
        *orphan_processes(of_owner),
        *orphan_mounts(of_owner),
        *orphan_loops(of_owner),
        *orphan_groups(of_owner),
        *orphan_folders(of_owner, made_in or datasets_folder()),
    ]


def remove(orphans: Iterable[Orphan]) -> Removed:
    """Remove them one after the other; one that stays holds up none of the others."""
    gone, stuck = [], []
    for entry in orphans:
        try:
            entry.remove()
        except (OSError, MeasuringError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            stuck.append(Stuck(entry, words or str(error)))
        else:
            gone.append(entry)
    return Removed(tuple(gone), tuple(stuck))


def clean_up() -> int:
    """Remove what killed sweeps left; returns how many things. What stays is told, with the
    command for it, and stops nothing."""
    removed = remove(find_orphans())
    for entry in removed.stuck:
        _LOG.warning(
            "%s %s of a killed sweep cannot be removed (%s): %s",
            entry.orphan.kind, entry.orphan.name, entry.reason, entry.orphan.command,
        )  # fmt: skip
    return len(removed.gone)


def give_back_own() -> int:
    """Remove whatever this process still has, wherever it was interrupted; returns how many
    things. Nothing that it has may be in use any more."""
    return len(remove(find_orphans(owner_is_me)).gone)
