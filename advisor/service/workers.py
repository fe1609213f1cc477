"""Worker processes end with the process that started them, kill -9 included: one that stayed would
hold the port, and answer beside the server that is started next."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies; nothing where this is no worker process.

    To be called by the main thread."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):  # no Linux
        return
    if os.getppid() != parent.pid:  # it died before we could ask
        os._exit(128 + signal.SIGTERM)
