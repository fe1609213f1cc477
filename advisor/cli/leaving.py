"""Ctrl-C, SIGTERM, SIGHUP: the first leaves in order, a second one at once; nothing stays."""

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
# SIGHUP: the terminal was closed, or the connection to it lost.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leaving_cleanly(
    kept: Callable[[], str], *, abandoned: str = "finished trials are stored"
) -> Iterator[None]:
    """Remove what killed sweeps left, then let the work run; however that ends, nothing of it is
    left on this machine. `Stopped` tells what is `kept` when it was Ctrl-C or SIGTERM; a second
    one is told what is `abandoned`."""
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
    """Sets the signal handler until the block ends, where this thread may; ignored signals stay so."""
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
    """The first signal interrupts; the next one does not wait for what that one's way out does.

    `number` is the first one's: on its way up, Ray makes a plain KeyboardInterrupt of any."""

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
