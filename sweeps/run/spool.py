"""Keeps measurements in a file while their database is away."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from advisor.domain import Measurement
from advisor.errors import DataError
from advisor.files import user_folder
from advisor.messages import Message
from advisor.sweeps.formats.files import to_jsonl

_BEGIN = "unsaved-"


class Spool:
    """A JSONL file of `advisor measurements import`, made with its first line."""

    def __init__(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self._name = f"{_BEGIN}{stamp}-{os.getpid()}.jsonl"
        self.path: Path | None = None

    def keep(self, measurement: Measurement) -> Path:
        """Write it durably; returns the file. `DataError` when no place takes it."""
        line = to_jsonl([measurement])
        for path in [self.path] if self.path else [folder / self._name for folder in _folders()]:
            try:
                _append(path, line)
            except OSError:
                continue
            self.path = path
            return path
        raise DataError("no place on this machine took what was measured", hint="free some space")

    def explained(self, failure: DataError) -> DataError:
        """The failure, with what to do with the file where there is one."""
        if self.path is None:
            return failure
        return DataError(
            "{failure}",
            hint=Message(
                "what was measured is kept, and no run of it lost: once the database is "
                "back, advisor measurements import {path}",
                path=self.path,
            ),
            failure=failure,
        )


def unsaved_files() -> list[Path]:
    """Spool files on this machine that nobody has imported and removed yet."""
    return sorted({entry for folder in _folders() for entry in folder.glob(f"{_BEGIN}*.jsonl")})


def _folders() -> tuple[Path, ...]:
    return user_folder(), Path.cwd(), Path(tempfile.gettempdir())


def _append(path: Path, line: str) -> None:
    """One more line on the disk; one that a full disk truncated is cut off again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.stat().st_size if path.exists() else 0
    try:
        with path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        if whole:
            os.truncate(path, whole)
        else:
            path.unlink(missing_ok=True)
        raise
