"""Data sheets of GPUs, read from the bundle when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from advisor.catalog.files import Files
from advisor.domain import Gpu
from advisor.domain.machines import gpu_of_row, number_of


class GpuSheet(Struct, frozen=True, kw_only=True):
    """A data sheet with what a person chooses by and no prediction needs; None: unknown.

    `fp64_tflops` is without tensor cores; `link` is how it reaches the host and other GPUs.
    """

    gpu: Gpu
    fp64_tflops: float | None
    int8_tops: float | None
    fp8_tflops: float | None
    link: str | None


Value = TypeVar("Value")


class BuiltLate(Mapping[str, Value]):
    """Values by name, each built when it is asked for: few of two hundred are, in an answer."""

    def __init__(self, names: Iterable[str], build: Callable[[str], Value]) -> None:
        self._known: dict[str, Value | None] = dict.fromkeys(names)
        self._build = build

    def __getitem__(self, name: str) -> Value:
        known = self._known[name]
        if known is None:
            known = self._known[name] = self._build(name)
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def read_sheets(files: Files) -> Mapping[str, GpuSheet]:
    """Data sheets by name; memory is nominal, rates are dense."""
    table = files.table("catalog/gpus.csv")
    lines = table.lines_by_key()
    return BuiltLate(lines, lambda name: _sheet(table.record(lines[name])))


def _sheet(row: dict[str, str]) -> GpuSheet:
    return GpuSheet(
        gpu=gpu_of_row(row),
        fp64_tflops=number_of(row["fp64_tflops"]),
        int8_tops=number_of(row["int8_tops"]),
        fp8_tflops=number_of(row["fp8_tflops"]),
        link=row["link"] or None,
    )
