"""Reports that did not arrive, sent again between a daemon's looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LOOK_EVERY_SECONDS = 60.0


class Resending:
    """Looks once a minute, and sends in a thread of its own: a server that answers slowly keeps no
    schedule waiting. What is cut off is tried again at the next look, under the same id."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._next = clock()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """To be called often; does nothing most times."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or self._clock() < self._next:
            return
        self._next = self._clock() + LOOK_EVERY_SECONDS
        from advisor.runs.delivery.outbox import Outbox, outbox_folder

        box = Outbox(outbox_folder())
        if box.any_due():
            self._thread = threading.Thread(
                target=box.try_again, args=(self._say,), name="resending", daemon=True
            )
            self._thread.start()

    def wait(self) -> None:
        """Until what is being sent has been."""
        if self._thread is not None:
            self._thread.join()
