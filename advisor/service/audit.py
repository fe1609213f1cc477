"""The audit log: who changed what or was refused what, as one JSON object per line.

Any number of processes may write to one file: each line is one `write` to a file opened with O_APPEND, which
the kernel appends in one piece. Text from clients is cut to length and written as ASCII JSON, so that it can
neither begin a new line nor send control codes to a terminal. No field holds secrets or request bodies."""

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
# The longest text in a field; it keeps a line below 4096 bytes, which even a pipe takes in one piece.
_MOST_CHARACTERS = 200
_WHO = ("event", "key", "name", "address")
_FIELDS = (*_WHO, "method", "route", "status", "subject", "scope", "reason", "count")

Value = str | int | float | None


def default_audit_log() -> Path:
    """`audit.jsonl` in the user's data directory."""
    return user_folder() / "audit.jsonl"


class AuditLog:
    """Appends to a file that only its owner may read. The file may be rotated away at any time."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path else default_audit_log()

    def check(self) -> None:
        """Raise `DataError` if the file cannot be written, so that a service fails when it starts."""
        self._append(b"")

    def write(self, event: str, **facts: Value) -> None:
        """Append one line. Raises `DataError` if that fails."""
        self._append(line_of({"event": event, **facts}, datetime.now(UTC)))

    def _append(self, line: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab", buffering=0, opener=_open_own) as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    os.fchmod(file.fileno(), 0o600)
                if file.write(line) != len(line):  # the disk is full: end the incomplete line
                    file.write(b"\n")
        except OSError as error:
            raise DataError(
                "cannot write the audit log '{path}' ({reason})",
                path=self.path,
                reason=error.strerror,
                hint="make it a file of your own that can be written, or name another one with --audit-log",
            ) from error


def _open_own(path: str, flags: int) -> int:
    """Open the file for its owner alone. Fails for a symbolic link, and for a pipe without a reader."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def line_of(facts: Mapping[str, Value], moment: datetime) -> bytes:
    """One line of the log: the time, then those of `_FIELDS` that have a value."""
    record: dict[str, Value] = {"at": moment.isoformat(timespec="milliseconds")}
    for name in _FIELDS:
        value = facts.get(name)
        if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
            value = f"{value[: _MOST_CHARACTERS - 3]}..."
        if value is not None:
            record[name] = value
    return json.dumps(record, ensure_ascii=True).encode() + b"\n"


_REFUSED = (401, 403, 413, 421, 429)
# At most 100 refusals in 10 s are written, so that nobody can fill the disk; the rest is only counted.
_REFUSALS = RateLimitItemPerSecond(100, 10)
_LOG = logging.getLogger("advisor.service")


class Auditor:
    """Writes the changes and refusals of one worker process to the audit log."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self._left_out = 0

    def note(self, visit: Visit, status: int) -> None:
        """Write a line about the request if it changed something or was refused."""
        if visit.refusal or status in _REFUSED:
            self._note_refusal(visit, status)
        elif visit.changes and visit.needed not in (None, Scope.READ):
            self.write("request", visit, status)

    def write(self, event: str, visit: Visit, status: int | None = None) -> None:
        """Write a line about the request; `event` says what happened."""
        caller = visit.caller
        parameters = visit.scope.get("path_params") or {}
        self._append(
            event,
            key=caller.key_id if caller else None,
            name=(caller.name or caller.authenticated_by) if caller else None,
            address=visit.address,
            method=visit.method,
            route=visit.route or visit.path,
            status=status or None,
            subject=visit.subject or " ".join(map(str, parameters.values())) or None,
            scope=visit.needed,
            reason=visit.refusal or None,
        )

    def _note_refusal(self, visit: Visit, status: int) -> None:
        if not self._limiter.hit(_REFUSALS):
            self._left_out += 1
            return
        if self._left_out:
            self._append("refused-more", count=self._left_out)
            self._left_out = 0
        self.write("refused", visit, status)

    def _append(self, event: str, **facts: Value) -> None:
        """Append a line. A failure is only logged, since the request has been carried out by then."""
        try:
            self._log.write(event, **facts)
        except DataError as error:
            _LOG.error("%s", error)
