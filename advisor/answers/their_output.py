"""What a user's own code prints goes to stderr: stdout belongs to the answer, which may be JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

_STDOUT, _STDERR = 1, 2


@contextmanager
def their_output_aside() -> Iterator[None]:
    """Inside, what Python, C code and child processes write to stdout goes to stderr.

    Where either of the two is closed, only Python's own words are turned away.
    """
    with _descriptor_aside(), redirect_stdout(sys.stderr):
        yield


@contextmanager
def _descriptor_aside() -> Iterator[None]:
    _flush()
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        _flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
