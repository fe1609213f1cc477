"""The campaign's file: one cell a line, on disk before the next one begins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.errors import DataError

Row = dict[str, Any]


class Rows:
    """Rows by their cell's key. What a killed run left of a line is cut off; any other line that
    cannot be read is a `DataError` with its number."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        self._read()

    @property
    def done(self) -> Mapping[str, Row]:
        """What need not be measured again: a cell that failed stays so until its line goes."""
        return self._rows

    def append(self, row: Row) -> None:
        """Keep a row durably."""
        try:
            with self._path.open("ab") as file:
                file.write(json.dumps(row).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(
                "cannot write '{path}' ({strerror})",
                path=self._path,
                strerror=error.strerror,
                hint="what is in it stays, run again when there is room",
            ) from error
        self._rows[row["cell"]] = row

    def _read(self) -> None:
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.truncate(self._path, len(whole))
        except OSError as error:
            raise DataError(
                "cannot use '{path}' ({strerror})",
                path=self._path,
                strerror=error.strerror,
                hint="name another file with --out",
            ) from error
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                self._rows[row["cell"]] = row
                _ = row["status"], row["concurrency"]
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    "{path}, line {number} is no row of this campaign",
                    path=self._path,
                    number=number,
                    hint="mend or remove that line, or name another file with --out",
                ) from error
