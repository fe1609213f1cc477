"""Measurements as documents: listed, imported, exported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from advisor.domain import Measurement
from sweeps.formats.exporting import csv_header, csv_rows, summary_row, to_jsonl
from sweeps.formats.importing import ReadLines
from sweeps.quality.checking import spread_document
from sweeps.store import Appended, Damaged, Stored

LIST, IMPORT = "advisor.measurements/1", "advisor.measurements-import/1"


def list_document(stored: Stored, *, spread: bool) -> dict[str, Any]:
    """`advisor.measurements/1`: a flat row a measurement, numbers unrounded; `spread` on demand,
    since a bootstrap of a run takes milliseconds."""
    return {
        "schema": LIST,
        "measurements": [_listed(row, spread) for row in stored.measurements],
        "damaged": [{"trial_id": row.trial_id, "reason": row.reason} for row in stored.damaged],
    }


def import_document(read: ReadLines, done: Appended) -> dict[str, Any]:
    """`advisor.measurements-import/1`: what was kept, and each line that was not."""
    return {
        "schema": IMPORT,
        "added": done.added,
        "replaced": done.replaced,
        "known": len(read.measurements) - done.added - done.replaced,
        "repeated": read.repeated,
        "refused": [{"line": row.line, "reason": row.reason} for row in read.refused],
    }


def exported(pages: Iterable[Stored], form: str) -> Iterator[str]:
    """The whole export in pieces. A row that cannot be read has a line that says so, which an
    import refuses by its number."""
    return _csv(pages) if form == "csv" else _jsonl(pages)


def _jsonl(pages: Iterable[Stored]) -> Iterator[str]:
    for stored in pages:
        yield to_jsonl(stored.measurements) + "".join(map(_damaged_line, stored.damaged))


def _csv(pages: Iterable[Stored]) -> Iterator[str]:
    yield csv_header()
    for stored in pages:
        damaged = [
            {"trial_id": row.trial_id, "status": "damaged", "reason": row.reason}
            for row in stored.damaged
        ]
        yield csv_rows([*map(summary_row, stored.measurements), *damaged])


def _damaged_line(row: Damaged) -> str:
    return json.dumps({"damaged": row.trial_id, "reason": row.reason}) + "\n"


def _listed(row: Measurement, spread: bool) -> Mapping[str, Any]:
    return {**summary_row(row), "spread": spread_document(row)} if spread else summary_row(row)
