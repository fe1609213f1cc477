"""Work spread over processes, its results in order, never many of them waiting."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from advisor.errors import DataError
from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.trial.orphans.removing import deferred_signals

Work = TypeVar("Work")
Result = TypeVar("Result")


def in_order(do: Callable[[Work], Result], work: Iterable[Work], processes: int) -> Iterator[Result]:
    """`do` of each piece of work, in order. At most two pieces a process are under way, so that
    a slow reader of the results bounds the memory. No process is left when it ends, however."""
    waiting: deque[Future[Result]] = deque()
    # Not forked: the parent may run threads by now (a progress bar).
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=be_a_side_process)
    try:
        for piece in work:
            with deferred_signals():  # it may start a process
                waiting.append(pool.submit(do, piece))
            if len(waiting) >= 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DataError("a converting process was killed", hint="is there enough memory?") from error
    finally:
        pool.shutdown(cancel_futures=True)


def be_a_side_process() -> None:
    """Ctrl-C is the parent's to handle; its sudden end ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    parent = multiprocessing.parent_process()
    if parent and parent.pid != os.getppid():
        os._exit(1)  # it was killed before this was asked for
