"""Tells long work whether whoever asked still waits, so that it can stop early."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

# A service knows that its client has left, or has waited as long as anybody may.
STILL_WANTED: ContextVar[Callable[[], bool]] = ContextVar("still_wanted", default=lambda: True)


class SpentError(Exception):
    """No more is looked at: enough was, or nobody waits."""


def require_wanted() -> None:
    """`SpentError` where nobody waits any more."""
    if not STILL_WANTED.get()():
        raise SpentError
