"""Sends a message to its targets, retries where that may help, and keeps what failed for two days.

Only what may still arrive is kept: an outage, not a folder that is missing or an address that is gone. A file
a message, readable by its owner alone: a target may hold a secret. Whoever sends takes a lock on the folder,
so that two daemons never send the same one at once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from advisor.errors import DeliveryError, UsageError
from advisor.files import state_folder
from advisor.runs.delivery.letter import Letter, Target, TransientDeliveryError
from advisor.runs.delivery.targets import parse_target, target_label

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


def checked_targets(texts: Sequence[str]) -> tuple[Target, ...]:
    """The targets behind `--send`, each as ready as can be known; `UsageError` before any work."""
    targets = tuple(parse_target(text) for text in texts)
    for target in targets:
        target.check()
    return targets


def deliver(
    message: Letter,
    targets: Sequence[Target],
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] | None = None,
    say: Say = lambda _line: None,
) -> list[Delivery]:
    """Send it to each target, up to `attempts` times with pauses of 1, 2, 4, .. s (each longer by up to a
    quarter, so that many do not come at once). One that fails keeps none of the others back."""
    deliveries = []
    for target in targets:
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
        delivery = Delivery(
            label=target.label,
            attempts=tries.statistics["attempt_number"],
            error=str(error or ""),
            transient=isinstance(error, TransientDeliveryError),
        )
        deliveries.append(delivery)
    return deliveries


def deliver_to(
    message: Letter, text: str, *, say: Say = lambda _line: None, attempts: int = ATTEMPTS
) -> Delivery:
    """As `deliver`, for a target that somebody else wrote down; one that cannot be read here has
    failed, and raises nothing."""
    try:
        (delivery,) = deliver(message, checked_targets([text]), say=say, attempts=attempts)
    except UsageError as error:
        return Delivery(label=target_label(text), attempts=0, error=str(error))
    return delivery


def _pause(state: RetryCallState) -> float:
    own = FIRST_PAUSE_SECONDS * 2.0 ** (state.attempt_number - 1)
    error = _error_of(state)
    wanted = error.wait_seconds if isinstance(error, TransientDeliveryError) else None
    return max(own * random.uniform(1.0, 1.25), wanted or 0.0)


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


# After each further failure; then it is given up.
PAUSES_SECONDS = (300.0, 1800.0, 7200.0, 21600.0, 43200.0, 86400.0)
LOOK_EVERY_SECONDS = 60.0


def queue_folder() -> Path:
    """The queue folder of this machine's schedules; need not exist."""
    return state_folder() / "outbox"


class RetryQueue:
    """The messages in a folder that is made when the first one is kept."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def keep(self, message: Letter, target: str) -> None:
        """To be sent again to this target."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seal = hashlib.sha256(target.encode()).hexdigest()[:8]
        self._write(self._folder / f"{message.id}-{seal}.json", message, target, tries=1)

    def has_due(self) -> bool:
        """Whether there is something to send now."""
        return any(entry["at"] <= self._clock() for _, entry in self._entries())

    def send_due(self, say: Say) -> list[Delivery]:
        """Send what is due. What arrives, never can, or failed for two days is removed. Nothing
        where another process sends."""
        if not self._folder.is_dir():
            return []
        with (self._folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return []
            due = ((path, entry) for path, entry in self._entries() if entry["at"] <= self._clock())
            return [self._sent(path, entry, say) for path, entry in due]

    def _sent(self, path: Path, entry: dict[str, Any], say: Say) -> Delivery:
        message, target = msgspec.convert(entry["message"], Letter), str(entry["target"])
        delivery = deliver_to(message, target, attempts=1)
        tries = entry["tries"] + 1
        if delivery.transient and tries <= len(PAUSES_SECONDS):
            self._write(path, message, target, tries)
            say(f"{delivery.error}; it is tried again later")
            return delivery
        path.unlink(missing_ok=True)
        arrived = f"'{message.title}' has arrived at {delivery.label}"
        say(arrived if delivery.arrived else f"{delivery.error}; given up")
        return delivery

    def _write(self, path: Path, message: Letter, target: str, tries: int) -> None:
        entry = {
            "at": self._clock() + PAUSES_SECONDS[tries - 1],
            "tries": tries,
            "target": target,
            "message": msgspec.to_builtins(message),
        }
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(entry, file)
        part.replace(path)

    def _entries(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The entries of readable files: a crash leaves a half-written one nowhere else."""
        for path in sorted(self._folder.glob("advisor-*.json")):
            with suppress(OSError, ValueError):
                entry = json.loads(path.read_text())
                if isinstance(entry, dict) and entry.keys() >= {"at", "tries", "target", "message"}:
                    yield path, entry


class Resender:
    """Looks once a minute, and sends in a thread of its own: a server that answers slowly keeps no
    schedule waiting. What is cut off is sent again at the next look, under the same id."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._next = clock()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """To be called often; does nothing most times."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or self._clock() < self._next:
            return
        self._next = self._clock() + LOOK_EVERY_SECONDS
        queue = RetryQueue(queue_folder())
        if queue.has_due():
            self._thread = threading.Thread(
                target=queue.send_due, args=(self._say,), name="resending", daemon=True
            )
            self._thread.start()

    def wait(self) -> None:
        """Until what is being sent has been."""
        if self._thread is not None:
            self._thread.join()
