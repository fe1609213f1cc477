"""Where data sets are made: whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from advisor.errors import DataError, UsageError
from sweeps.trial.orphans.folders import forget_unfinished, unfinished_name

PROFILE_FILE = "profile.json"


def check_free(folder: Path) -> None:
    """Refuse a place that holds something: a data set never takes the place of files."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        raise UsageError(
            "'{folder}' exists and is not empty",
            hint="remove it, or name a new folder",
            folder=folder,
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
        raise DataError(
            "cannot write the data set to '{folder}' ({error})",
            hint=(
                "free some space, or name another place; a folder of images of your own goes "
                "with --data"
            ),
            folder=folder,
            error=error.strerror or error,
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
