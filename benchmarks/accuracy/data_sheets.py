"""GPU data sheets by name, from catalog/gpu_specs.csv of a directory, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from advisor.domain import Gpu
from benchmarks.accuracy.figures import NothingToScore

SPECS = Path("catalog/gpu_specs.csv")
_MAKERS = frozenset({"nvidia", "amd", "geforce", "tesla", "per", "gpu", "board"})
# What turns one card into another; a name that has one of them more is not the same card.
_QUALIFIERS = frozenset({"ti", "super", "max", "mobile", "laptop", "with", "d", "ada", "pro"})
_MEMORY = re.compile(r"\d+gb")


def read_data_sheets(folder: Path) -> dict[str, Gpu]:
    """Sheets by name; rows without fp32 rate, bandwidth or memory are left out.

    Raises NothingToScore when the file is missing or holds no sheet.
    """
    path = folder / SPECS
    if not path.is_file():
        raise NothingToScore(f"{path} is missing: no data sheets")
    sheets = {}
    for row in pd.read_csv(path).to_dict("records"):
        gpu = _gpu(row)
        if gpu is not None:
            sheets[gpu.name] = gpu
    if not sheets:
        raise NothingToScore(f"{path} holds no usable data sheet")
    return sheets


def _gpu(row: Mapping[str, object]) -> Gpu | None:
    try:
        return Gpu(
            name=str(row["gpu"]).partition(" (")[0],
            vendor=str(row["vendor"]),
            architecture=str(row["architecture"]),
            compute_capability=str(row["compute_capability"]),
            memory_mib=int(_positive(row, "memory_gb") or 0) * 1024,
            memory_gb_per_second=_positive(row, "memory_bandwidth_gb_s") or 0,
            fp32_tflops=_positive(row, "fp32_tflops") or 0,
            tf32_tflops=_positive(row, "tf32_dense_tflops"),
            fp16_tflops=_positive(row, "fp16_dense_tflops"),
            bf16_tflops=_positive(row, "bf16_dense_tflops"),
        )
    except (KeyError, ValueError):
        return None


def _positive(row: Mapping[str, object], name: str) -> float | None:
    number = float(str(row.get(name, "nan")))
    return number if 0 < number < float("inf") else None


def find_sheet(measured: str, sheets: Mapping[str, Gpu]) -> Gpu | None:
    """The sheet of a GPU as a driver or a folder names it; None where there is none.

    All words of the sheet's name must stand in the measured name, and no word more that makes
    another card ("Ti", "Super", "Max-Q"). A card of data centres that comes in several forms
    (V100-SXM3-32GB) stands for another form with the same memory, if there is only one.
    """
    words = _words(measured)
    named = [gpu for name, gpu in sheets.items() if _is_named(words, _words(name))]
    if named:
        return max(named, key=lambda gpu: len(_words(gpu.name)))
    forms = [gpu for name, gpu in sheets.items() if _is_form(words, _words(name))]
    return forms[0] if len(forms) == 1 else None


def _is_named(words: tuple[str, ...], sheet: tuple[str, ...]) -> bool:
    return set(sheet) <= set(words) and not (set(words) - set(sheet)) & _QUALIFIERS


def _is_form(words: tuple[str, ...], sheet: tuple[str, ...]) -> bool:
    memory = next((word for word in sheet if _MEMORY.fullmatch(word)), None)
    return memory in words and sheet[0] in words


def _words(name: str) -> tuple[str, ...]:
    found = re.findall(r"[a-z0-9]+", name.partition(" (")[0].casefold())
    return tuple(word for word in found if word not in _MAKERS)
