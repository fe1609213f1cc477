"""While a run goes on: its row says again and again that its process lives, and what it costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from advisor.errors import DataError
from sweeps.store.owners import Owner
from sweeps.store.schedule_book import ScheduleBook
from sweeps.store.schedule_runs import RUN_SECONDS

HEARTBEAT_SECONDS = 20.0


class Beating:
    """`lost` once the run is another process's, or soon may be: two that run it must never be."""

    def __init__(self) -> None:
        self.lost = False


@contextmanager
def beating(
    book: ScheduleBook,
    number: int,
    owner: Owner,
    cost_usd: Callable[[], float | None],
    *,
    every_seconds: float = HEARTBEAT_SECONDS,
    lease_seconds: float = RUN_SECONDS,
) -> Iterator[Beating]:
    """Renew the run's lease from a thread. A beat that fails is left to the next one, as long as
    the lease surely lasts by this process's own clock."""
    over, beats = threading.Event(), Beating()

    def beat() -> None:
        last = time.monotonic()
        while not over.wait(every_seconds):
            begun = time.monotonic()
            try:
                beats.lost = not book.runs.beat(number, owner, cost_usd())
                last = begun
            except DataError:
                beats.lost = time.monotonic() - last > lease_seconds - 2 * every_seconds
            if beats.lost:
                return

    thread = threading.Thread(target=beat, name="run heartbeat", daemon=True)
    thread.start()
    try:
        yield beats
    finally:
        over.set()
        thread.join()
