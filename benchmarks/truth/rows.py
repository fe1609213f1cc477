"""Measured rows to score on: the public tables' format, or that of observations.csv.gz."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
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
from advisor.infra.build.performance_sources.naming import batch_of, gpu_of, named, precision_of, stack_of
from advisor.infra.build.performance_sources.peaks import counts_in, measured_mib

# PyTorch's own ways to run a network; what another library makes of one is no PyTorch rate.
ASKED = {"eager": "eager", "torchscript": "eager", "ngc": "eager", "compile": "compile"}
_TF32 = {"none", "conv", "all"}
NO_LICENCE = "none seen"


class Row(Struct, frozen=True):
    """One measured step (`seconds`) or peak (`memory_mib`), each None where it is not told.

    `batch_size` is a GPU's, in samples of the network; `input` is the table's word or ''. `software` is what
    ran it: versions, kinds of attention; `conditions` what it did and how it was timed; `counts` what its
    notes say that its peak counts (`performance_sources.peaks.Counts`)."""

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
    counts: str = ""

    @property
    def samples_per_second(self) -> float:
        """One GPU's rate; nan without a step."""
        return self.batch_size / self.seconds if self.seconds else math.nan


def read_rows(path: Path) -> list[Row | str]:
    """A row of the file each, or in words why it cannot be asked. Unknown columns are ignored.

    Raises OSError where the file cannot be read."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return rows_of(csv.DictReader(io.StringIO(text)))


def rows_of(records: Iterable[Mapping[str, str]]) -> list[Row | str]:
    """As `read_rows`, of records by the columns' names."""
    return [_row({key: value or "" for key, value in record.items() if key}) for record in records]


def _row(record: Mapping[str, str]) -> Row | str:
    ready = "step_seconds" in record
    if record.get("fit") == "0" and record.get("licence") != NO_LICENCE:
        if not _number(record.get("peak_memory_mib")):
            return "a row that no fit may take"
        record = {**record, "step_seconds": ""}  # its peak is a GPU's all the same
    stack = record.get("stack") or stack_of(record.get("eager", ""), record.get("framework", ""))
    if stack not in ASKED:
        return f"stack {stack}"
    if (_number(record.get("gpu_count")) or 1) > 1 and ranks_of(record) == 1:
        return "several GPUs"
    batch = _number(record.get("batch_size"))
    if batch is None:
        return "no batch size"
    record = {**record, "stack": stack}
    return _ready(record, batch) if ready else _raw(record, batch)


def _ready(record: Mapping[str, str], batch: float) -> Row | str:
    return _checked(
        Row(
            source=record.get("source", ""),
            network=record.get("network", ""),
            task=record.get("task", ""),
            stack=ASKED[record["stack"]],
            memory_format=record.get("memory_format") or "contiguous",
            precision=record.get("precision", ""),
            tf32=record.get("tf32", "") if record.get("tf32") in _TF32 else "conv",
            gpu=record.get("gpu", ""),
            batch_size=round(batch),
            input=record.get("input", ""),
            seconds=_number(record.get("step_seconds")),
            memory_mib=_number(record.get("peak_memory_mib")),
            software=_software(record),
            conditions=tuple(measured_conditions(record).items()),
        )
    )


def _raw(record: Mapping[str, str], batch: float) -> Row | str:
    """The public tables' own format: the step is told in ms, or as a rate of all GPUs."""
    source, precision = record.get("source", ""), record.get("precision", "")
    notes = record.get("notes", "")
    if re.search("SUSPECT|unusable|ratios only|Percentiles|mol/ms|tok/s", notes):
        return "the source's own notes doubt it"
    name = named(source, record.get("network", ""), record.get("input", "").strip(), record.get("task", ""))
    batch = batch_of(source, record.get("network", ""), record.get("task", ""), batch)
    step, rate = _number(record.get("step_ms")), _number(record.get("samples_per_second"))
    seconds = step / 1e3 if step else batch * ranks_of(record) / rate if rate else None
    last = f"{notes} {record.get('memory_format', '')}"
    return _checked(
        Row(
            source=source,
            network=name.network,
            task=record.get("task", ""),
            stack=ASKED[record["stack"]],
            memory_format="channels_last"
            if "channels_last" in last or record["stack"] == "ngc"
            else "contiguous",
            precision=precision_of(precision),
            tf32="all" if "tf32" in precision or record["stack"] == "ngc" else "conv",
            gpu=gpu_of(record.get("gpu", "")),
            batch_size=max(1, round(batch * name.batch_factor)),
            input=name.input,
            seconds=seconds / name.steps if seconds else None,
            memory_mib=None if "TRAINING peak" in notes else _memory(record),
            software=_software(record),
            conditions=tuple(measured_conditions({**record, "variant": _variant(record)}).items()),
            counts=counts_in(notes),
        )
    )


def _variant(record: Mapping[str, str]) -> str:
    match = re.search(r"attention=\w+", record.get("notes", ""))
    return match[0] if match else "xformers" if "xformers" in record.get("eager", "") else ""


def _software(record: Mapping[str, str]) -> str:
    stack = "" if record["stack"] in ("eager", "compile") else record["stack"]
    version = record.get("framework", "").removesuffix("-compile")
    return " ".join(filter(None, (stack, version, record.get("variant", ""))))


def _memory(record: Mapping[str, str]) -> float | None:
    """MiB; more than any GPU has is a source's other unit."""
    found = _number(record.get("peak_memory_mib"))
    return found if found and found < 300_000 else None


def _checked(row: Row) -> Row | str:
    if row.memory_mib:
        row = replace(row, memory_mib=measured_mib(row.source, row.memory_mib))
    elif row.seconds is None:
        return "no rate and no memory"
    if row.batch_size < 1:
        return "no batch size"
    if row.task not in ("training", "inference"):
        return f"task {row.task}"
    if is_of_a_single_token(row.source, row.network, row.task):
        return "one token with a cache"
    if row.source in LEFT_OUT:
        # Its peaks are a GPU's all the same.
        return replace(row, seconds=None) if row.memory_mib else "a source of no GPU's steps"
    return row


def _number(text: str | None) -> float | None:
    """A finite number above zero, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
