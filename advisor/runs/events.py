"""Events of a started sweep, read from its log as it grows.

An event's id is the position after its line: the file's inode (a full log is renamed) and the offset. So any
process can continue where another one stopped."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.errors import one_line
from advisor.sweeps.watching.logfile import log_files

_POSITION = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_MOST_BYTES = 2**20  # read in one look
# Names for clients of the log's events (`stored` gets its name by its status). Other events are for debugging
# only.
_CLIENT_NAMES = {
    "sweep_began": "began",
    "began": "trial_started",
    "run_lost": "trial_lost",
    "left_to_another": "trial_left",
    "measured_meanwhile": "trial_left",
    "kept_in_file": "trial_kept_in_file",
}
_INNER = ("level", "pid", "event", "database", "executor", "file")


class SweepEvent(Struct, frozen=True):
    """One event: its id, what happened, and its facts."""

    id: str
    name: str
    facts: Mapping[str, Any]


class EventLog:
    """The events of a log, which need not exist yet, after the event `last_id`. With `says` the log is plain
    text, and each line is an event."""

    def __init__(self, path: Path, last_id: str | None = None, *, says: bool = False) -> None:
        self._path, self._event_of = path, _event_of_text if says else _event_of
        position = _POSITION.fullmatch(last_id or "")
        self._inode, self._offset = (int(position[1], 16), int(position[2], 16)) if position else (0, 0)

    def look(self) -> list[SweepEvent]:
        """Events since the last call, from at most `_MOST_BYTES` of the log."""
        files: dict[int, Path] = {}  # by inode
        for file in log_files(self._path):
            with suppress(OSError):
                files[file.stat().st_ino] = file
        # If the file of `last_id` is gone (renamed too often), or there is no `last_id`: begin at the oldest.
        begins = list(files).index(self._inode) if self._inode in files else 0
        self._offset = self._offset if self._inode in files else 0
        for inode, file in list(files.items())[begins:]:
            if inode != self._inode:
                self._inode, self._offset = inode, 0
            if events := list(self._read(file)):
                return events
        return []

    def _read(self, file: Path) -> Iterator[SweepEvent]:
        try:
            with file.open("rb") as log:
                state = os.fstat(log.fileno())
                if state.st_ino != self._inode:
                    return  # renamed just now; the next call finds it
                self._offset = self._offset if self._offset <= state.st_size else 0
                log.seek(self._offset)
                part = log.read(_MOST_BYTES)
        except OSError:
            return
        for line in part.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                return  # the line is still being written
            self._offset += len(line)
            event = self._event_of(line, f"{self._inode:x}-{self._offset:x}")
            if event:
                yield event


def _event_of(line: bytes, position: str) -> SweepEvent | None:
    try:
        facts = json.loads(line)
        event = facts["event"]
    except (ValueError, TypeError, KeyError):
        return None  # torn by a power cut
    name = _CLIENT_NAMES.get(event)
    if event == "stored":
        name = "trial_done" if facts.get("status") == "ok" else "trial_failed"
    if name is None:
        return None
    return SweepEvent(position, name, {key: value for key, value in facts.items() if key not in _INNER})


def _event_of_text(line: bytes, position: str) -> SweepEvent | None:
    text = one_line(line.decode(errors="replace"))
    return SweepEvent(position, "said", {"text": text}) if text else None
