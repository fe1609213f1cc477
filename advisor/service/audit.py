"""The audit log: who changed or was refused what, one JSON object a line, only ever appended.

Any number of processes write into one file: each line is one `write` to a file opened with O_APPEND, which
the kernel puts whole behind what is there. Everything that comes from outside is cut to length and written as
ASCII JSON, so that no text can begin a line of its own or steer a terminal. Secrets and bodies have no field
that they could stand in."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from advisor.errors import DataError
from advisor.files import user_folder
from advisor.store.keys import Scope

if TYPE_CHECKING:
    from advisor.service.visits import Visit
# A line stays below the 4096 bytes that even a pipe takes whole.
_MOST_CHARACTERS = 200
_WHO = ("event", "key", "name", "address")
_FIELDS = (*_WHO, "method", "route", "status", "subject", "scope", "reason", "count")

Value = str | int | float | None


def default_audit_log() -> Path:
    """`audit.jsonl` in the user's data directory."""
    return user_folder() / "audit.jsonl"


class AuditLog:
    """Appends to a file that only its owner may read; a file that was rotated away is made anew."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path else default_audit_log()

    def check(self) -> None:
        """`DataError` where no line could be written, found out at the start."""
        self._append(b"")

    def write(self, event: str, **facts: Value) -> None:
        """Append one line; `DataError` where it cannot be written."""
        self._append(line_of({"event": event, **facts}, datetime.now(UTC)))

    def _append(self, line: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0, opener=_open_own) as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    os.fchmod(file.fileno(), 0o600)
                if file.write(line) != len(line):  # the disk is full: the next one must not join it
                    file.write(b"\n")
        except OSError as error:
            raise DataError(
                "cannot write the audit log '{path}' ({reason})",
                path=self.path,
                reason=error.strerror,
                hint="make it a file of your own that can be written, or name another one with --audit-log",
            ) from error


def _open_own(path: str, flags: int) -> int:
    """Open no link that somebody laid there, and no pipe that nobody reads."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def line_of(facts: Mapping[str, Value], moment: datetime) -> bytes:
    """One line: the moment, then the known fields that have a value."""
    unknown = facts.keys() - set(_FIELDS)
    if unknown:
        raise TypeError(f"the audit log has no field {', '.join(sorted(unknown))}")
    record: dict[str, Value] = {"at": moment.isoformat(timespec="milliseconds")}
    for name in _FIELDS:
        value = facts.get(name)
        if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
            value = f"{value[: _MOST_CHARACTERS - 3]}..."
        if value is not None:
            record[name] = value
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


_REFUSED = (401, 403, 413, 421, 429)
# Strangers must not fill the disk: more refusals are only counted.
_REFUSALS = RateLimitItemPerSecond(100, 10)
_LOG = logging.getLogger("advisor.service")


class Auditor:
    """Writes requests into the audit log, for one worker process: each change, each refusal."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._left_out = 0

    def note(self, visit: Visit, status: int) -> None:
        """Write the request down if it changed something, or was refused."""
        if visit.refusal or status in _REFUSED:
            self._note_refusal(visit, status)
        elif visit.changes and visit.needed not in (None, Scope.READ):
            self.write("request", visit, status)

    def write(self, event: str, visit: Visit, status: int | None = None) -> None:
        """A line about the request."""
        caller = visit.caller
        parameters = visit.scope.get("path_params") or {}
        self._append(
            event,
            {
                "key": caller.key_id if caller else None,
                "name": (caller.name or caller.by) if caller else None,
                "address": visit.address,
                "method": visit.method,
                "route": visit.route or visit.path,
                "status": status or None,
                "subject": visit.subject or " ".join(map(str, parameters.values())) or None,
                "scope": visit.needed.value if visit.needed else None,
                "reason": visit.refusal or None,
            },
        )

    def _note_refusal(self, visit: Visit, status: int) -> None:
        if not self._limiter.hit(_REFUSALS):
            self._left_out += 1
            return
        if self._left_out:
            self._append("refused-more", {"count": self._left_out})
            self._left_out = 0
        self.write("refused", visit, status)

    def _append(self, event: str, facts: Mapping[str, Value]) -> None:
        """A log that cannot be written stops nobody: what was requested has happened by then."""
        try:
            self._log.write(event, **facts)
        except DataError as error:
            _LOG.error("%s", error)
