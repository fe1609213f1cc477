"""GPU data sheets of catalog/gpu_specs.csv of a directory: read once, found by whatever name."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from advisor.domain import Gpu
from benchmarks.accuracy.figures import NothingToScore
from models.performance.transfer.sheets import Sheet, clock_ghz

SPECS = Path("catalog/gpu_specs.csv")
_MAKERS = frozenset({"nvidia", "amd", "geforce", "tesla", "per", "gpu", "board"})
# What turns one card into another; a name that has one of them more is not the same card.
_QUALIFIERS = frozenset({"ti", "super", "max", "mobile", "laptop", "with", "d", "ada", "pro"})
_MEMORY = re.compile(r"\d+gb")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSheet:
    """A GPU with its multiprocessors and cores where the sheet counts them.

    `aws_families` ("g4dn") are the instances that have it.
    """

    gpu: Gpu
    multiprocessors: float | None = None
    cuda_cores: float | None = None
    aws_families: tuple[str, ...] = ()


def read_data_sheets(folder: Path) -> dict[str, DataSheet]:
    """Sheets by name; rows without fp32 rate, bandwidth or memory are left out.

    Raises NothingToScore when the file is missing or holds no sheet.
    """
    path = folder / SPECS
    if not path.is_file():
        raise NothingToScore(f"{path} is missing: no GPU has a data sheet")
    with path.open(newline="", encoding="utf-8") as file:
        found = [sheet for row in csv.DictReader(file) if (sheet := _sheet(row)) is not None]
    if not found:
        raise NothingToScore(f"{path} holds no usable data sheet")
    return {sheet.gpu.name: sheet for sheet in found}


def read_gpus(folder: Path) -> dict[str, Gpu]:
    """The GPUs of all sheets by name; raises as `read_data_sheets` does."""
    return {name: sheet.gpu for name, sheet in read_data_sheets(folder).items()}


def read_family_sheets(folder: Path) -> dict[str, Sheet]:
    """Sheets by AWS family; empty without the file. Cards that lack cores or generation are left
    out, and a family that several cards list (p4d ..) takes the first card."""
    try:
        sheets = read_data_sheets(folder)
    except NothingToScore:
        return {}
    found: dict[str, Sheet] = {}
    for sheet in sheets.values():
        transferable = _transferable(sheet)
        for family in sheet.aws_families if transferable else ():
            found.setdefault(family, transferable)
    return found


def instance_sheet(sheets: Mapping[str, Sheet], instance: str) -> Sheet | None:
    """The sheet of an instance's GPU, by the instance's family."""
    return sheets.get(instance.partition(".")[0])


def find_sheet(measured: str, sheets: Mapping[str, _Found]) -> _Found | None:
    """The sheet of a GPU as a driver, a folder or a person names it; None where there is none.

    All words of the sheet's name must stand in the measured name, and no word more that makes
    another card ("Ti", "Super", "Max-Q"). A card of data centres that comes in several forms
    (V100-SXM3-32GB) stands for another form with the same memory, if there is only one. At last
    the end of a name will do ("rtx3090", "4090"), if it is the end of one name only.
    """
    words = _words(measured)
    named = [name for name in sheets if _is_named(words, _words(name))]
    if named:
        return sheets[max(named, key=lambda name: len(_words(name)))]
    forms = [name for name in sheets if _is_form(words, _words(name))]
    short = "".join(words)
    ending = [name for name in sheets if short and "".join(_words(name)).endswith(short)]
    only = next((found for found in (forms, ending) if len(found) == 1), None)
    return sheets[only[0]] if only else None


def _sheet(row: Mapping[str, str]) -> DataSheet | None:
    memory, bandwidth = _positive(row, "memory_gb"), _positive(row, "memory_bandwidth_gb_s")
    fp32, name = _positive(row, "fp32_tflops"), (row.get("gpu") or "").partition(" (")[0]
    if not (memory and bandwidth and fp32 and name):
        return None
    gpu = Gpu(
        name=name,
        vendor=row.get("vendor") or "",
        architecture=row.get("architecture") or "",
        compute_capability=row.get("compute_capability") or None,
        memory_mib=int(memory * 1024),
        memory_gb_per_second=bandwidth,
        fp32_tflops=fp32,
        tf32_tflops=_positive(row, "tf32_dense_tflops"),
        fp16_tflops=_positive(row, "fp16_dense_tflops"),
        bf16_tflops=_positive(row, "bf16_dense_tflops"),
    )
    families = (text.split("(")[0].strip() for text in (row.get("aws_families") or "").split(";"))
    return DataSheet(
        gpu=gpu,
        multiprocessors=_positive(row, "sms"),
        cuda_cores=_positive(row, "cuda_cores"),
        aws_families=tuple(family for family in families if family),
    )


def _transferable(sheet: DataSheet) -> Sheet | None:
    generation = _number(sheet.gpu.compute_capability)
    if not (sheet.cuda_cores and generation):
        return None
    return Sheet(
        name=sheet.gpu.name,
        fp32_tflops=sheet.gpu.fp32_tflops,
        memory_gb_per_second=sheet.gpu.memory_gb_per_second,
        clock_ghz=clock_ghz(sheet.gpu.fp32_tflops, sheet.cuda_cores),
        generation=generation,
    )


def _positive(row: Mapping[str, str], name: str) -> float | None:
    return _number(row.get(name))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


def _is_named(words: tuple[str, ...], sheet: tuple[str, ...]) -> bool:
    return set(sheet) <= set(words) and not (set(words) - set(sheet)) & _QUALIFIERS


def _is_form(words: tuple[str, ...], sheet: tuple[str, ...]) -> bool:
    memory = next((word for word in sheet if _MEMORY.fullmatch(word)), None)
    return memory in words and sheet[0] in words


def _words(name: str) -> tuple[str, ...]:
    found = re.findall(r"[a-z0-9]+", name.partition(" (")[0].casefold())
    return tuple(word for word in found if word not in _MAKERS)
