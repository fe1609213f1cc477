"""Handles Ctrl-C, SIGTERM and SIGHUP: the first ends work in order, the second at once; both clean up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from advisor.cli.printing import tell
from advisor.errors import Stopped, Terminated

_SHOW_CURSOR = "\x1b[?25h"
# SIGHUP: the terminal was closed, or its connection lost.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leaving_cleanly(
    kept: Callable[[], str], *, abandoned: str = "finished trials are stored"
) -> Iterator[None]:
    """Remove what killed sweeps left, then run the block; however it ends, remove what it left on this
    machine. On the first signal, raises `Stopped` with the text of `kept()`, which says what is kept. On a
    second one, prints `abandoned` and exits at once."""
    from advisor.sweeps.trial.orphans import clean_up, owning

    handler = _Handler(abandoned)
    with handled_signals(handler):
        if count := clean_up():
            tell(f"removed what a killed sweep left here: {count} things")
        try:
            with owning():
                yield
        except KeyboardInterrupt as error:
            number = handler.number or signal.SIGINT
            text = "; ".join(filter(None, (kept(), str(error))))
            raise Stopped(text, exit_code=128 + number) from error


@contextmanager
def handled_signals(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[int] = ENDING_SIGNALS
) -> Iterator[None]:
    """Set a signal handler until the block ends; only in the main thread. Ignored signals stay ignored."""
    ours = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {
        number: signal.signal(number, handler)
        for number in numbers
        if ours and signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


class _Handler:
    """Raises an interrupt on the first signal; on the second one, exits without waiting for the cleanup.

    `number` keeps the first signal, because Ray turns each of these exceptions into KeyboardInterrupt."""

    def __init__(self, abandoned: str) -> None:
        self.number = 0
        self._abandoned = abandoned

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            from advisor.sweeps.trial.orphans import give_back_own

            for each in ENDING_SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            show = _SHOW_CURSOR if sys.stderr.isatty() else ""
            os.write(2, f"{show}advisor: abandoned; {self._abandoned}\n".encode())
            give_back_own()
            os._exit(128 + number)
        self.number = number
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated
