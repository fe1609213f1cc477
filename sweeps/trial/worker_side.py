"""The worker's side of the conversation with its parent (`child`). Standard library only."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """A killed sweep must not leave a trial running that nobody waits for."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for_go() -> None:
    """Everything is loaded: the limits may be switched on."""
    tell("ready")
    if not sys.stdin.readline():
        os._exit(1)  # the parent has gone


def tell(message: object) -> None:
    """One line of JSON to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
