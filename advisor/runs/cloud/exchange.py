"""States and measurements that an instance and its controller exchange through the bucket."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from advisor.domain import Measurement
from advisor.errors import AdvisorError, DataError, one_line
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.guest.job import STATES_FOLDER
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.tags import time_text
from advisor.records import asdict
from advisor.sweeps.formats.files import read_line, to_jsonl
from advisor.sweeps.measurement_store import MeasurementStore

SCHEMA = "advisor.guest-state/1"
_LOG = logging.getLogger(__name__)
_LOG_BYTES = 2**20
_SAID = 500


class Phase(StrEnum):
    """The phases of an instance's work."""

    STARTED = "started"
    MOUNTED = "mounted"
    INSTALLED = "installed"
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


class GuestState(Struct, frozen=True, kw_only=True):
    """One instance; `exit_code` is that of `advisor sweep run`, `said` the last line of it."""

    instance_id: str
    phase: Phase
    at: str
    end: End = End.NOT_YET
    exit_code: int | None = None
    said: str = ""


class StateLog:
    """The reports of one instance about itself. A bucket that does not answer stops no sweep."""

    def __init__(self, result_bucket: ResultBucket, instance_id: str, clock: Clock) -> None:
        self._mailbox = result_bucket
        self._instance_id = instance_id
        self._clock = clock

    def note(
        self, phase: Phase, end: End = End.NOT_YET, exit_code: int | None = None, said: str = ""
    ) -> None:
        """Tell where it stands."""
        state = GuestState(
            instance_id=self._instance_id,
            phase=phase,
            at=time_text(self._clock.now()),
            end=end,
            exit_code=exit_code,
            said=one_line(said)[:_SAID],
        )
        document = json.dumps({"schema": SCHEMA, **asdict(state)})
        self._put(f"{STATES_FOLDER}{self._instance_id}.json", document.encode())

    def keep_log(self, log: Path) -> str:
        """Send the end of the sweep's output; returns its last line."""
        try:
            content = log.read_bytes()[-_LOG_BYTES:]
        except OSError:
            return ""
        self._put(f"{STATES_FOLDER}{self._instance_id}.log", content)
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
    for key in result_bucket.keys(STATES_FOLDER):
        content = result_bucket.get(key) if key.endswith(".json") else None
        if content is not None and (state := _state(content)):
            states.append(state)
    return states


def _state(content: bytes) -> GuestState | None:
    try:
        return msgspec.json.decode(content, type=GuestState)
    except msgspec.MsgspecError:
        return None


MEASUREMENTS_FOLDER = "measurements/"
ROW, ANCHOR = ".jsonl", ".json"


class Sender:
    """Writes rows into the bucket that are not there yet."""

    def __init__(self, result_bucket: ResultBucket) -> None:
        self._mailbox = result_bucket
        self._there = set(result_bucket.keys(MEASUREMENTS_FOLDER))

    def send(self, rows: Iterable[Measurement]) -> int:
        """The number of rows written now. Unsent ones are sent at the next call."""
        written = 0
        for row in rows:
            key, content = object_of(row)
            if key not in self._there:
                written += self._mailbox.put_once(key, content)
                self._there.add(key)
        return written


def rows_sent(result_bucket: ResultBucket) -> list[Measurement]:
    """Every row that instances have sent; `DataError` for what is none."""
    return [
        read_line(result_bucket.get(key) or b"")
        for key in result_bucket.keys(MEASUREMENTS_FOLDER)
        if key.endswith(ROW)
    ]


class Collector:
    """Takes what instances have sent into a store, each object once; a row that began at `since`
    or later takes the place of one from before it.

    `refused` has what is no measurement, and why, by name: it keeps no other one back.
    """

    def __init__(self, result_bucket: ResultBucket, since: datetime | None = None) -> None:
        self._mailbox = result_bucket
        self._since = since
        self._taken: set[str] = set()
        self.refused: dict[str, str] = {}

    def collect(self, store: MeasurementStore) -> int:
        """The number of rows that the store has got by it now."""
        keys = self._mailbox.keys(MEASUREMENTS_FOLDER)
        fresh = [key for key in keys if key.endswith(ROW) and key not in self._taken]
        rows = [row for key in fresh if (row := self._row(key)) is not None]
        done = store.append_all(rows, since=self._since)
        self._taken.update(fresh)
        return done.added + done.replaced

    def _row(self, key: str) -> Measurement | None:
        try:
            return read_line(self._mailbox.get(key) or b"")
        except DataError as error:
            self.refused[key] = str(error)
            _LOG.warning("%s in the bucket is no measurement: %s", key, error)
            return None


def object_of(row: Measurement) -> tuple[str, bytes]:
    """The name and content of a row's object."""
    content = to_jsonl([row]).encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{MEASUREMENTS_FOLDER}{row.trial.trial_id}/{digest}{ROW}", content


def send_anchor(result_bucket: ResultBucket, content: bytes) -> None:
    """Write an endpoint's anchor; once, however often it is sent."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    result_bucket.put_once(f"{MEASUREMENTS_FOLDER}{digest}{ANCHOR}", content)


def anchors_sent(result_bucket: ResultBucket) -> list[dict[str, Any]]:
    """Every anchor that instances have sent, the latest one last; `DataError` for what is none."""
    keys = [key for key in result_bucket.keys(MEASUREMENTS_FOLDER) if key.endswith(ANCHOR)]
    try:
        anchors = [json.loads(result_bucket.get(key) or b"") for key in keys]
        return sorted(anchors, key=lambda anchor: str(anchor["measured_at"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("the bucket holds what is no anchor: {error}", error=error) from error
