"""The leases of one driver: taken before a trial is measured, renewed while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from advisor.errors import DataError
from sweeps.events import DEBUG, WARNING, emit
from sweeps.store.contract import LeaseBook
from sweeps.store.owners import Owner, this_process

HEARTBEAT_SECONDS = 20.0


@contextmanager
def leasing(leases: LeaseBook, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> Iterator[Owner]:
    """A new owner, whose leases are renewed from a thread, and end when this ends.

    A beat that fails is left to the next one; a lease lasts for several.
    """
    owner, over = this_process(), threading.Event()

    def beat() -> None:
        while not over.wait(heartbeat_seconds):
            try:
                leases.renew(owner)
            except Exception as error:  # of any kind: without a next beat the leases end
                emit("heartbeat_failed", level=WARNING, reason=str(error))
            else:
                emit("heartbeat", level=DEBUG)

    beating = threading.Thread(target=beat, name="lease heartbeat", daemon=True)
    beating.start()
    try:
        yield owner
    finally:
        over.set()
        beating.join()
        with suppress(DataError):
            leases.give_back(owner)
