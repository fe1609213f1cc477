"""Folders of data sets: made in place, or copied to a mounted disk, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.opening import count_samples
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.trial.orphan_removal import FOLDER_ON_MOUNTS, forget_unfinished, unfinished_name


def check_free(folder: Path) -> None:
    """Refuse a place that holds something: a data set never takes the place of files."""
    try:
        taken = any(folder.iterdir()) if folder.is_dir() else folder.exists()
    except OSError as error:
        raise _not_written(folder, error) from error
    if taken or folder.is_symlink():
        raise UsageError(
            "'{folder}' exists and is not empty", hint="remove it, or name a new folder", folder=folder
        )


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill; it takes its name when all is written, and is gone when that fails.

    What a killed run left is removed first. Raises `DataError` when it cannot be written.
    """
    unfinished = unfinished_name(folder)
    try:
        forget_unfinished(folder)
        unfinished.mkdir(parents=True)
        yield unfinished
        # Only clean pages can be dropped from the page cache, as cold trials need.
        os.sync()
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except OSError as error:
        raise _not_written(folder, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _not_written(folder: Path, error: OSError) -> DataError:
    return DataError(
        "cannot write the data set to '{folder}' ({reason})",
        hint="free some space, or name another place",
        folder=folder,
        reason=error.strerror or error,
    )


def dataset_on_mount(mount: Path, data: str) -> Path:
    """The path of a data set (a folder, a file or an address) on the mount; its own path when it is there
    already. Two of the same name and size get different paths."""
    if not is_address(data) and Path(data).is_relative_to(mount):
        return Path(data)
    digest = sha256(data.rstrip("/").encode()).hexdigest()[:8]
    return mount / FOLDER_ON_MOUNTS / f"{digest}-{PurePosixPath(data).name}"


def copy_to_mount(data: Path, mount: Path, samples: int) -> Path:
    """The data set at its place on a mount, copied now unless all of its samples are there.

    Whole or not at all; `DataError` when it cannot be written.
    """
    if mount == data or _holds(mount, samples):
        return mount
    unfinished = unfinished_name(mount)
    try:
        forget_unfinished(mount)
        _remove(mount)
        if data.is_dir():
            shutil.copytree(data, unfinished)
        else:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(data, unfinished)
        unfinished.rename(mount)
        # Only clean pages can be dropped from the page cache, as cold trials need.
        os.sync()
    except (OSError, shutil.Error) as error:
        raise DataError(
            "cannot copy the data set to '{place}' ({error})",
            hint="free some space there, or name a data set that lies on that disk with --data",
            place=mount,
            error=error,
        ) from error
    finally:
        _remove(unfinished)
    return mount


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.unlink()


def _holds(folder: Path, samples: int) -> bool:
    try:
        return count_samples(folder) == samples
    except (UsageError, DataError):
        return False
