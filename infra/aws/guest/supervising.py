"""One child process that is asked to leave when the instance is taken back or its time is over.

A thread watches, since sending a measurement may take longer than the two minutes of a notice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from msgspec import Struct, field

from advisor.errors import LiveError
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.guest.metadata import Metadata

POLL_SECONDS = 5.0  # EC2's guide to interruption notices advises this at least
GRACE_SECONDS = 30.0
# Before the timer that ends the instance: enough to leave, and to send what is left.
BEFORE_EXPIRY = timedelta(seconds=90)
SYSTEMD = Path("/run/systemd/system")  # there while it is what started the machine
SPOT, EXPIRY = "spot", "expiry"


class Watch(Struct):
    """Looks for a reason to leave until it is `over`; `reason` is `spot`, `expiry` or empty."""

    metadata: Metadata
    expires_at: datetime
    clock: Clock
    leave: Callable[[], None]
    reason: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Until there is a reason, which is acted on once."""
        while not self.over.is_set():
            self.reason = self._reason()
            if self.reason:
                self.leave()
                return
            self.over.wait(poll_seconds)

    def _reason(self) -> str:
        if self.clock.now() >= self.expires_at - BEFORE_EXPIRY:
            return EXPIRY
        # A service that does not answer for a moment says nothing; it is asked again.
        with suppress(LiveError):
            return SPOT if self.metadata.spot_notice() else ""
        return ""


@contextmanager
def watching(watch: Watch, poll_seconds: float = POLL_SECONDS) -> Iterator[Watch]:
    """The watch runs in a thread as long as the block does."""
    thread = threading.Thread(target=watch.run, args=(poll_seconds,), name="notices", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def _own_scope() -> tuple[str, ...]:
    """The words before a command that give it a cgroup of its own to divide. Root may make groups
    anywhere, but systemd takes controllers back from those that it did not give away."""
    if os.getuid() != 0 or not SYSTEMD.is_dir():
        return ()
    return ("systemd-run", "--quiet", "--scope", "--property=Delegate=yes")


class Child:
    """A program in a session of its own: what it starts ends with it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log: IO[bytes] = log.open("ab")
        self._process = subprocess.Popen(
            [*_own_scope(), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None while it runs on after so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def leave(self) -> None:
        """Tell it to end in order; at once, when it has not after a while."""
        self._signal(signal.SIGTERM)
        if self.wait(GRACE_SECONDS) is None:
            self.kill()

    def kill(self) -> None:
        """End it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Leave nothing of it, however one goes."""
        if self._process.poll() is None:
            self.kill()
        self._log.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
