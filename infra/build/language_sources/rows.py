"""The committed tables: measurements of one replica, and the rate or memory of each GPU in a training run."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

SERVING_PATH = Path(__file__).with_name("serving.csv.gz")
_DIGITS = 5
# A NamedTuple whose fields are strings and numbers.
Row = TypeVar("Row", bound=Any)


class ServingRow(NamedTuple):
    """One measured cell of one replica, with the columns of `serving.csv.gz`; nan or '' if the source does
    not say. SOURCES.md explains `kind` and the flags.

    A replica has `gpus` = tensor_parallel x pipeline_parallel x attention_dp GPUs. `concurrency` counts its
    sequences in flight; rates are the replica's. `tpot_seconds` excludes the first token. `sigma` is the
    relative standard deviation of repeats."""

    source: str
    licence: str
    model: str
    gpu: str
    engine: str
    precision: str
    kind: str
    input_tokens: float
    output_tokens: float
    gpus: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    attention_dp: int = 1
    link: str = "none"
    engine_version: str = ""
    date: str = ""
    kv_precision: str = "bf16"
    concurrency: float = math.nan
    requests_per_second_offered: float = math.nan
    requests: float = math.nan
    ttft_seconds: float = math.nan
    tpot_seconds: float = math.nan
    output_tokens_per_second: float = math.nan
    requests_per_second: float = math.nan
    sigma: float = math.nan
    fit: int = 1
    flags: str = ""

    @property
    def places(self) -> float:
        """Sequences that the server admits: one fewer than in flight if one request always waits."""
        return self.concurrency - ("one-waits" in self.flags.split())


def read_serving(path: Path = SERVING_PATH) -> list[ServingRow]:
    """The rows of a CSV (or .csv.gz) with these columns; see `read_table`."""
    return read_table(ServingRow, path)


def read_table(kind: type[Row], path: Path) -> list[Row]:
    """The rows of a CSV (or .csv.gz) whose columns are the fields of `kind`. Columns with a default may be
    missing; extra columns are ignored.

    Raises OSError if the file cannot be read, `ValueError` that names a missing column or a field that is no
    number."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    records = csv.DictReader(io.StringIO(text))
    needed = set(kind._fields) - set(kind._field_defaults)
    if missing := needed - set(records.fieldnames or ()):
        raise ValueError(f"{path.name} has no column {', '.join(sorted(missing))}")
    types = get_type_hints(kind)
    return [_row(record, kind, types) for record in records]


def _row(record: Mapping[str, str], kind: type[Row], types: Mapping[str, type]) -> Row:
    values: dict[str, Any] = {}
    for name, of_type in types.items():
        text = record.get(name) or ""
        if text or name not in kind._field_defaults:
            values[name] = _value(text, of_type)
    row: Row = kind(**values)
    return row


def _value(text: str, of_type: type) -> str | int | float:
    if of_type is str:
        return text
    number = float(text or "nan")
    return int(number) if of_type is int else number


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Write a sorted gzipped CSV; equal rows give equal bytes, and fractions have five significant digits."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(sorted([_text(value) for value in row] for row in rows))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.{_DIGITS}g}"


TRAINING_PATH = Path(__file__).with_name("training.csv.gz")


class TrainingRow(NamedTuple):
    """One run, with the columns of `training.csv.gz`; nan or '' if the source does not say.

    `framework` is fsdp (PyTorch) or megatron, `released` the month of the run or its report. `checkpointing`
    is none, selective or full; `sharding` none, gradients (ZeRO-2) or all (ZeRO-3). The row has the model's
    sizes, since many of these models are in no other table. `switched` counts GPUs that one NVLink switch
    connects. `gpu_watts` and `gpu_gb_per_second` are set for a variant that differs from the data sheet.
    `job_seconds` are of a whole job with unknown tokens, the same number in all rows of a source."""

    source: str
    licence: str
    framework: str
    released: str
    model: str
    gpu: str
    gpus: int
    method: str
    precision: str
    sequence: int
    micro_batch: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: int
    vocab: int
    tied: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    accumulation: int = 0
    checkpointing: str = "none"
    sharding: str = "none"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    link: str = "nvlink"
    switched: int = 8
    eager: int = 0
    script: int = 0
    gpu_watts: float = math.nan
    gpu_gb_per_second: float = math.nan
    tokens_per_second_per_gpu: float = math.nan
    peak_memory_gib: float = math.nan
    job_seconds: float = math.nan
    flags: str = ""
