"""The data set on a disk that is really mounted, copied there once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from advisor.errors import DataError
from sweeps.datasets.folder import image_files

_FOLDER = "instance-sizing-advisor"


def dataset_on_mount(mount: Path, folder: Path) -> Path:
    """Where the data set `folder` lies on the mount; itself when it lies there already."""
    return folder if folder.is_relative_to(mount) else mount / _FOLDER / folder.name


def copy_to_mount(folder: Path, mount: Path, samples: int) -> Path:
    """The data set on the mount, copied now unless all of its samples are there.

    Whole or not at all; `DataError` when it cannot be written.
    """
    place = dataset_on_mount(mount, folder)
    if place == folder or (place.is_dir() and len(image_files(place)) == samples):
        return place
    unfinished = place.with_name(f"{place.name}.unfinished-{os.getpid()}")
    try:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, unfinished)
        unfinished.rename(place)
        # Only clean pages can be dropped from the page cache, as cold trials need.
        os.sync()
    except (OSError, shutil.Error) as error:
        raise DataError(
            f"cannot copy the data set to '{place}' ({error}); free some space there, or name a "
            "data set that lies on that disk with --data"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return place
