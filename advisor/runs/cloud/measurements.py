"""Measurements on their way from an instance to its controller, one object each.

An object's name has the trial's id and a digest of the row, and is written once: sending and
collecting may be done again at any time, by anybody, and change nothing. A row that got another
run is another object; the store keeps the one that knows more.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from advisor.errors import DataError
from sweeps.formats.exporting import to_jsonl
from sweeps.formats.importing import read_line

if TYPE_CHECKING:
    from advisor.domain import Measurement
    from infra.aws.guest.result_bucket import ResultBucket
    from sweeps.store import MeasurementStore

FOLDER = "measurements/"
_LOG = logging.getLogger(__name__)


class Sender:
    """Writes rows into the bucket that are not there yet."""

    def __init__(self, result_bucket: ResultBucket) -> None:
        self._mailbox = result_bucket
        self._there = set(result_bucket.keys(FOLDER))

    def send(self, rows: Iterable[Measurement]) -> int:
        """How many were written now. What could not be sent is sent at the next call."""
        written = 0
        for row in rows:
            key, content = object_of(row)
            if key not in self._there:
                written += self._mailbox.put_once(key, content)
                self._there.add(key)
        return written


def rows_sent(result_bucket: ResultBucket) -> list[Measurement]:
    """Every row that instances have sent; `DataError` for what is none."""
    return [read_line(result_bucket.get(key) or b"") for key in result_bucket.keys(FOLDER)]


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
        """How many rows the store has got by it now."""
        fresh = [key for key in self._mailbox.keys(FOLDER) if key not in self._taken]
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
    return f"{FOLDER}{row.trial.trial_id}/{digest}.jsonl", content
