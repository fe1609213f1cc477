"""Events of a started sweep, read from its log as it grows.

An event's id is the position after its line, so any process can continue where another one stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from advisor.errors import one_line

_POSITION = re.compile(r"[0-9a-f]{1,12}")
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
        self._offset = int(last_id or "0", 16) if _POSITION.fullmatch(last_id or "0") else 0

    def look(self) -> list[SweepEvent]:
        """Events since the last call, from at most `_MOST_BYTES` of the log."""
        events, part = [], b""
        with suppress(OSError), self._path.open("rb") as log:
            log.seek(self._offset)
            part = log.read(_MOST_BYTES)
        for line in part.splitlines(keepends=True):
            if not line.endswith(b"\n"):  # it is still being written
                break
            self._offset += len(line)
            if event := self._event_of(line, f"{self._offset:x}"):
                events.append(event)
        return events


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
