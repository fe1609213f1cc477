"""While a sweep runs: what is started carries its mark, and none of it is left when it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sweeps.trial.orphans.removing import give_back_own
from sweeps.trial.ownership import OWNER_VARIABLE, own_tag

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def owning() -> Iterator[None]:
    """Whatever is started inside carries this process's mark; on leaving, however, it is gone.

    An interrupt may come between taking something and noting that: what the code around did
    not give back is found by its name.
    """
    before = os.environ.get(OWNER_VARIABLE)
    os.environ[OWNER_VARIABLE] = str(own_tag())
    try:
        yield
    finally:
        give_back_own()
        if before is None:
            os.environ.pop(OWNER_VARIABLE, None)
        else:
            os.environ[OWNER_VARIABLE] = before


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait for the end of the block (a second one does not).

    For starting processes: one that loses its parent while it is born prints a traceback. And for
    starting Ray: it takes signals for itself meanwhile, and an exception that is raised in the
    middle of it gets lost now and then, which leaves a driver without its Ray.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if len(noted) > 1:
            _answer(before[number], number, frame)

    with _kept_handlers(note):
        yield
    for number in noted[:1]:
        _answer(before[number], number, None)


@contextmanager
def _kept_handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """The handler for these signals, whatever a library sets inside."""
    put = signal.signal
    before = {number: put(number, handler) for number in _SIGNALS}

    def others_only(number: int, wanted: Any) -> Any:
        return wanted if number in _SIGNALS else put(number, wanted)

    signal.signal = others_only  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = put
        for number, entry in before.items():
            put(number, entry)


def _answer(handler: Any, number: int, frame: FrameType | None) -> None:
    if callable(handler):
        handler(number, frame)
    elif handler is signal.SIG_DFL:
        os.kill(os.getpid(), number)
