"""A nameless file on the disk that is read: whatever ends the program, nothing is left of it."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from advisor.errors import MeasuringError

_LEAST_BYTES = 16 * 2**20
_SHARE_OF_FREE_SPACE = 0.1
_BLOCK_BYTES = 4 * 2**20
_BLOCKS_A_SYNC = 8
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def scratch_file(folder: Path, most_bytes: int, seconds: float) -> Iterator[tuple[int, int]]:
    """(descriptor, bytes) of a file of random bytes that are on the disk by now.

    It holds what can be written in `seconds`, at most `most_bytes` and a tenth of the free
    space, and at least 16 MiB; it has no name from its first moment on. Raises
    `MeasuringError` when the folder cannot be written or has no room.
    """
    room = _room(folder)
    with _opened(folder) as file:
        size = _fill(file.fileno(), min(most_bytes, room), seconds)
        if size < _LEAST_BYTES:
            raise MeasuringError(
                "'{folder}' ran out of space", hint="name another folder with --disk", folder=folder
            )
        yield file.fileno(), size


def _room(folder: Path) -> int:
    try:
        space = os.statvfs(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    room = int(space.f_bavail * space.f_frsize * _SHARE_OF_FREE_SPACE)
    if room < _LEAST_BYTES:
        free, needed = room / _SHARE_OF_FREE_SPACE / 2**20, _LEAST_BYTES / _SHARE_OF_FREE_SPACE
        raise MeasuringError(
            "only {free:.0f} MiB are free at '{folder}', and {needed:.0f} MiB are needed "
            "(a tenth of it is used)",
            hint="name another folder with --disk",
            free=free,
            folder=folder,
            needed=needed / 2**20,
        )
    return room


def _opened(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> MeasuringError:
    return MeasuringError(
        "cannot write to '{folder}' ({strerror})",
        hint="name another folder with --disk",
        folder=folder,
        strerror=error.strerror,
    )


def _fill(descriptor: int, most_bytes: int, seconds: float) -> int:
    """Write random bytes (which no file system can compress) until enough or late."""
    generator = np.random.default_rng()
    ends_at = time.monotonic() + seconds
    written, most_bytes = 0, most_bytes // _BLOCK_BYTES * _BLOCK_BYTES
    try:
        while written < most_bytes:
            if written >= _LEAST_BYTES and time.monotonic() > ends_at:
                break
            for _ in range(min(_BLOCKS_A_SYNC, (most_bytes - written) // _BLOCK_BYTES)):
                _write_all(descriptor, generator.bytes(_BLOCK_BYTES))
                written += _BLOCK_BYTES
            # Else the time would measure memory, and reads would meet pages not yet written.
            os.fdatasync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
    return written


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
