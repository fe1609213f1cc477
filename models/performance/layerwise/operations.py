"""Captured operations of networks: rows of kernels that are alike, and the file of many networks.

One line of the file is one `OperationRow` of `models.zoo.capture`, after the network it belongs
to; numbers that do not change from line to line are left empty, so that it stays small.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.domain import Task
from advisor.errors import DataError
from models.performance.networks import Floats

KINDS = (
    "conv_depthwise",
    "conv_grouped",
    "conv_1x1",
    "conv_3x3",
    "conv_kxk",
    "linear",
    "attention",
    "norm",
    "pool",
    "copy",
    "cast",
    "reduce",
    "softmax",
    "elementwise",
)
# The kinds that multiply come first; the others only move bytes.
PRODUCTS = KINDS[:7]
COLUMNS = (
    "library", "network", "pixels", "task", "autocast", "form",
    "kind", "backward", "flops", "sample_bytes", "fixed_bytes", "reduction", "width", "kernels",
)  # fmt: skip
_IDENTITY = 6
# `form` of a row: products are the same in an eager and in a compiled step.
BOTH, EAGER, COMPILED = "both", "eager", "compiled"


class NetworkKey(NamedTuple):
    """Which captured step: `autocast` is mixed fp16/fp32, else all in fp32."""

    library: str
    network: str
    pixels: int
    task: Task
    autocast: bool


@dataclass(frozen=True, slots=True)
class StepOperations:
    """Kernels of one step that are alike, as columns of equal length (`kind` indexes `KINDS`).

    FLOPs and sample bytes are per sample and kernel, fixed bytes of any batch; `backward` is 1
    for what autograd starts; `count` kernels are meant by a row.
    """

    kind: Any
    backward: Floats
    flops: Floats
    sample_bytes: Floats
    fixed_bytes: Floats
    reduction: Floats
    width: Floats
    count: Floats

    def in_bytes(self, width: float) -> StepOperations:
        """The same step of another number format, `width` times as wide."""
        return StepOperations(
            self.kind, self.backward, self.flops, self.sample_bytes * width,
            self.fixed_bytes * width, self.reduction, self.width, self.count,
        )  # fmt: skip


def step_operations(rows: Iterable[Sequence[Any]]) -> StepOperations:
    """Columns of rows (kind, backward, flops, sample_bytes, fixed_bytes, reduction, width, count).

    Raises `DataError` for a kind that is not in `KINDS`, and for no rows at all.
    """
    listed = list(rows)
    unknown = sorted({str(row[0]) for row in listed} - set(KINDS))
    if unknown or not listed:
        raise DataError(
            f"operations of unknown kinds ({', '.join(unknown)})" if unknown else "no operations"
        )
    kind = np.array([KINDS.index(row[0]) for row in listed])
    numbers = np.array([row[1:] for row in listed], dtype=float).T
    return StepOperations(kind, *numbers)


class OperationTable:
    """Captured steps by `NetworkKey`, eager and compiled."""

    def __init__(self, rows: Mapping[NetworkKey, Sequence[tuple[str, Sequence[Any]]]]) -> None:
        """`rows` holds (form, row) pairs."""
        self._rows = dict(rows)
        self._decoded: dict[tuple[NetworkKey, bool], StepOperations] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    @property
    def keys(self) -> tuple[NetworkKey, ...]:
        """All captured steps."""
        return tuple(self._rows)

    def add(self, key: NetworkKey, eager: Sequence[Any], compiled: Sequence[Any]) -> None:
        """Take in a step, given the rows of its two forms."""
        self._rows[key] = merged_forms(eager, compiled)

    def step(self, key: NetworkKey, *, compiled: bool = False) -> StepOperations:
        """One captured step; KeyError where it is not in the table."""
        if (key, compiled) not in self._decoded:
            wanted = {BOTH, COMPILED if compiled else EAGER}
            rows = [row for form, row in self._rows[key] if form in wanted]
            self._decoded[key, compiled] = step_operations(rows)
        return self._decoded[key, compiled]

    def write(self, path: Path) -> None:
        """As gzipped CSV with the columns `COLUMNS`, in the order of the keys."""
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write((",".join(COLUMNS) + "\n").encode())
            before: list[str] = [""] * _IDENTITY
            for key in sorted(self._rows):
                for form, row in sorted(self._rows[key], key=_order):
                    identity = [*map(_text, key), form]
                    changed = ["" if a == b else a for a, b in zip(identity, before, strict=True)]
                    before = identity
                    packed.write((",".join([*changed, *map(_text, row)]) + "\n").encode())


def _order(pair: tuple[str, Sequence[Any]]) -> tuple[Any, ...]:
    form, row = pair
    return form, KINDS.index(row[0]), *row[1:]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def merged_forms(eager: Sequence[Any], compiled: Sequence[Any]) -> list[tuple[str, Sequence[Any]]]:
    """(form, row) pairs of the two forms of a step, with what they share told once."""
    first, second = [tuple(row) for row in eager], [tuple(row) for row in compiled]
    shared = set(first) & set(second)
    forms = [(BOTH if row in shared else EAGER, row) for row in first]
    return [*forms, *((COMPILED, row) for row in second if row not in shared)]


def read_operations(path: Path) -> OperationTable:
    """The table that `OperationTable.write` wrote; `DataError` names a file that is none."""
    rows: dict[NetworkKey, list[tuple[str, Sequence[Any]]]] = {}
    try:
        with gzip.open(path, "rt", newline="") as file:
            lines = csv.reader(file)
            if tuple(next(lines)) != COLUMNS:
                raise DataError(f"{path} has other columns than {', '.join(COLUMNS)}")
            identity = [""] * _IDENTITY
            for line in lines:
                fresh = line[:_IDENTITY]
                identity = [new or old for new, old in zip(fresh, identity, strict=True)]
                row = (line[_IDENTITY], *map(float, line[_IDENTITY + 1 :]))
                rows.setdefault(_key(identity), []).append((identity[5], row))
    except (OSError, EOFError, ValueError, StopIteration) as error:
        raise DataError(f"{path} is no table of operations ({error}); build it again") from error
    return OperationTable(rows)


def _key(identity: Sequence[str]) -> NetworkKey:
    library, network, pixels, task, autocast, _ = identity
    return NetworkKey(library, network, int(pixels), Task(task), autocast == "1")
