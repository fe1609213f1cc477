"""GPU data sheets of `catalog/gpu_specs.csv`, found by whatever a source calls the GPU."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from advisor.domain import Gpu
from benchmarks.accuracy.figures import NothingToScore

SHEETS = Path("catalog/gpu_specs.csv")
_MAKERS = re.compile(r"nvidia|geforce|tesla|amd")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A GPU, and its multiprocessors where the sheet counts them."""

    gpu: Gpu
    multiprocessors: float | None


class DataSheets:
    """Data sheets by name."""

    def __init__(self, sheets: dict[str, Sheet]) -> None:
        self._sheets = sheets

    def find(self, name: str) -> Sheet | None:
        """'GeForce RTX 2080 Ti', 'rtx3090' or '4090': the one sheet that is meant, or None."""
        wanted = _letters(name)
        if wanted in self._sheets:
            return self._sheets[wanted]
        ending = [sheet for known, sheet in self._sheets.items() if known.endswith(wanted)]
        return ending[0] if wanted and len(ending) == 1 else None


def read_data_sheets(folder: Path) -> DataSheets:
    """The sheets under `folder`; those without fp32 rate, bandwidth or memory are left out."""
    path = folder / SHEETS
    if not path.is_file():
        raise NothingToScore(f"no {SHEETS} under {folder}: no GPU has a data sheet")
    with path.open(newline="") as file:
        found = {_letters(record["gpu"]): _sheet(record) for record in csv.DictReader(file)}
    return DataSheets({name: sheet for name, sheet in found.items() if sheet is not None})


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _MAKERS.sub("", name.partition("(")[0].lower()))


def _sheet(record: dict[str, str]) -> Sheet | None:
    numbers = {name: _number(record.get(name)) for name in record}
    memory, bandwidth = numbers.get("memory_gb"), numbers.get("memory_bandwidth_gb_s")
    fp32 = numbers.get("fp32_tflops")
    if not (memory and bandwidth and fp32):
        return None
    gpu = Gpu(
        name=record["gpu"],
        vendor=record.get("vendor", ""),
        architecture=record.get("architecture", ""),
        compute_capability=record.get("compute_capability") or None,
        memory_mib=int(memory * 1024),
        memory_gb_per_second=bandwidth,
        fp32_tflops=fp32,
        tf32_tflops=numbers.get("tf32_dense_tflops"),
        fp16_tflops=numbers.get("fp16_dense_tflops"),
        bf16_tflops=numbers.get("bf16_dense_tflops"),
    )
    return Sheet(gpu, numbers.get("sms"))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
