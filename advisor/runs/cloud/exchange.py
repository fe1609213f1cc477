"""What instances and their controller exchange through the bucket: states, measurements, starts, logs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from advisor.domain import Measurement
from advisor.errors import AdvisorError, DataError, one_line
from advisor.infra.aws.asking import Aws, Clock
from advisor.infra.aws.guest.job import STATES_FOLDER
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.launch_options import LaunchedMachine, checked_sweep_id
from advisor.infra.aws.machines import console_output
from advisor.infra.aws.preflight import bucket_region
from advisor.infra.aws.tags import time_text
from advisor.sweeps.formats import read_line, to_jsonl
from advisor.sweeps.measurement_store import MeasurementStore

# Kinds of an instance's logs: failures before the advisor ran there (`user_data.sh` sends them), and EC2's
# copy of its console. The log of its work has neither of these words before `.log`.
BOOT, CONSOLE = ".boot", ".console"
_LOG_END = ".log"


class InstanceLog(Struct, frozen=True, kw_only=True):
    """A log of an instance; `key` is its key in the bucket."""

    key: str
    text: str

    @property
    def last_line(self) -> str:
        """The last line that is not blank; empty if there is none."""
        return next((line for line in reversed(self.text.splitlines()) if line.strip()), "")


def logs_of_silent(aws: Aws, machine: LaunchedMachine, result_bucket: ResultBucket) -> list[InstanceLog]:
    """Logs of an instance that ended without a report. Its console is saved to the bucket, since EC2 forgets
    it within an hour. `AdvisorError` if EC2 or the bucket refuses."""
    boot = _log(result_bucket, f"{STATES_FOLDER}{machine.id}{BOOT}{_LOG_END}")
    logs = [boot] if boot else []
    if text := console_output(aws, machine):
        key = f"{STATES_FOLDER}{machine.id}{CONSOLE}{_LOG_END}"
        result_bucket.put(key, text.encode())
        logs.append(InstanceLog(key=key, text=text))
    return logs


def logs_of_sweep(aws: Aws, bucket: str, sweep_id: str) -> list[InstanceLog]:
    """The logs of a sweep's instances in the bucket; `DataError` if there is none."""
    prefix = f"sweeps/{checked_sweep_id(sweep_id)}"
    home, finding = bucket_region(aws, "us-east-1", bucket)
    if not finding.ok:
        raise DataError(finding.text, hint=finding.mend)
    objects = ResultBucket(aws, home, bucket, prefix)
    every = objects.keys()
    keys = [key for key in every if f"/{STATES_FOLDER}" in key and key.endswith(_LOG_END)]
    logs = [log for key in keys if (log := _log(objects, key))]
    if not logs:
        raise DataError(
            f"no instance of {sweep_id} has left a log in {bucket}",
            hint="an instance writes one when it ends; `advisor cloud status` lists those that run",
        )
    return logs


def _log(result_bucket: ResultBucket, key: str) -> InstanceLog | None:
    content = result_bucket.get(key)
    return InstanceLog(key=key, text=content.decode(errors="replace")) if content else None


SCHEMA = "advisor.guest-state/1"
_LOG = logging.getLogger(__name__)
_LOG_BYTES = 2**20
_SAID = 500


class Phase(StrEnum):
    """Phase of an instance's work."""

    STARTED = "started"
    MOUNTED = "mounted"
    INSTALLED = "installed"
    SWEEPING = "sweeping"
    ENDED = "ended"


class End(StrEnum):
    """The reason why an instance's work ended: done, failed, spot interruption, or its time was over."""

    NOT_YET = ""
    DONE = "done"
    FAILED = "failed"
    SPOT = "spot"
    EXPIRY = "expiry"


class GuestState(Struct, frozen=True, kw_only=True):
    """An instance's report on itself; `exit_code` and `said` (the last line) are from its command."""

    schema: str = SCHEMA
    instance_id: str
    phase: Phase
    at: str
    end: End = End.NOT_YET
    exit_code: int | None = None
    said: str = ""


class StateLog:
    """Writes an instance's reports to the bucket; if that fails, the sweep goes on."""

    def __init__(self, result_bucket: ResultBucket, instance_id: str, clock: Clock) -> None:
        self._bucket, self._instance_id, self._clock = result_bucket, instance_id, clock

    def note(
        self, phase: Phase, end: End = End.NOT_YET, exit_code: int | None = None, said: str = ""
    ) -> None:
        """Report the current phase."""
        state = GuestState(
            instance_id=self._instance_id,
            phase=phase,
            at=time_text(self._clock.now()),
            end=end,
            exit_code=exit_code,
            said=one_line(said)[:_SAID],
        )
        self._put(f"{STATES_FOLDER}{self._instance_id}.json", msgspec.json.encode(state))

    def keep_log(self, log: Path) -> str:
        """Send the last mebibyte of the sweep's output; returns its last line."""
        try:
            content = log.read_bytes()[-_LOG_BYTES:]
        except OSError:
            return ""
        self._put(f"{STATES_FOLDER}{self._instance_id}.log", content)
        lines = content.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _put(self, key: str, content: bytes) -> None:
        try:
            self._bucket.put(key, content)
        except AdvisorError as error:
            _LOG.warning("could not write %s: %s", key, error)


def guest_states(result_bucket: ResultBucket) -> list[GuestState]:
    """The reports of all instances; unreadable ones are skipped."""
    states = []
    for key in result_bucket.keys(STATES_FOLDER):
        content = result_bucket.get(key) if key.endswith(".json") else None
        with suppress(msgspec.MsgspecError):
            states += [] if content is None else [msgspec.json.decode(content, type=GuestState)]
    return states


MEASUREMENTS_FOLDER = "measurements/"
ROW, ANCHOR = ".jsonl", ".json"
_LAST_TRIES, _PAUSE_SECONDS = 5, 2.0


class Sender:
    """Copies the content of a file on the instance (a database's rows, or an anchor) to the bucket, each
    object once."""

    def __init__(
        self, result_bucket: ResultBucket, path: Path, objects: Callable[[], Iterable[tuple[str, bytes]]]
    ) -> None:
        self._bucket, self._path, self._objects = result_bucket, path, objects
        self._sent_keys = set(result_bucket.keys(MEASUREMENTS_FOLDER))
        self._seen: list[tuple[int, int]] = []

    def send(self) -> bool:
        """Send new objects if the file has changed; False if the bucket does not accept them now."""
        # Times and sizes of a SQLite file and its log: one of them changes with every row.
        seen = []
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(OSError):
                state = path.stat()
                seen.append((state.st_mtime_ns, state.st_size))
        if seen == self._seen:
            return True
        try:
            for key, content in self._objects():
                if key not in self._sent_keys:
                    self._bucket.put_once(key, content)
                    self._sent_keys.add(key)
        except AdvisorError as error:
            _LOG.warning("measurements are not sent yet: %s", error)
            return False
        self._seen = seen
        return True

    def send_the_rest(self, sleep: Callable[[float], None]) -> None:
        """Send all that is left; `DataError` if several attempts fail."""
        self._seen = []
        for _ in range(_LAST_TRIES):
            if self.send():
                return
            sleep(_PAUSE_SECONDS)
        raise DataError("the bucket took not all of what was measured", hint="see the warnings above")


def rows_sent(result_bucket: ResultBucket) -> list[Measurement]:
    """All rows that instances have sent; `DataError` for an unreadable one."""
    return [read_line(result_bucket.get(key) or b"") for key in _sent(result_bucket, ROW)]


def _sent(result_bucket: ResultBucket, end: str) -> list[str]:
    return [key for key in result_bucket.keys(MEASUREMENTS_FOLDER) if key.endswith(end)]


class Collector:
    """Copies the rows that instances have sent into a store, each object once; rows that began at `since` or
    later replace older ones.

    `refused` has the keys of unreadable objects, with reasons; the others are still copied."""

    def __init__(self, result_bucket: ResultBucket, since: datetime | None = None) -> None:
        self._bucket = result_bucket
        self._since = since
        self._taken: set[str] = set()
        self.refused: dict[str, str] = {}

    def collect(self, store: MeasurementStore) -> int:
        """Copy new rows into the store; returns how many it added or replaced."""
        fresh, rows = [key for key in _sent(self._bucket, ROW) if key not in self._taken], []
        for key in fresh:
            try:
                rows.append(read_line(self._bucket.get(key) or b""))
            except DataError as error:
                self.refused[key] = str(error)
                _LOG.warning("%s in the bucket is no measurement: %s", key, error)
        done = store.append_all(rows, since=self._since)
        self._taken.update(fresh)
        return done.added + done.replaced


def object_of(row: Measurement) -> tuple[str, bytes]:
    """Key and content of the object for a row."""
    content = to_jsonl([row]).encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return f"{MEASUREMENTS_FOLDER}{row.trial.trial_id}/{digest}{ROW}", content


def object_of_anchor(content: bytes) -> tuple[str, bytes]:
    """Key and content of the object for an endpoint's anchor."""
    return f"{MEASUREMENTS_FOLDER}{hashlib.sha256(content).hexdigest()[:16]}{ANCHOR}", content


def anchors_sent(result_bucket: ResultBucket) -> list[dict[str, Any]]:
    """All anchors that instances have sent, latest last; `DataError` for an unreadable one."""
    try:
        anchors = [json.loads(result_bucket.get(key) or b"") for key in _sent(result_bucket, ANCHOR)]
        return sorted(anchors, key=lambda anchor: str(anchor["measured_at"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"the bucket holds what is no anchor: {error}") from error
