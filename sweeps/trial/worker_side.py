"""The worker's side of the conversation with its parent (`child`). Standard library only."""

from __future__ import annotations

import json
import os
import sys


def wait_for_go() -> None:
    """Everything is loaded: the limits may be switched on."""
    send("ready")
    if not sys.stdin.readline():
        os._exit(1)  # the parent has gone


def send(message: object) -> None:
    """One line of JSON to the parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
