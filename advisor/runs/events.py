"""Events of a started sweep, read from its log as it grows; resumable.

An event's id is the place behind its line: the file (its inode, since a log that is full is renamed) and the
offset in it. So any process can go on for a client that another one served."""

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
from advisor.sweeps.watching.logfile import OLDER_FILES

_PLACE = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_MOST_BYTES = 2**20  # of one look
# Of the log's events, those that a client is told (`stored` by its status); the others are for whoever mends
# something.
_TOLD = {
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
    """The events of a log (it need not exist yet) behind an event's id; `says`: the log is plain text, and
    each line of it an event."""

    def __init__(self, path: Path, last_id: str | None = None, *, says: bool = False) -> None:
        self._path, self._event_of = path, _said if says else _event_of
        position = _PLACE.fullmatch(last_id or "")
        self._inode, self._offset = (int(position[1], 16), int(position[2], 16)) if position else (0, 0)

    def look(self) -> list[SweepEvent]:
        """Events since the last look, up to a mebibyte of the log."""
        files: dict[int, Path] = {}  # the log and the older ones before it, the oldest first, by inode
        for number in range(OLDER_FILES, -1, -1):
            file = self._path.with_name(f"{self._path.name}.{number}") if number else self._path
            with suppress(OSError):
                files[file.stat().st_ino] = file
        # Without its own file it has never begun, or was turned away so often that it is gone.
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
                    return  # turned at this very moment; the next look finds it
                self._offset = self._offset if self._offset <= state.st_size else 0
                log.seek(self._offset)
                part = log.read(_MOST_BYTES)
        except OSError:
            return
        for line in part.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                return  # it is being written
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
    name = _TOLD.get(event)
    if event == "stored":
        name = "trial_done" if facts.get("status") == "ok" else "trial_failed"
    if name is None:
        return None
    return SweepEvent(position, name, {key: value for key, value in facts.items() if key not in _INNER})


def _said(line: bytes, position: str) -> SweepEvent | None:
    text = one_line(line.decode(errors="replace"))
    return SweepEvent(position, "said", {"text": text}) if text else None
