"""A campaign's file: one row per line, written to disk before the next cell begins."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from advisor.errors import DataError

Row = dict[str, Any]
Kept = TypeVar("Kept")


class Records(Generic[Kept]):
    """Rows in a JSONL file that outlives the run; for repeated keys the last line counts.

    A last line left incomplete by a killed run is cut off; any other unreadable line raises a `DataError`
    with its line number, and the file is not changed."""

    def __init__(
        self,
        path: Path,
        key_of: Callable[[Kept], str],
        read: Callable[[Any], Kept] = lambda row: row,
        written: Callable[[Kept], Any] = lambda row: row,
    ) -> None:
        self.path = path
        self._key_of, self._read_row, self._written = key_of, read, written
        self._rows: dict[str, Kept] = {}
        self._read()

    @property
    def done(self) -> Mapping[str, Kept]:
        """Rows by key that need not be measured again; a failed cell counts until its line is deleted."""
        return self._rows

    def append(self, row: Kept) -> None:
        """Append a row durably; the file stays readable even if the process is killed at any moment."""
        line = json.dumps(self._written(row)).encode() + b"\n"
        try:
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(
                "cannot write '{path}' ({strerror})",
                hint="what is in it stays, run again when there is room",
                path=self.path,
                strerror=error.strerror,
            ) from error
        self._rows[self._key_of(row)] = row

    def _read(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = self.path.read_bytes() if self.path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            for number, line in enumerate(whole.splitlines(), start=1):
                if line.strip():
                    self._take(number, line)
            if len(whole) < len(content):
                os.truncate(self.path, len(whole))
        except OSError as error:
            raise DataError(
                "cannot use '{path}' ({strerror})",
                hint="name another file with --out",
                path=self.path,
                strerror=error.strerror,
            ) from error

    def _take(self, number: int, line: bytes) -> None:
        try:
            row = self._read_row(json.loads(line))
            self._rows[self._key_of(row)] = row
        except (ValueError, KeyError, TypeError, AttributeError, DataError) as error:
            raise DataError(
                "{path}, line {number}: {error}",
                hint="mend or remove that line, or name another file with --out",
                path=self.path,
                number=number,
                error=error,
            ) from error
