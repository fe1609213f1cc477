"""Published step times and data sheets as records, read from CSV texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from advisor.domain import Gpu, Precision, Task
from advisor.errors import DataError
from models.performance.step_work import HALF, PYTORCH, Stack, capability

# How sources timed their steps; others take an optimiser step and hold their input on the GPU.
_COPIES_INPUT_WITHOUT_OPTIMIZER = frozenset({"pytorch-2020"})
_FUSED = frozenset({"tensorrt-int8"})


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One step time that others measured, with how they measured it."""

    stack: Stack
    gpu: Gpu
    network: str
    task: Task
    precision: str
    batch_size: int
    step_seconds: float

    @property
    def is_eager(self) -> bool:
        """Whether the row tells all sides of a GPU: a compiled INT8 network tells only one."""
        return not self.stack.fused

    @property
    def is_pytorch(self) -> bool:
        """Whether the row may pass for a PyTorch rate, whatever its version."""
        return self.stack.name.startswith(PYTORCH)


def read_published(rows_path: Path, gpus_path: Path) -> tuple[PublishedRow, ...]:
    """All rows that teach something; `DataError` names a file that cannot be read.

    fp16 on GPUs without tensor cores is left out: libraries of the time disagreed by 2x on
    whether to compute it at the fp32 rate, and nobody chooses it today.
    """
    try:
        gpus = read_gpus(gpus_path.read_text())
        rows = [_row(record, gpus) for record in _records(rows_path)]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(
            f"published measurements cannot be read ({error}); they are part of a checkout, in "
            "infra/performance_sources"
        ) from error
    return tuple(r for r in rows if not (r.precision == HALF and capability(r.gpu) < 7))


def read_gpus(text: str) -> dict[str, Gpu]:
    """Data sheets by name, in the table's order; `DataError` when it cannot be read."""
    try:
        return {record["name"]: _gpu(record) for record in csv.DictReader(io.StringIO(text))}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"no table of GPUs ({error}); install the package again") from error


def _records(path: Path) -> Iterable[Mapping[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _gpu(record: Mapping[str, str]) -> Gpu:
    tf32, fp16, bf16 = (
        float(record[name]) if record[name] else None
        for name in ("tf32_tflops", "fp16_tflops", "bf16_tflops")
    )
    return Gpu(
        name=record["name"],
        vendor=record["vendor"],
        architecture=record["architecture"],
        compute_capability=record["compute_capability"],
        memory_mib=int(record["memory_mib"]),
        memory_gb_per_second=float(record["memory_gb_per_second"]),
        fp32_tflops=float(record["fp32_tflops"]),
        tf32_tflops=tf32,
        fp16_tflops=fp16,
        bf16_tflops=bf16,
    )


def _row(record: Mapping[str, str], gpus: Mapping[str, Gpu]) -> PublishedRow:
    name = record["stack"]
    bare = name in _COPIES_INPUT_WITHOUT_OPTIMIZER
    precision = record["precision"]
    return PublishedRow(
        stack=Stack(name, record["host"], record["tf32"] == "True", not bare, bare, name in _FUSED),
        gpu=gpus[record["gpu"]],
        network=record["network"],
        task=Task(record["task"]),
        precision=precision if precision == HALF else Precision(precision),
        batch_size=int(record["batch_size"]),
        step_seconds=float(record["step_seconds"]),
    )
