"""Measured rows to score on, in the columns of observations.csv.gz."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.infra.build.fitting.observations import (
    LEFT_OUT,
    is_of_a_single_token,
    measured_conditions,
    ranks_of,
)
from benchmarks.truth.peaks import measured_mib

# PyTorch's own ways to run a network; what another library makes of one is no PyTorch rate.
ASKED = {"eager": "eager", "torchscript": "eager", "ngc": "eager", "compile": "compile"}
_TF32 = {"none", "conv", "all"}
NO_LICENCE = "none seen"


class Row(Struct, frozen=True):
    """One measured step (`seconds`) or peak (`memory_mib`), each None where it is not told.

    `batch_size` is a GPU's, in samples of the network; `input` is the table's word or ''.
    `software` is what ran it: versions, kinds of attention; `conditions` what it did and how it was timed;
    """

    source: str
    network: str
    task: str
    stack: str
    memory_format: str
    precision: str
    tf32: str
    gpu: str
    batch_size: int
    input: str
    seconds: float | None
    memory_mib: float | None
    software: str = ""
    conditions: tuple[tuple[str, Any], ...] = ()

    @property
    def samples_per_second(self) -> float:
        """One GPU's rate; nan without a step."""
        return self.batch_size / self.seconds if self.seconds else math.nan


def read_rows(path: Path) -> list[Row | str]:
    """A row of the file each, or in words why it cannot be asked. Unknown columns are ignored.

    Raises OSError where the file cannot be read.
    """
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return rows_of(csv.DictReader(io.StringIO(text)))


def rows_of(records: Iterable[Mapping[str, str]]) -> list[Row | str]:
    """As `read_rows`, of records by the columns' names."""
    return [_row({key: value or "" for key, value in record.items() if key}) for record in records]


def _row(record: Mapping[str, str]) -> Row | str:
    seconds, memory = _number(record.get("step_seconds")), _number(record.get("peak_memory_mib"))
    if record.get("fit") == "0" and record.get("licence") != NO_LICENCE:
        if not memory:
            return "a row that no fit may take"
        seconds = None  # its peak is a GPU's all the same
    if record["stack"] not in ASKED:
        return f"stack {record['stack']}"
    if (_number(record.get("gpu_count")) or 1) > 1 and ranks_of(record) == 1:
        return "several GPUs"
    batch = _number(record.get("batch_size"))
    if batch is None:
        return "no batch size"
    source, tf32 = record["source"], record.get("tf32", "")
    row = Row(
        source=source,
        network=record["network"],
        task=record["task"],
        stack=ASKED[record["stack"]],
        memory_format=record.get("memory_format") or "contiguous",
        precision=record["precision"],
        tf32=tf32 if tf32 in _TF32 else "conv",
        gpu=record["gpu"],
        batch_size=round(batch),
        input=record.get("input", ""),
        seconds=seconds,
        memory_mib=measured_mib(source, memory) if memory else None,
        software=_software(record),
        conditions=tuple(measured_conditions(record).items()),
    )
    return _reason_against(row) or (replace(row, seconds=None) if source in LEFT_OUT else row)


def _reason_against(row: Row) -> str:
    """Why a row cannot be asked; '' where it can."""
    if not (row.memory_mib or row.seconds):
        return "no rate and no memory"
    if row.batch_size < 1:
        return "no batch size"
    if row.task not in ("training", "inference"):
        return f"task {row.task}"
    if is_of_a_single_token(row.source, row.network, row.task):
        return "one token with a cache"
    # Peaks of such a source are a GPU's all the same.
    return "a source of no GPU's steps" if row.source in LEFT_OUT and not row.memory_mib else ""


def _software(record: Mapping[str, str]) -> str:
    stack = "" if record["stack"] in ("eager", "compile") else record["stack"]
    version = record.get("framework", "").removesuffix("-compile")
    return " ".join(filter(None, (stack, version, record.get("variant", ""))))


def _number(text: str | None) -> float | None:
    """A finite number above zero, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
