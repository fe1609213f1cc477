"""Where the instances of a sweep stand, each in an object of its own in the bucket."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from advisor.errors import AdvisorError, one_line
from infra.aws.tags import time_text

if TYPE_CHECKING:
    from pathlib import Path

    from infra.aws.clock import Clock
    from infra.aws.guest.result_bucket import ResultBucket

FOLDER = "guests/"
SCHEMA = "advisor.guest-state/1"
_LOG = logging.getLogger(__name__)
_LOG_BYTES = 2**20
_SAID = 500


class Phase(StrEnum):
    """What an instance does."""

    STARTED = "started"
    MOUNTED = "mounted"
    SWEEPING = "sweeping"
    ENDED = "ended"


class End(StrEnum):
    """Why it has ended: the sweep came to its end, or did not; the spot market took the instance
    back; its time was over."""

    NOT_YET = ""
    DONE = "done"
    FAILED = "failed"
    SPOT = "spot"
    EXPIRY = "expiry"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestState:
    """One instance; `exit_code` is that of `advisor sweep run`, `said` the last line of it."""

    instance_id: str
    phase: Phase
    at: str
    end: End = End.NOT_YET
    exit_code: int | None = None
    said: str = ""


class Diary:
    """What one instance tells of itself. A bucket that does not answer stops no sweep."""

    def __init__(self, result_bucket: ResultBucket, instance_id: str, clock: Clock) -> None:
        self._mailbox = result_bucket
        self._instance_id = instance_id
        self._clock = clock

    def note(
        self, phase: Phase, end: End = End.NOT_YET, exit_code: int | None = None, said: str = ""
    ) -> None:
        """Tell where it stands."""
        state = GuestState(
            instance_id=self._instance_id, phase=phase, at=time_text(self._clock.now()),
            end=end, exit_code=exit_code, said=one_line(said)[:_SAID],
        )  # fmt: skip
        document = json.dumps({"schema": SCHEMA, **asdict(state)})
        self._put(f"{FOLDER}{self._instance_id}.json", document.encode())

    def keep_log(self, log: Path) -> str:
        """Send the end of the sweep's output; returns its last line."""
        try:
            content = log.read_bytes()[-_LOG_BYTES:]
        except OSError:
            return ""
        self._put(f"{FOLDER}{self._instance_id}.log", content)
        lines = content.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _put(self, key: str, content: bytes) -> None:
        try:
            self._mailbox.put(key, content)
        except AdvisorError as error:
            _LOG.warning("could not write %s: %s", key, error)


def guest_states(result_bucket: ResultBucket) -> list[GuestState]:
    """All instances that have told of themselves; what cannot be read is passed over."""
    states = []
    for key in result_bucket.keys(FOLDER):
        content = result_bucket.get(key) if key.endswith(".json") else None
        if content is not None and (state := _state(content)):
            states.append(state)
    return states


def _state(content: bytes) -> GuestState | None:
    try:
        told = json.loads(content)
        return GuestState(
            instance_id=str(told["instance_id"]), phase=Phase(told["phase"]), at=str(told["at"]),
            end=End(told["end"]), exit_code=told["exit_code"], said=str(told["said"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None
