"""The campaign's file: one measurement a line, on disk before the next cell begins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.sweeps.formats.serialization import measurement_from_dict, measurement_to_dict

# Worth another try in the next run; whatever else is in the file is done.
_TRIED_AGAIN = frozenset({Status.CONTAMINATED})


class Records:
    """Measurements in a JSONL file that outlives the run; a later line of a trial counts.

    What a killed run left of a line is cut off; any other line that cannot be read is a
    `DataError` with its number, and nothing is changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, Measurement] = {}
        self._of_this_run: set[str] = set()
        self._read()

    @property
    def done(self) -> Mapping[str, Measurement]:
        """What need not be measured (again) in this run, by trial_id."""
        return {
            key: row
            for key, row in self._rows.items()
            if key in self._of_this_run or row.status not in _TRIED_AGAIN
        }

    def append(self, measurement: Measurement) -> None:
        """Keep it durably; what is on disk stays readable at whatever instant this is killed."""
        line = json.dumps(measurement_to_dict(measurement)).encode() + b"\n"
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
        self._rows[measurement.trial.trial_id] = measurement
        self._of_this_run.add(measurement.trial.trial_id)

    def _read(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = self.path.read_bytes() if self.path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            for number, line in enumerate(whole.splitlines(), start=1):
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
        if not line.strip():
            return
        try:
            row = measurement_from_dict(json.loads(line))
        except (ValueError, AttributeError, DataError) as error:
            raise DataError(
                "{path}, line {number}: {error}",
                hint="mend or remove that line, or name another file with --out",
                path=self.path,
                number=number,
                error=error,
            ) from error
        self._rows[row.trial.trial_id] = row
