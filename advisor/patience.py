"""Lets long computations check whether their client still waits, so that they can stop early."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# The service sets this; it returns False after its client has left or has waited too long.
STILL_WANTED: ContextVar[Callable[[], bool]] = ContextVar("still_wanted", default=lambda: True)


class SpentError(Exception):
    """The computation stops early: its time is spent, or its client no longer waits."""


def require_wanted() -> None:
    """Raise `SpentError` if the client no longer waits."""
    if not STILL_WANTED.get()():
        raise SpentError
