"""Sends a message to its targets, retries where that may help, and keeps what failed for two days.

Only what may still arrive is kept: an outage, not a folder that is missing or an address that is gone.
Whoever sends takes a lock on the folder, so that two daemons never send the same one at once."""

from __future__ import annotations

import fcntl
import hashlib
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from advisor.errors import DeliveryError, UsageError
from advisor.files import state_folder, write_whole
from advisor.runs.delivery.letter import Letter, TransientDeliveryError
from advisor.runs.delivery.targets import Target, parse_target, target_label

ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 1.0

Say = Callable[[str], None]


class Delivery(Struct, frozen=True, kw_only=True):
    """The outcome of a message at one target, as `label` names it; `error` is empty where it arrived,
    `transient` says whether a later try may help."""

    label: str
    attempts: int
    error: str = ""
    transient: bool = False

    @property
    def arrived(self) -> bool:
        """Whether the target has taken it."""
        return not self.error


def checked_target(text: str) -> Target:
    """The target behind `--send`, as ready as can be known; `UsageError` before any work."""
    target = parse_target(text)
    target.check()
    return target


def deliver(
    message: Letter,
    target: Target,
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] | None = None,
    say: Say = lambda _line: None,
) -> Delivery:
    """Send it, up to `attempts` times with pauses of 1, 2, 4, .. s (each longer by up to a quarter, so that
    many do not come at once). Raises nothing that the target can cause."""
    tries = Retrying(
        stop=stop_after_attempt(attempts),
        retry=retry_if_exception_type(TransientDeliveryError),
        wait=_pause,
        sleep=sleep or time.sleep,
        reraise=True,
        before_sleep=lambda state: say(f"{_error_of(state)}; trying again"),
    )
    error: DeliveryError | UsageError | None = None
    try:
        tries(target.send, message)
    except (DeliveryError, UsageError) as failed:
        error = failed
    return Delivery(
        label=target.label,
        attempts=tries.statistics["attempt_number"],
        error=str(error or ""),
        transient=isinstance(error, TransientDeliveryError),
    )


def deliver_to(
    message: Letter, text: str, *, say: Say = lambda _line: None, attempts: int = ATTEMPTS
) -> Delivery:
    """As `deliver`, to a target that somebody else wrote down: one that cannot be read here has failed."""
    try:
        return deliver(message, checked_target(text), say=say, attempts=attempts)
    except UsageError as error:
        return Delivery(label=target_label(text), attempts=0, error=str(error))


def _pause(state: RetryCallState) -> float:
    own = FIRST_PAUSE_SECONDS * 2.0 ** (state.attempt_number - 1)
    error = _error_of(state)
    wanted = error.wait_seconds if isinstance(error, TransientDeliveryError) else None
    return max(own * random.uniform(1.0, 1.25), wanted or 0.0)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


# So often what is kept is sent again, and so long.
RETRY_SECONDS, KEPT_SECONDS = 1800.0, 2 * 86400.0


class Kept(Struct, frozen=True):
    """A message to be sent again: since when it waits (seconds since 1970), to whom."""

    at: float
    target: str
    message: Letter


class Outbox:
    """The messages in a folder that is made when the first one is kept, for its owner alone; by default that
    of this machine's schedules."""

    def __init__(self, folder: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder or state_folder() / "outbox", clock

    def keep(self, message: Letter, target: str) -> None:
        """To be sent again to this target."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seal = hashlib.sha256(target.encode()).hexdigest()[:8]
        kept = msgspec.json.encode(Kept(self._clock(), target, message))
        write_whole(self._folder / f"{message.id}-{seal}.json", kept)

    def send(self, say: Say) -> list[Delivery]:
        """Send all of it. What arrives, never can, or waits for two days is removed. Nothing where another
        process sends."""
        deliveries: list[Delivery] = []
        if not self._folder.is_dir():
            return deliveries
        with (self._folder / "lock").open("w") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in sorted(self._folder.glob("advisor-*.json")):
                with suppress(OSError, msgspec.MsgspecError):
                    kept = msgspec.json.decode(path.read_bytes(), type=Kept)
                    deliveries.append(self._sent(path, kept, say))
        return deliveries

    def _sent(self, path: Path, kept: Kept, say: Say) -> Delivery:
        delivery = deliver_to(kept.message, kept.target, attempts=1)
        if delivery.transient and self._clock() - kept.at < KEPT_SECONDS:
            say(f"{delivery.error}; it is tried again later")
            return delivery
        path.unlink(missing_ok=True)
        arrived = f"'{kept.message.title}' has arrived at {delivery.label}"
        say(arrived if delivery.arrived else f"{delivery.error}; given up")
        return delivery


def resend_until(stopping: threading.Event, say: Say) -> None:
    """Send what is kept twice an hour. In a thread of its own, since a server that answers slowly keeps no
    schedule waiting; what is cut off is sent again at the next look, under the same id."""
    while not stopping.is_set():
        try:
            Outbox().send(say)
        except OSError as error:
            say(f"what is kept to be sent again cannot be read or written ({error.strerror or error})")
        stopping.wait(RETRY_SECONDS)
