"""What a user measured on a GPU, out of whichever file holds it: rows, and why others are none.

Taken are `advisor measure --out` (advisor.anchor/1), `advisor measurements export` and the file
of a campaign (JSON lines both). A row is one step of PyTorch eager on a real GPU, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.domain import Gpu, Observation, Precision
from advisor.errors import UsageError

SCHEMA = "advisor.anchor/1"
# Of a run, its first steps say how it started; fewer than these say nothing of how it goes on.
FEWEST_STEPS = 3
# Nobody measures a step of a day: such a number is in another unit, or damaged.
LONGEST_STEP_SECONDS = 86_400.0
TOO_LONG = "a step of more than a day is no measured one; times are in seconds"

# From what CUDA calls a card to its data sheet; `UsageError` where there is none.
SheetOf = Callable[[str], Gpu]


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is no anchor. `is_told`: worth a word even where other rows are good."""

    origin: str
    reason: str
    is_told: bool


@dataclass(frozen=True, slots=True)
class AnchorFile:
    """All of one file. `captured` and `input_shape` describe its network where it says so.

    An observation's network is "" where a script does not name it.
    """

    path: Path
    observations: tuple[Observation, ...]
    refused: tuple[RefusedRow, ...]
    input_shape: tuple[int, ...] | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)


def read_anchor(path: Path, sheet_of: SheetOf, precision: Precision) -> AnchorFile:
    """The file's rows; a script that does not name its precision ran in `precision`.

    `UsageError` names a file that cannot be read, or is something else.
    """
    from sweeps.anchors.documents import read_document
    from sweeps.anchors.observing import read_measurements

    content = _content(path)
    document = _whole(content)
    if isinstance(document, dict) and "schema" in document:
        if document["schema"] == SCHEMA:
            return read_document(path, document, sheet_of, precision)
        if isinstance(document["schema"], str):
            raise UsageError(f"{path} is {document['schema']}, not a measurement; {_way_out()}")
    return read_measurements(path, content, sheet_of)


def no_anchor(path: Path, why: str) -> UsageError:
    """A file that cannot be used, in one line with the way out."""
    return UsageError(f"{path} is no anchor: {why}; {_way_out()}")


def _way_out() -> str:
    return "--anchor takes what `advisor measure --out` or `advisor measurements export` wrote"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read '{path}' ({error.strerror}); {_way_out()}") from error


def _whole(content: bytes) -> Any:
    """The file as one JSON value; None where it is none, as lines of JSON are."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
