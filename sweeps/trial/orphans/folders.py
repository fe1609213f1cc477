"""Workers' scratch folders, and data sets that were half-made, of owners that have gone."""

from __future__ import annotations

import glob
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from advisor.errors import MeasuringError
from advisor.sweeps.trial.orphans.orphan import (
    Orphan,
    OwnerFilter,
    mounted_places,
    mounts_here,
    owner_has_gone,
)
from advisor.sweeps.trial.ownership import OwnerTag, new_name, scratch_parent, tag_in

# On a mount of --disk-path, data sets lie in a folder of this name.
FOLDER_ON_MOUNTS = "instance-sizing-advisor"
_UNFINISHED = ".unfinished-"
_BOOTED = re.compile(r"^btime (\d+)$", re.MULTILINE)


def unfinished_name(point: Path) -> Path:
    """The name under which `point` is made until it is whole."""
    return point.with_name(f"{point.name}{_UNFINISHED}{new_name()}")


def forget_unfinished(point: Path) -> None:
    """Remove what killed processes left half-made of it, as far as that can be."""
    for orphan in unfinished_folders(owner_has_gone, point.parent, glob.escape(point.name)):
        with suppress(OSError, MeasuringError):
            orphan.remove()


def orphan_folders(of_owner: OwnerFilter, made_in: Path) -> Iterator[Orphan]:
    """Those of workers, and what was being made in `made_in` or on a mounted disk."""
    for folder in _listed(scratch_parent(), "advisor-*"):
        tag = tag_in(folder.name)
        if tag and (of_owner(tag) or (tag.is_elsewhere and _is_older_than_boot(folder))):
            yield _orphan(folder, tag)
    for parent in (made_in, *(disk / FOLDER_ON_MOUNTS for disk in _disks())):
        yield from unfinished_folders(of_owner, parent)


def unfinished_folders(of_owner: OwnerFilter, parent: Path, name: str = "*") -> Iterator[Orphan]:
    """Unfinished folders (of `name`) below a folder."""
    for folder in _listed(parent, f"{name}{_UNFINISHED}advisor-*"):
        tag = tag_in(folder.name.rpartition(_UNFINISHED)[2])
        if tag and of_owner(tag):
            yield _orphan(folder, tag)


def _orphan(folder: Path, tag: OwnerTag) -> Orphan:
    return Orphan(
        kind="folder",
        name=str(folder),
        owner=tag,
        command=f"rm -r '{folder}'",
        remove=partial(_remove, folder),
    )


def _remove(folder: Path) -> None:
    """Never what is mounted inside: that may be somebody's disk."""
    if any(path == folder or folder in path.parents for path in mounted_places()):
        raise MeasuringError("something is still mounted in it")
    with suppress(FileNotFoundError):
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink()


def _is_older_than_boot(folder: Path) -> bool:
    """True for files in this machine's temporary folder from before the boot: they have no owner."""
    try:
        match = _BOOTED.search(Path("/proc/stat").read_text())
        return match is not None and folder.lstat().st_mtime < float(match[1])
    except OSError:
        return False


def _disks() -> list[Path]:
    """Mount points of block devices; a network's may not answer."""
    return [mount.point for mount in mounts_here() if mount.source.startswith("/dev/")]


def _listed(parent: Path, pattern: str) -> list[Path]:
    try:
        return sorted(parent.glob(pattern))
    except OSError:
        return []
