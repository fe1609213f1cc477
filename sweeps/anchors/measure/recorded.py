"""The steps that the hook recorded, out of its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.errors import MeasuringError
from advisor.sweeps.hook import SCHEMA, unfinished
from advisor.sweeps.quality.timing import count_warmup_steps

# Of a loop, fewer steps say nothing.
FEWEST_STEPS = 4
_SCHEMAS = (SCHEMA, "advisor.steps/1")


class RecordedSteps(Struct):
    """Rows are [seconds waited for the loader, seconds, samples], of all epochs in order.

    `epochs` have their first row's number, the seconds between the epoch before and this one, and
    those until its first batch came (part of its first row); `facts` are of torch and the device.
    """

    rows: list[list[float]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """Loader processes, whose rounds show in the steps."""
        return max(1, self.facts.get("loader_workers") or 1)

    @property
    def warmup(self) -> int:
        """The number of rows that do not count: the first one allocates and chooses algorithms."""
        seconds = [seconds for _, seconds, _ in self.rows]
        return max(1, count_warmup_steps(seconds, self.period, cold=True))


def read_steps(path: Path) -> RecordedSteps:
    """The steps in the file, also where its script was killed in the middle of a line.

    `MeasuringError` where another version of the hook wrote it.
    """
    result = RecordedSteps()
    for line in path.read_text().splitlines():
        try:
            news = json.loads(line)
        except ValueError:
            break
        schema = news.pop("schema", SCHEMA)
        if schema not in _SCHEMAS:
            raise MeasuringError(
                "the script's steps have the format {get}, not {schema}",
                get=schema,
                schema=SCHEMA,
                hint="let it use the hook of this version",
            )
        for part in ("warmup", "counted", "steps"):
            result.rows += news.pop(part, ())
        result.epochs += news.pop("epochs", ())
        result.facts |= news
    return result


def gpu_uuid(path: Path) -> str | None:
    """The UUID of the GPU that the script uses, while its file grows: empty for none, None where it is
    unknown yet."""
    file = path if path.exists() else unfinished(path)
    try:
        with file.open() as lines:
            next(lines)
            return str(json.loads(next(lines)).get("gpu_uuid", ""))
    except (OSError, StopIteration, ValueError):
        return None
