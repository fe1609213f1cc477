"""The folder in which worker processes count together, and those that killed servers left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Of `advisor.service.metrics`, whose import waits for this to be set.
_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PREFIX = "advisor-metrics-"
# A younger one may be of a server that has made it, and not held it yet.
_SETTLED_SECONDS = 60.0


@contextmanager
def shared_metrics() -> Iterator[None]:
    """A folder for the workers that are started meanwhile, gone at the end; the operator's own one
    (`PROMETHEUS_MULTIPROC_DIR`) stays. What kill -9 left of earlier servers goes, too."""
    if os.environ.get(_VARIABLE):
        yield
        return
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        held = _held(Path(folder))
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
            if held is not None:
                os.close(held)


def _remove_left() -> None:
    """Remove the folders that nobody holds: the kernel lets go of what a dead process held."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or gone meanwhile
            if time.time() - folder.lstat().st_mtime < _SETTLED_SECONDS:
                continue
            held = _held(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)


def _held(folder: Path) -> int | None:
    """A descriptor that holds the folder until it is closed; None where somebody else does.
    `OSError` for what is no folder (a link, too)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
