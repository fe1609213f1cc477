"""Finds a group of cgroup version 2 below which groups with controllers may be made.

A group other than the kernel's root hands controllers down only while no process lives in it
(admin-guide/cgroup-v2.rst, "No Internal Process Constraint"). In a container, and in a scope with
Delegate=yes, our own processes live in the one group we may use. They are moved into a leaf of it
first, as Docker in Docker does. They stay there: other sweeps may have groups beside the leaf by
then, and taking a controller back would lift their limits without a word.
"""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from advisor.sweeps.machine.cgroups import UnifiedGroup

LEAF = "advisor-leaf"
# The memory controller first: it is refused while processes live in the group, where cpu and
# cpuset alone would turn the group into a threaded one.
_CONTROLLERS = ("memory", "io", "cpuset", "cpu")
# Processes may come, or fork, while others are moved.
_MOST_ROUNDS = 20
_PATIENCE_SECONDS = 10.0


def delegated_parent(own: UnifiedGroup | None) -> Path | None:
    """The first directory whose children have the memory controller at least; None where there is
    none. Controllers are switched on, and processes moved, where that is allowed."""
    if own is None:
        return None
    # Beneath the own group; beside it, where it is a leaf of ours; beneath the mounted root.
    beside = [own.directory.parent] if own.directory.name == LEAF else []
    for group in dict.fromkeys([own.directory, *beside, own.mount_point]):
        files = (".", "cgroup.procs", "cgroup.subtree_control")
        is_writable = all(os.access(group / file, os.W_OK) for file in files)
        if is_writable and _hands_down(group, may_empty=_is_given_away(group, own)):
            return group
    return None


def handed_down(parent: Path) -> frozenset[str]:
    """The controllers that the children of a group have."""
    return _names(parent / "cgroup.subtree_control")


def _is_given_away(group: Path, own: UnifiedGroup) -> bool:
    """Whether the group and all in it are ours to organise.

    The root of a cgroup namespace was made for this container; systemd knows what it gave away
    (Delegate=yes); and an ordinary user owns a group inside one that is not his only where
    somebody handed it over. All other groups belong to systemd, or to nobody we know.
    """
    if group != own.directory or not (group / "cgroup.type").exists():  # the kernel's own root
        return False
    if group == own.mount_point:
        return True
    owner = group.stat().st_uid
    if owner == os.geteuid() != 0 and group.parent.stat().st_uid != owner:
        return True
    return group.suffix in (".scope", ".service") and _systemd_gave_away(group.name)


def _systemd_gave_away(unit: str) -> bool:
    """The mark that systemd leaves on such groups (user.delegate) is missing in users' scopes of
    version 252."""
    of_user = ["--user"] if os.geteuid() else []
    command = ["systemctl", *of_user, "show", "--property=Delegate", "--value", unit]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.stdout.strip() == "yes"


def _hands_down(group: Path, *, may_empty: bool) -> bool:
    available = _names(group / "cgroup.controllers")
    if "memory" not in available:
        return False
    if "memory" not in handed_down(group) and not _switched_on(group, may_empty=may_empty):
        return False
    for controller in _CONTROLLERS:
        if controller in available - handed_down(group):
            with suppress(OSError):  # the others may do
                _switch_on(group, controller)
    return True


def _switched_on(group: Path, *, may_empty: bool) -> bool:
    """Switch the memory controller on, emptying the group as often as processes come; whatever
    was moved goes back where that fails."""
    leaf = group / LEAF
    had_leaf, moved = leaf.is_dir(), False
    for _ in range(_MOST_ROUNDS):
        try:
            _switch_on(group, "memory")
        except OSError as error:
            if error.errno != errno.EBUSY or not may_empty:
                break
        else:
            return True
        try:
            leaf.mkdir(exist_ok=True)
            moved = True
            _move_all(group, leaf)
        except OSError:  # a process that this namespace does not see, or one that may not move
            break
    if moved and not had_leaf:
        with suppress(OSError):
            _move_all(leaf, group)
            leaf.rmdir()
    return False


def _move_all(source: Path, target: Path) -> None:
    """Processes that end meanwhile are no loss."""
    for pid in (source / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            (target / "cgroup.procs").write_text(pid)


def _switch_on(group: Path, controller: str) -> None:
    (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _names(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError:
        return frozenset()
