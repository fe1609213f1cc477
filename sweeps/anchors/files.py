"""What a user measured on a GPU, out of whichever file holds it: rows, and why others are none.

Taken are `advisor measure --out` (advisor.anchor/1), `advisor measurements export` and the file
of a campaign (JSON lines both). A row is one step of PyTorch eager on a real GPU, nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from advisor.domain import Precision
from advisor.errors import UsageError
from sweeps.anchors.documents import read_document
from sweeps.anchors.observing import read_measurements
from sweeps.anchors.records import SCHEMA, WAY_OUT, AnchorFile, SheetOf


def read_anchor(path: Path, sheet_of: SheetOf, precision: Precision) -> AnchorFile:
    """The file's rows; a script that does not name its precision ran in `precision`.

    `UsageError` names a file that cannot be read, or is something else.
    """
    content = _content(path)
    document = _whole(content)
    if isinstance(document, dict) and "schema" in document:
        if document["schema"] == SCHEMA:
            return read_document(path, document, sheet_of, precision)
        if isinstance(document["schema"], str):
            raise UsageError(
                "{path} is {schema}, not a measurement",
                hint=WAY_OUT,
                path=path,
                schema=document["schema"],
            )
    return read_measurements(path, content, sheet_of)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            "cannot read '{path}' ({strerror})", hint=WAY_OUT, path=path, strerror=error.strerror
        ) from error


def _whole(content: bytes) -> Any:
    """The file as one JSON value; None where it is none, as lines of JSON are."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
