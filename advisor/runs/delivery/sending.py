"""Sends messages to targets, with retries, and keeps undelivered ones in an outbox for two days.

The outbox keeps a message after a passing failure (an outage), not after a permanent one (a missing folder, a
deleted address). Sending locks its folder, so that two daemons never send the same message at once."""

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
    """The result of sending to one target, shown as `label`; `error` is empty if the message arrived,
    `transient` says whether a later attempt may succeed."""

    label: str
    attempts: int
    error: str = ""
    transient: bool = False

    @property
    def arrived(self) -> bool:
        """Whether the target has accepted the message."""
        return not self.error


def checked_target(text: str) -> Target:
    """The target in a `--send` option; `UsageError` if it already cannot work."""
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
    """Send a message, up to `attempts` times with pauses of 1, 2, 4, .. s (each up to a quarter longer at
    random, so that many senders do not retry at once). A target's failure is in the result, never raised."""
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
    """As `deliver`, to a stored target text; one that cannot be used here is a failed delivery."""
    try:
        return deliver(message, checked_target(text), say=say, attempts=attempts)
    except UsageError as error:
        return Delivery(label=target_label(text), attempts=0, error=str(error))


def _pause(state: RetryCallState) -> float:
    pause = FIRST_PAUSE_SECONDS * 2.0 ** (state.attempt_number - 1)
    error = _error_of(state)
    requested = error.wait_seconds if isinstance(error, TransientDeliveryError) else None
    return max(pause * random.uniform(1.0, 1.25), requested or 0.0)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


# Seconds between two sendings of the outbox, and for which it keeps a message.
RETRY_SECONDS, KEPT_SECONDS = 1800.0, 2 * 86400.0


class Kept(Struct, frozen=True):
    """A message in the outbox: since when (seconds since 1970), for which target."""

    at: float
    target: str
    message: Letter


class Outbox:
    """Undelivered messages in a folder that only its owner can read (default: in the user's state folder)."""

    def __init__(self, folder: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder or state_folder() / "outbox", clock

    def keep(self, message: Letter, target: str) -> None:
        """Keep a message to send it to this target again."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seal = hashlib.sha256(target.encode()).hexdigest()[:8]
        kept = msgspec.json.encode(Kept(self._clock(), target, message))
        write_whole(self._folder / f"{message.id}-{seal}.json", kept)

    def send(self, say: Say) -> list[Delivery]:
        """Send all messages. Those that arrive, never can, or are too old are removed. While another process
        sends, this does nothing."""
        deliveries: list[Delivery] = []
        if not self._folder.is_dir():
            return deliveries
        with (self._folder / "lock").open("w") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in sorted(self._folder.glob("advisor-*.json")):
                with suppress(OSError, msgspec.MsgspecError):
                    kept = msgspec.json.decode(path.read_bytes(), type=Kept)
                    deliveries.append(self._delivery(path, kept, say))
        return deliveries

    def _delivery(self, path: Path, kept: Kept, say: Say) -> Delivery:
        delivery = deliver_to(kept.message, kept.target, attempts=1)
        if delivery.transient and self._clock() - kept.at < KEPT_SECONDS:
            say(f"{delivery.error}; it is tried again later")
            return delivery
        path.unlink(missing_ok=True)
        arrived = f"'{kept.message.title}' has arrived at {delivery.label}"
        say(arrived if delivery.arrived else f"{delivery.error}; given up")
        return delivery


def resend_until(stopping: threading.Event, say: Say) -> None:
    """Send the outbox twice an hour until `stopping`. Run it in a thread, so that a slow server delays no
    schedule; an interrupted message is sent again next time, under the same id."""
    while not stopping.is_set():
        try:
            Outbox().send(say)
        except OSError as error:
            say(f"what is kept to be sent again cannot be read or written ({error.strerror or error})")
        stopping.wait(RETRY_SECONDS)
