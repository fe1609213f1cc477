"""The audit log: who changed or was refused what, one JSON object a line, only ever appended.

Any number of processes write into one file: each line is one `write` to a file opened with
O_APPEND, which the kernel puts whole behind what is there. Everything that comes from outside is
cut to length and written as ASCII JSON, so that no text can begin a line of its own or steer a
terminal. Secrets and bodies have no field that they could stand in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from advisor.errors import DataError
from advisor.places import user_folder

# A line stays below the 4096 bytes that even a pipe takes whole.
_MOST_CHARACTERS = 200
_FIELDS = (
    "event",
    "key",
    "name",
    "address",
    "method",
    "route",
    "status",
    "subject",
    "scope",
    "reason",
    "count",
)

Value = str | int | float | None


def default_audit_log() -> Path:
    """`audit.jsonl` in the user's data directory."""
    return user_folder() / "audit.jsonl"


class AuditLog:
    """Appends to a file that only its owner may read; a file that was rotated away is made anew."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_audit_log()

    def check(self) -> None:
        """`DataError` where no line could be written: told at the start, not at the first one."""
        os.close(self._open())

    def write(self, event: str, **facts: Value) -> None:
        """Append one line; `DataError` where it cannot be written."""
        line = line_of({"event": event, **facts}, datetime.now(UTC))
        descriptor = self._open()
        try:
            self._append(descriptor, line)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise self._trouble(error) from error
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        except OSError as error:
            os.close(descriptor)
            raise self._trouble(error) from error
        return descriptor

    def _append(self, descriptor: int, line: bytes) -> None:
        try:
            written = os.write(descriptor, line)
            if written != len(line):  # the disk is full: what stands there must not join the next
                os.write(descriptor, b"\n")
        except OSError as error:
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> DataError:
        return DataError(
            f"cannot write the audit log '{self.path}' ({error.strerror}); make it a file of your "
            "own that can be written, or name another one with --audit-log"
        )


def line_of(facts: Mapping[str, Value], moment: datetime) -> bytes:
    """One line: the moment, then the known fields that have a value."""
    unknown = facts.keys() - set(_FIELDS)
    if unknown:
        raise TypeError(f"the audit log has no field {', '.join(sorted(unknown))}")
    record: dict[str, Value] = {"at": moment.isoformat(timespec="milliseconds")}
    record |= {name: _cut(facts[name]) for name in _FIELDS if facts.get(name) is not None}
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


def _cut(value: Value) -> Value:
    if not isinstance(value, str) or len(value) <= _MOST_CHARACTERS:
        return value
    return f"{value[: _MOST_CHARACTERS - 3]}..."
